"""Responses on the native lane, by OpenAI's client over real bridges: translated, direct, and the other way round.

The providers' sides are mocks of their own dialects, so that what arrives there is seen as they would see it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI

from bridge_process import BridgeProcess, bridge_process
from dialect_provider import ARGUMENTS, SIGNATURE, THOUGHT, DialectProvider
from native_providers import Answer, NativeProviders, native_providers

pytestmark = pytest.mark.timeout(120)

KEYS = {
    "ANTHROPIC_API_KEY": "anthropic-key-for-tests-0815",
    "GEMINI_API_KEY": "gemini-key-for-tests-0815",
    "OPENAI_API_KEY": "openai-key-for-tests-0815",
    "AZURE_API_KEY": "azure-key-for-tests-0815",
}
ADD = {
    "type": "function",
    "name": "add",
    "description": "adds",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    "strict": False,
}
ADD_IN_CHAT = {
    "type": "function",
    "function": {name: ADD[name] for name in ("name", "description", "parameters")},
}
ASKED = "7 + 8?"


@pytest.fixture(scope="module")
def model() -> Iterator[DialectProvider]:
    with DialectProvider().serving() as provider:
        yield provider


@pytest.fixture
def provider(model: DialectProvider) -> DialectProvider:
    model.clear()
    return model


@pytest.fixture(scope="module")
def google() -> Iterator[NativeProviders]:
    with native_providers() as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bridges")


def bridge(folder: Path, model: str, base: str, *flags: str) -> Any:
    place = folder / model.replace("/", "-")
    place.mkdir()
    return bridge_process(
        place, base, *flags, model=model, environ=KEYS | {"OSMOSIS_BRIDGE_TOKEN": "t" * 24}, token="t" * 24
    )


@pytest.fixture(scope="module")
def claude(model: DialectProvider, folder: Path) -> Iterator[BridgeProcess]:
    with bridge(folder, "anthropic/claude-sonnet-4-5", model.url.removesuffix("/v1")) as running:
        yield running


@pytest.fixture(scope="module")
def gemini(google: NativeProviders, folder: Path) -> Iterator[BridgeProcess]:
    with bridge(folder, "gemini/gemini-2.5-flash", google.url) as running:
        yield running


@pytest.fixture(scope="module")
def official(model: DialectProvider, folder: Path) -> Iterator[BridgeProcess]:
    """A provider that has Responses itself."""
    with bridge(folder, "openai/gpt-4o", model.url, "--lane", "native") as running:
        yield running


@pytest.fixture(scope="module")
def forced(model: DialectProvider, folder: Path) -> Iterator[BridgeProcess]:
    """The same, where the model path says that chat completions go to Responses."""
    with bridge(folder, "openai/responses/gpt-5.6-sol", model.url) as running:
        yield running


def client(bridge: BridgeProcess, rollout_id: str) -> OpenAI:
    return OpenAI(
        base_url=bridge.base_url(rollout_id), api_key=bridge.bearer(rollout_id), max_retries=0, timeout=60
    )


def asked_of(client: OpenAI, *, stream: bool, **fields: Any) -> Any:
    """One response, by the client's own assembler where it is a stream."""
    given: dict[str, Any] = {"model": "mine", "tools": [ADD], "instructions": "be brief"} | fields
    if not stream:
        return client.responses.create(**given)
    with client.responses.stream(**given) as events:
        seen = [event.type for event in events]
        found = events.get_final_response()
    assert seen[:2] == ["response.created", "response.in_progress"]
    assert seen[-1] == "response.completed"
    return found


def items_of(response: Any) -> list[Any]:
    """The output as an agent framework sends it back."""
    return [item.model_dump(exclude_none=True) for item in response.output]


BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])


@BOTH
def test_claude_calls_a_tool_and_gets_its_signed_reasoning_back(
    stream: bool, claude: BridgeProcess, provider: DialectProvider
) -> None:
    provider.thinks = True
    rollout = f"claude-{stream}"
    openai_client = client(claude, rollout)
    first = asked_of(openai_client, stream=stream, input=ASKED, max_output_tokens=99)
    reasoning, call = first.output
    assert (reasoning.type, reasoning.summary[0].text) == ("reasoning", THOUGHT)
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "add", ARGUMENTS)
    assert first.model == "mine"
    history = [
        {"role": "user", "content": ASKED},
        *items_of(first),
        {"type": "function_call_output", "call_id": call.call_id, "output": "15"},
    ]
    second = asked_of(openai_client, stream=stream, input=history)
    assert second.output_text == "the tool said 15"
    assert second.usage is not None
    assert second.usage.total_tokens == second.usage.input_tokens + second.usage.output_tokens
    sent = provider.asked[-1].body
    assert provider.asked[0].body["max_tokens"] == 99
    assert sent["system"] == [{"type": "text", "text": "be brief"}]
    assert [block["type"] for block in sent["messages"][1]["content"]] == ["thinking", "tool_use"]
    assert sent["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": THOUGHT,
        "signature": SIGNATURE,
    }
    records = claude.records(rollout)
    assert [(each["dialect"], each["lane"], each["status"]) for each in records] == [
        ("responses", "native", "ok")
    ] * 2
    assert [each["usage"]["total_tokens"] for each in records] == [second.usage.total_tokens] * 2
    assert {each["usage_source"] for each in records} == {"provider"}


def test_reasoning_that_a_client_dropped_is_remembered(
    claude: BridgeProcess, provider: DialectProvider
) -> None:
    provider.thinks = True
    openai_client = client(claude, "claude-drops")
    first = asked_of(openai_client, stream=False, input=ASKED)
    call = first.output[-1]
    kept = {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "15"}
    asked_of(openai_client, stream=False, input=[{"role": "user", "content": ASKED}, kept, output])
    assert provider.asked[-1].body["messages"][1]["content"][0]["signature"] == SIGNATURE


@BOTH
def test_gemini_gets_the_signature_of_a_call_back(
    stream: bool, gemini: BridgeProcess, google: NativeProviders
) -> None:
    google.answer = Answer(text=(), thinking="hm", tool=("add", ARGUMENTS))
    rollout = f"gemini-{stream}"
    openai_client = client(gemini, rollout)
    first = asked_of(openai_client, stream=stream, input=ASKED)
    call = first.output[-1]
    assert (call.name, json.loads(call.arguments)) == ("add", ARGUMENTS)
    google.answer = Answer(text=("fif", "teen"))
    history = [
        {"role": "user", "content": ASKED},
        *items_of(first),
        {"type": "function_call_output", "call_id": call.call_id, "output": "15"},
    ]
    # Another rollout, so that what comes back is what the client sent, not what is remembered.
    second = asked_of(client(gemini, f"{rollout}-2"), stream=stream, input=history)
    assert second.output_text == "fifteen"
    parts = google.calls[-1].body["contents"][1]["parts"]
    assert [part["thoughtSignature"] for part in parts if "function_call" in part] == [Answer().signature]
    assert gemini.record(f"{rollout}-2")["usage"]["total_tokens"] == 18


def test_usage_that_the_provider_did_not_count_is_missing(
    gemini: BridgeProcess, google: NativeProviders
) -> None:
    google.answer = Answer(usage=False)
    assert asked_of(client(gemini, "uncounted"), stream=False, input="hi", tools=[]).usage is None
    assert gemini.record("uncounted")["usage_source"] == "missing"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"store": True}, "store"),
        ({"max_output_tokens": 9, "extra_body": {"seed": 1}}, "seed"),
        ({"input": [{"role": "user", "content": "a", "name": "ann"}]}, "input[0].name"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ],
)
def test_what_claude_has_no_place_for_is_refused_by_the_client_s_own_name(
    fields: dict[str, Any], param: str, claude: BridgeProcess, provider: DialectProvider
) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        asked_of(client(claude, "refused"), stream=False, **({"input": "hi"} | fields))
    assert refusal.value.param == param
    assert refusal.value.code == "unsupported_parameter"
    assert provider.asked == []


def test_a_stream_that_breaks_off_raises(gemini: BridgeProcess, google: NativeProviders) -> None:
    google.answer = Answer(cut_after=1)
    with pytest.raises(openai.APIError):
        asked_of(client(gemini, "cut"), stream=True, input="hi", tools=[])
    assert gemini.record("cut")["status"] in ("upstream_error", "truncated")


def test_an_error_of_the_provider_keeps_its_status(claude: BridgeProcess, provider: DialectProvider) -> None:
    provider.trouble = "overloaded"
    with pytest.raises(openai.APIStatusError) as failure:
        asked_of(client(claude, "overloaded"), stream=True, input="hi")
    assert failure.value.status_code == 529


@BOTH
def test_where_the_provider_has_responses_itself_they_go_as_they_are(
    stream: bool, official: BridgeProcess, provider: DialectProvider
) -> None:
    provider.thinks = True
    rollout = f"direct-{stream}"
    openai_client = client(official, rollout)
    first = asked_of(openai_client, stream=stream, input=ASKED, store=True, previous_response_id="resp_0")
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    asked = provider.asked[-1]
    assert asked.dialect == "responses"
    assert asked.body["model"] == "gpt-4o"
    assert (asked.body["store"], asked.body["previous_response_id"]) == (True, "resp_0")
    assert asked.headers["authorization"] == f"Bearer {KEYS['OPENAI_API_KEY']}"
    record = official.record(rollout)
    assert (record["dialect"], record["usage_source"]) == ("responses", "provider")


def chat(bridge: BridgeProcess, rollout: str, *, stream: bool, **fields: Any) -> Any:
    """One chat completion's message and finish reason."""
    given: dict[str, Any] = {"model": "mine", "tools": [ADD_IN_CHAT], "reasoning_effort": "low"} | fields
    openai_client = client(bridge, rollout)
    if not stream:
        return openai_client.chat.completions.create(**given).choices[0]
    with openai_client.chat.completions.stream(stream_options={"include_usage": True}, **given) as events:
        for _ in events:
            pass
        completion = events.get_final_completion()
    assert completion.usage is not None
    return completion.choices[0]


@BOTH
def test_a_chat_client_reaches_responses_with_its_tools_and_the_model_keeps_its_reasoning(
    stream: bool, forced: BridgeProcess, provider: DialectProvider
) -> None:
    provider.thinks = True
    rollout = f"forced-{stream}"
    question = {"role": "user", "content": ASKED}
    first = chat(forced, rollout, stream=stream, messages=[question], max_tokens=99)
    (call,) = first.message.tool_calls
    assert (first.finish_reason, json.loads(call.function.arguments)) == ("tool_calls", ARGUMENTS)
    asked = provider.asked[-1]
    assert asked.dialect == "responses"
    assert asked.body["model"] == "gpt-5.6-sol"
    assert asked.body["reasoning"] == {"effort": "low"}
    assert (asked.body["max_output_tokens"], asked.body["store"]) == (99, False)
    assert asked.body["include"] == ["reasoning.encrypted_content"]
    assert asked.body["tools"] == [ADD]
    # As a framework sends it that keeps OpenAI's own fields only.
    turn = {
        "role": "assistant",
        "content": first.message.content,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
        ],
    }
    result = {"role": "tool", "tool_call_id": call.id, "content": "15"}
    second = chat(forced, rollout, stream=stream, messages=[question, turn, result])
    assert (second.message.content, second.finish_reason) == ("the tool said 15", "stop")
    items = provider.asked[-1].body["input"]
    assert [item["type"] for item in items] == [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert items[1]["encrypted_content"] == SIGNATURE
    assert {(each["dialect"], each["usage_source"]) for each in forced.records(rollout)} == {
        ("chat", "provider")
    }


def test_what_responses_has_no_field_for_is_refused_by_name(
    forced: BridgeProcess, provider: DialectProvider
) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        chat(
            forced, "forced-refused", stream=False, messages=[{"role": "user", "content": "hi"}], stop=["END"]
        )
    assert refusal.value.param == "stop"
    assert provider.asked == []


@pytest.mark.parametrize("trouble", ["told in the stream", "cut", "failed"])
def test_a_response_that_breaks_off_is_no_completion(
    trouble: Any, forced: BridgeProcess, provider: DialectProvider
) -> None:
    provider.trouble = trouble
    with pytest.raises(openai.APIError):
        chat(
            forced,
            f"forced-{trouble[:3]}",
            stream=True,
            messages=[{"role": "user", "content": "hi"}],
            tools=[],
        )
    assert forced.record(f"forced-{trouble[:3]}")["status"] in ("upstream_error", "truncated")


def test_a_report_says_which_endpoint_is_taken_and_why(
    forced: BridgeProcess, provider: DialectProvider
) -> None:
    report = client(forced, "explained").post(
        "/chat/completions",
        cast_to=dict[str, Any],
        body={"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
        options={"headers": {"x-osmosis-dry-run": "1"}},
    )
    assert report["outgoing"]["url"].endswith("/responses")
    rows = {row["field"]: row for row in report["fields"]}
    assert rows["messages"]["at"] == "input"
    assert rows["messages"]["why"] == "the model path says responses/"
    assert rows["max_tokens"]["at"] == "max_output_tokens"
    assert provider.asked == []
