"""The generated table says what the installed LiteLLM does."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from osmosis_bridge.provider_table import LITELLM_VERSION, NATIVE, WIRE

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "refresh_providers.py"


def test_the_table_was_made_from_the_locked_litellm() -> None:
    assert importlib.metadata.version("litellm") == LITELLM_VERSION


# LiteLLM alone takes five seconds to import; every provider is then asked several times.
@pytest.mark.timeout(180)
def test_the_table_is_what_litellm_would_send() -> None:
    checked = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert checked.stdout == ""
    assert checked.returncode == 0, checked.stderr[-2000:]


def test_the_table_is_as_wide_as_litellm() -> None:
    wire, native = {row[0] for row in WIRE}, {row[0] for row in NATIVE}
    assert len(wire) > 100
    assert {
        "openrouter",
        "openai",
        "groq",
        "deepseek",
        "mistral",
        "together_ai",
        "fireworks_ai",
        "xai",
    } <= wire
    assert {"hosted_vllm", "lm_studio", "llamafile", "litellm_proxy", "custom_openai", "ollama"} <= wire
    assert {"anthropic", "gemini", "vertex_ai", "bedrock", "azure", "cohere"} <= native
