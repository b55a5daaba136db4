"""What becomes of every field on every route, on the LiteLLM that is installed, against the table that was kept."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(600)

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "refresh_native_matrix.py"
TABLE: dict[str, dict[str, str]] = json.loads(
    (Path(__file__).parent / "matrix.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def measured() -> dict[str, dict[str, str]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--measure"], capture_output=True, text=True, timeout=540, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_no_cell_changed(measured: dict[str, dict[str, str]]) -> None:
    changed = [
        f"{case} | {route}: {TABLE.get(case, {}).get(route)} -> {cell}"
        for case, cells in measured.items()
        for route, cell in cells.items()
        if TABLE.get(case, {}).get(route) != cell
    ]
    assert not changed, (
        f"LiteLLM {version('litellm')} treats fields in another way than was kept; read the changes, then run "
        f"scripts/refresh_native_matrix.py:\n" + "\n".join(changed)
    )


def test_the_table_holds_every_case_and_route(measured: dict[str, dict[str, str]]) -> None:
    assert TABLE.keys() == measured.keys()
    assert len(TABLE) >= 70
    assert all(len(cells) == 19 for cells in TABLE.values())


def cells() -> list[tuple[str, str, str]]:
    return [(case, route, cell) for case, row in TABLE.items() for route, cell in row.items()]


def test_no_field_is_lost_in_silence() -> None:
    lost = [
        (case, route, cell) for case, route, cell in cells() if cell == "DROP" or cell.startswith("error")
    ]
    assert lost == []


@pytest.mark.parametrize(
    ("case", "route", "cell"),
    [
        ("stop of 5", "anthropic/claude-sonnet-4-5", ">stop_sequences"),
        ("response_format json_object", "bedrock/amazon.nova-pro-v1:0", "!"),
        ("user", "gemini/gemini-2.5-flash", "!"),
        ("user", "anthropic/claude-sonnet-4-5", ">metadata.user_id"),
        ("metadata", "azure/gpt-4o", "="),
        ("metadata", "mistral/mistral-large-latest", "="),
        ("metadata", "anthropic/claude-sonnet-4-5", "!"),
        ("metadata user_id", "anthropic/claude-sonnet-4-5", "="),
        ("service_tier auto", "gemini/gemini-2.5-flash", "!"),
        ("reasoning_effort low", "ollama_chat/llama3", ">think"),
        ("tools strict", "anthropic/claude-sonnet-4-5", "~tools"),
        ("tools strict", "gemini/gemini-2.5-flash", "~tools >toolConfig.functionCallingConfig.mode"),
        ("tools strict", "cohere/command-a-03-2025", "= >strict_tools"),
        ("tools strict", "bedrock/amazon.nova-pro-v1:0", "!"),
        ("generationConfig with max_tokens", "gemini/gemini-2.5-flash", "!max_tokens"),
        ("tool_choice required", "cohere/command-a-03-2025", "~tool_choice"),
        ("chat_template_kwargs", "fireworks_ai/accounts/fireworks/models/some-model", "="),
        ("verbosity", "openai/gpt-4o", "="),
        ("tags", "bedrock/amazon.nova-pro-v1:0", "!"),
        ("turns: assistant empty", "anthropic/claude-sonnet-4-5", "!messages[1].content"),
    ],
)
def test_what_litellm_loses_is_placed_or_refused(case: str, route: str, cell: str) -> None:
    assert TABLE[case][route] == cell


def test_the_differences_are_told_cell_by_cell() -> None:
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        import refresh_native_matrix

        found: Any = refresh_native_matrix.differences(
            {"a": {"x": "="}}, {"a": {"x": "!"}, "b": {"x": "DROP"}}
        )
    finally:
        sys.path.remove(str(SCRIPT.parent))
    assert found == ["a | x: = -> !", "b | x: new -> DROP"]
