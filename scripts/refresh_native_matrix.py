"""Measure what becomes of every field on every native route, and write it down: `tests/native/matrix.json`.

    python scripts/refresh_native_matrix.py            measure, rewrite the table, print what changed
    python scripts/refresh_native_matrix.py --measure  measure, print the table, write nothing

Run it when LiteLLM is upgraded, and read what changed before it is kept. Nothing is sent: each request is taken as it
would be sent, at the HTTP layer. A cell says what became of one field:

    =        stands in the outgoing body under its own name
    >path    stands there, under another name or place
    ~path    stands there with another value
    ~path >path2   the second says where a part of it stands, such as the strict of tools
    -        left out, since leaving it out means the same
    !        refused by name, before any call
    DROP     lost without a word; no table with such a cell is kept
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from osmosis_bridge.errors import BridgeError
from osmosis_bridge.native.lane import Lane, Settings
from osmosis_bridge.native_process import child_environ
from osmosis_bridge.redact import Redactor

TABLE: Final = Path(__file__).parent.parent / "tests" / "native" / "matrix.json"
_KEY: Final = "not-a-key"

ROUTES: Final = (
    "anthropic/claude-sonnet-4-5",
    "vertex_ai/claude-sonnet-4@20250514",
    "gemini/gemini-2.5-flash",
    "vertex_ai/gemini-2.5-flash",
    "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0",
    "bedrock/amazon.nova-pro-v1:0",
    "cohere/command-a-03-2025",
    "mistral/mistral-large-latest",
    "ollama_chat/llama3",
    "openai/gpt-4o",
    "openai/gpt-5",
    "azure/gpt-4o",
    "openrouter/openai/gpt-4o",
    "hosted_vllm/some-model",
    "deepseek/deepseek-chat",
    "xai/grok-4",
    "together_ai/meta-llama/some-model",
    "fireworks_ai/accounts/fireworks/models/some-model",
    "groq/llama-3.3-70b-versatile",
)
_BASES: Final = {"azure": "http://127.0.0.1:9/", "hosted_vllm": "http://127.0.0.1:9/v1"}
_ENVIRON: Final = {
    "AWS_ACCESS_KEY_ID": "AKIA" + "0" * 16,
    "AWS_SECRET_ACCESS_KEY": _KEY,
    "AWS_REGION_NAME": "us-east-1",
    "AZURE_API_VERSION": "2024-10-21",
    "VERTEXAI_PROJECT": "project",
    "VERTEXAI_LOCATION": "us-east5",
}

_PARAMETERS: Final = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Rome"], "description": "where"}},
    "required": ["city"],
}


def _tool(**more: object) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": "weather", "description": "tells it", "parameters": _PARAMETERS} | more,
        }
    ]


def _schema(**more: object) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": _PARAMETERS} | more}


_TOOLS: Final = {"tools": _tool()}
_HI: Final = {"role": "user", "content": "hi"}
_CALL: Final = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city":"Rome"}'},
}
_PIXEL: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
    "AABJRU5ErkJggg=="
)
_SEEN: Final = {"type": "image_url", "image_url": {"url": _PIXEL}}
_SEEN_WELL: Final = {"type": "image_url", "image_url": {"url": _PIXEL, "detail": "high"}}
_MARKED: Final = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}

FIELDS: Final[dict[str, dict[str, Any]]] = {
    # A case: the field that is looked at comes first, what it needs beside it after it.
    "temperature": {"temperature": 0.5},
    "temperature 1.5": {"temperature": 1.5},
    "temperature null": {"temperature": None},
    "top_p": {"top_p": 0.5},
    "top_k": {"top_k": 4},
    "min_p": {"min_p": 0.1},
    "max_tokens": {"max_tokens": 9},
    "max_completion_tokens": {"max_completion_tokens": 9},
    "stop text": {"stop": "A"},
    "stop of 2": {"stop": ["A", "B"]},
    "stop of 5": {"stop": ["A", "B", "C", "D", "E"]},
    "seed": {"seed": 7},
    "n 1": {"n": 1},
    "n 2": {"n": 2},
    "frequency_penalty": {"frequency_penalty": 0.5},
    "presence_penalty": {"presence_penalty": 0.5},
    "repetition_penalty": {"repetition_penalty": 1.1},
    "logit_bias": {"logit_bias": {"50256": -100}},
    "logprobs": {"logprobs": True},
    "top_logprobs": {"top_logprobs": 2, "logprobs": True},
    "user": {"user": "u-1"},
    "metadata": {"metadata": {"team": "red"}},
    "metadata user_id": {"metadata": {"user_id": "u-1"}},
    "reasoning_effort low": {"reasoning_effort": "low"},
    "reasoning_effort none": {"reasoning_effort": "none"},
    "reasoning_effort with max_tokens": {"max_tokens": 100, "reasoning_effort": "low"},
    "reasoning_effort with thinking": {
        "reasoning_effort": "low",
        "thinking": {"type": "enabled", "budget_tokens": 2048},
    },
    "generationConfig with max_tokens": {"generationConfig": {"maxOutputTokens": 5}, "max_tokens": 9},
    "inferenceConfig with max_tokens": {"inferenceConfig": {"maxTokens": 5}, "max_tokens": 9},
    "options with max_tokens": {"options": {"num_predict": 5}, "max_tokens": 9},
    "thinking": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "tools": {"tools": _tool()},
    "tools of none": {"tools": []},
    "tools without arguments": {"tools": _tool(parameters={"type": "object", "properties": {}})},
    "tools strict": {"tools": _tool(strict=True)},
    "tools not strict": {"tools": _tool(strict=False)},
    "tools closed": {"tools": _tool(parameters=_PARAMETERS | {"additionalProperties": False})},
    "tool_choice auto": {"tool_choice": "auto"} | _TOOLS,
    "tool_choice required": {"tool_choice": "required"} | _TOOLS,
    "tool_choice none": {"tool_choice": "none"} | _TOOLS,
    "tool_choice named": {"tool_choice": {"type": "function", "function": {"name": "weather"}}} | _TOOLS,
    "tool_choice without tools": {"tool_choice": "auto"},
    "parallel_tool_calls true": {"parallel_tool_calls": True} | _TOOLS,
    "parallel_tool_calls false": {"parallel_tool_calls": False} | _TOOLS,
    "parallel_tool_calls without tools": {"parallel_tool_calls": False},
    "functions": {"functions": [_tool()[0]["function"]]},
    "response_format text": {"response_format": {"type": "text"}},
    "response_format json_object": {"response_format": {"type": "json_object"}},
    "response_format json_schema": {"response_format": _schema()},
    "response_format strict": {"response_format": _schema(strict=True)},
    "stream_options": {"stream_options": {"include_usage": True}, "stream": True},
    "stream_options other": {"stream_options": {"include_usage": True, "x_unknown": 1}, "stream": True},
    "service_tier auto": {"service_tier": "auto"},
    "service_tier default": {"service_tier": "default"},
    "service_tier flex": {"service_tier": "flex"},
    "store": {"store": True},
    "prompt_cache_key": {"prompt_cache_key": "k"},
    "safety_identifier": {"safety_identifier": "s"},
    "verbosity": {"verbosity": "low"},
    "prediction": {"prediction": {"type": "content", "content": "x"}},
    "web_search_options": {"web_search_options": {}},
    "context_management": {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
    "modalities text": {"modalities": ["text"]},
    "audio": {"audio": {"voice": "Kore", "format": "pcm16"}, "modalities": ["audio"]},
    "cache_control": {"cache_control": {"type": "ephemeral"}},
    "chat_template_kwargs": {"chat_template_kwargs": {"enable_thinking": False}},
    "reasoning": {"reasoning": {"effort": "low"}},
    "provider": {"provider": {"order": ["x"]}},
    "safety_settings": {"safety_settings": [{"category": "C", "threshold": "T"}]},
    "guardrailConfig": {"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}},
    "requestMetadata": {"requestMetadata": {"a": "b"}},
    "x_unknown": {"x_unknown": {"a": [1, None, 2.5]}},
    "x_unknown false": {"x_unknown": False},
    "x_unknown null": {"x_unknown": None},
    "tags": {"tags": ["a"]},
    "order": {"order": 3},
    "weight": {"weight": 2},
    "id": {"id": "mine"},
    "ttl": {"ttl": 60},
    "roles": {"roles": {"user": "U"}},
    "cache": {"cache": {"no-store": True}},
    "model_kwargs": {"model_kwargs": {"a": 1}},
}
TURNS: Final[dict[str, list[dict[str, Any]]]] = {
    "turns: system": [{"role": "system", "content": "be brief"}, _HI],
    "turns: developer": [{"role": "developer", "content": "be brief"}, _HI],
    "turns: system last": [_HI, {"role": "system", "content": "be brief"}],
    "turns: two of the user": [_HI, {"role": "user", "content": "there"}],
    "turns: tool round trip": [
        _HI,
        {"role": "assistant", "content": None, "tool_calls": [_CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ],
    "turns: assistant first": [{"role": "assistant", "content": "hello"}, _HI],
    "turns: assistant last": [_HI, {"role": "assistant", "content": "it is"}],
    "turns: assistant empty": [_HI, {"role": "assistant", "content": ""}, _HI],
    "turns: name": [_HI | {"name": "ann"}],
    "turns: refusal null": [_HI, {"role": "assistant", "content": "a", "refusal": None}, _HI],
    "turns: unknown field": [_HI | {"mood": "good"}],
    "turns: image": [{"role": "user", "content": [{"type": "text", "text": "see"}, _SEEN]}],
    "turns: image detail": [{"role": "user", "content": [_SEEN_WELL]}],
    "turns: cache_control": [{"role": "user", "content": [_MARKED]}],
    "turns: thinking_blocks": [
        _HI,
        {
            "role": "assistant", "content": "a",
            "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
        },
        _HI,
    ],
    "turns: reasoning_content": [_HI, {"role": "assistant", "content": "a", "reasoning_content": "hm"}, _HI],
}  # fmt: skip

Table = dict[str, dict[str, str]]


def main(arguments: list[str]) -> int:
    """Measure; then print or write."""
    for name in set(os.environ) - set(child_environ(os.environ)):
        del os.environ[name]
    os.environ.update(child_environ(_ENVIRON))
    measured = asyncio.run(measure())
    if "--measure" in arguments:
        print(json.dumps(measured))
        return 0
    before: Table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    changes = differences(before, measured)
    print("\n".join(changes) or "nothing changed")
    lost = [change for change in changes if change.endswith("DROP")]
    if lost:
        print(
            f"{len(lost)} fields are lost without a word; give them a rule first. The table is not written."
        )
        return 1
    TABLE.write_text(_written(measured), encoding="utf-8")
    return 0


async def measure() -> Table:
    """The whole table: case, route, cell."""
    table: Table = {case: {} for case in (*FIELDS, *TURNS)}
    for route in ROUTES:
        lane = await _lane(route)
        for case, fields in FIELDS.items():
            table[case][route] = await _cell(lane, {"messages": [_HI]} | fields, next(iter(fields)))
        for case, turns in TURNS.items():
            table[case][route] = await _cell(
                lane, {"messages": turns} | ({"tools": _tool()} if "tool" in case else {}), None
            )
    return table


async def _lane(route: str) -> Lane:
    provider = route.partition("/")[0]
    keyless = provider in ("bedrock", "vertex_ai")
    lane = Lane(Settings(route, _BASES.get(provider), None if keyless else _KEY), Redactor())
    lane.start()
    await lane.loaded()
    if provider == "vertex_ai":
        _stand_in_for_google()
    return lane


def _stand_in_for_google() -> None:
    """A token of our own: what is measured is the request, not how it is authorised."""

    async def token(*_: object, **__: object) -> tuple[str, str]:
        return _KEY, "project"

    def token_at_once(*_: object, **__: object) -> tuple[str, str]:
        return _KEY, "project"

    base: Any = importlib.import_module("litellm.llms.vertex_ai.vertex_llm_base").VertexBase
    base._ensure_access_token_async = token  # noqa: SLF001 - there is no other door.
    base._ensure_access_token = token_at_once  # noqa: SLF001


async def _cell(lane: Lane, body: dict[str, Any], field: str | None) -> str:
    try:
        explained = await lane.explain(json.dumps(body).encode(), "matrix")
    except BridgeError as error:
        if error.code == "unsupported_parameter":
            return "!" if error.param == field else f"!{error.param}"
        return f"error {error.code}: {error.message}"[:120]
    if field is None:
        return "="
    row = next((row for row in explained.rows if row.field == field), None)
    if row is None:
        return "DROP"
    marks = {
        "forwarded": "=",
        "renamed to": f">{row.at}",
        "moved to": f">{row.at}",
        "value changed": f"~{row.at}",
        "left out": "-",
    }
    within = [f" >{row.at}" for row in explained.rows if row.field.startswith(f"{field}.")]
    return marks[row.became] + "".join(within)


def differences(before: Table, after: Table) -> list[str]:
    """One line for every cell that differs."""
    return [
        f"{case} | {route}: {before.get(case, {}).get(route, 'new')} -> {after.get(case, {}).get(route, 'gone')}"
        for case in before | after
        for route in before.get(case, {}) | after.get(case, {})
        if before.get(case, {}).get(route) != after.get(case, {}).get(route)
    ]


def _written(table: Table) -> str:
    """One line a case, so that a change is read in a diff."""
    lines = [f"{json.dumps(case)}: {json.dumps(cells)}" for case, cells in table.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
