"""How LiteLLM is set up, on a stand-in for it."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from osmosis_bridge.native import litellm_library
from osmosis_bridge.native.families.chat import RESPONSES
from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.gate import GATE, Gate
from osmosis_bridge.native.litellm_library import load, rehearse
from osmosis_bridge.native.plan import Plan


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("litellm")
    module.get_llm_provider = lambda model, api_base: (
        model.partition("/")[2],
        model.partition("/")[0],
        None,
        api_base,
    )
    module.get_supported_openai_params = lambda model, custom_llm_provider: ["tools", "seed"]
    module.types = SimpleNamespace(utils=SimpleNamespace(all_litellm_params=["tags"]))
    module.UnsupportedParamsError = ValueError
    configs = SimpleNamespace(
        get_provider_responses_api_config=lambda provider, model, api_base: (
            object() if provider in ("openai", "groq") and model != "chat-alone" else None
        )
    )
    module.utils = SimpleNamespace(ProviderConfigManager=configs)
    module.get_model_info = lambda model, custom_llm_provider: {"o3-pro": {"mode": "responses"}}[model]
    module.success_callback = ["somebody"]
    module.drop_params = True
    module.seen = []

    async def acompletion(**kwargs: Any) -> str:
        module.seen.append((kwargs, GATE.get()))
        return "reply"

    module.acompletion = acompletion
    monkeypatch.setitem(sys.modules, "litellm", module)
    monkeypatch.setattr(litellm_library, "install", lambda: None)
    return module


def test_nothing_is_dropped_changed_retried_or_reported(library: Any) -> None:
    loaded = load("gemini/gemini-x", None)
    assert (library.drop_params, library.modify_params, library.telemetry, library.num_retries) == (
        False,
        False,
        False,
        0,
    )
    assert library.success_callback == []
    assert library.disable_aiohttp_transport is True
    assert (loaded.model, loaded.provider, loaded.family) == ("gemini-x", "gemini", GEMINI)
    assert loaded.supported == {"tools", "seed"}
    assert loaded.reserved == {"tags"}


@pytest.mark.parametrize(
    ("path", "model", "speaks", "forced", "only"),
    [
        ("openai/gpt-4o", "gpt-4o", True, False, False),
        ("openai/responses/gpt-4o", "gpt-4o", True, True, False),
        ("openai/o3-pro", "o3-pro", True, False, True),
        ("openai/chat-alone", "chat-alone", False, False, False),
        ("anthropic/claude", "claude", False, False, False),
    ],
)
def test_which_models_have_responses_themselves(
    library: Any, path: str, model: str, speaks: bool, forced: bool, only: bool
) -> None:
    loaded = load(path, None)
    assert loaded.model == model
    assert ("/responses" in loaded.speaks) is speaks
    assert (loaded.backend.forced, loaded.backend.only) == (forced, only)


def test_a_call_of_responses_is_made_behind_its_gate(library: Any) -> None:
    async def aresponses(**kwargs: Any) -> str:
        library.seen.append((kwargs, GATE.get()))
        return "reply"

    library.aresponses = aresponses
    loaded = load("openai/gpt-4o", None)
    gate = Gate("learn", Plan({}, (), (), {}), RESPONSES, [])
    assert asyncio.run(loaded.respond(gate, {"input": "x"})) == "reply"
    assert library.seen == [({"input": "x"}, gate)]


def test_a_rehearsal_makes_one_call_behind_its_own_gate(library: Any) -> None:
    loaded = load("gemini/gemini-x", None)
    rehearse(loaded, {"model": "gemini/gemini-x"})
    (kwargs, gate) = library.seen[0]
    assert kwargs["messages"]
    assert gate.mode == "explain"
    assert GATE.get() is None


def test_a_rehearsal_that_fails_is_no_matter(library: Any) -> None:
    async def acompletion(**kwargs: Any) -> str:
        raise ValueError("no key")

    library.acompletion = acompletion
    rehearse(load("gemini/gemini-x", None), {})


def test_a_call_runs_with_its_gate(library: Any) -> None:
    loaded = load("gemini/gemini-x", None)
    gate: Any = object()
    assert asyncio.run(loaded.complete(gate, {"a": 1})) == "reply"
    assert library.seen == [({"a": 1}, gate)]
