"""Calls through LiteLLM against providers that speak their own dialects: what arrives there, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from native_lanes import KEY, native_lanes
from native_providers import Answer, NativeProviders, native_providers

pytestmark = pytest.mark.timeout(120)

NATIVE = ("anthropic", "gemini", "converse", "cohere", "ollama")
RELAYED = ("openai", "azure", "mistral")
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "tells it",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]
HI = {"role": "user", "content": "hi"}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def providers() -> Iterator[NativeProviders]:
    with native_providers() as server:
        yield server


@pytest.fixture(scope="module")
def lanes(providers: NativeProviders) -> Iterator[httpx.Client]:
    """A lane for each dialect, and as `NAME-nowhere` one whose provider is not there."""
    lanes = {
        "anthropic": ("anthropic/claude-sonnet-4-5", ""),
        "gemini": ("gemini/gemini-2.5-flash", ""),
        "converse": ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", ""),
        "cohere": ("cohere/command-a-03-2025", "/v2/chat"),
        "ollama": ("ollama_chat/llama3", ""),
        "openai": ("openai/gpt-4o", "/v1"),
        "azure": ("azure/gpt-4o", ""),
        "mistral": ("mistral/mistral-large-latest", "/v1"),
    }
    served = {name: (model, f"{providers.url}{path}") for name, (model, path) in lanes.items()}
    nowhere = {f"{name}-nowhere": (model, f"{NOWHERE}{path}") for name, (model, path) in lanes.items()}
    with native_lanes(served | nowhere) as client:
        yield client


@pytest.fixture
def provider(providers: NativeProviders) -> NativeProviders:
    providers.answer = Answer()
    providers.asked.clear()
    return providers


def ask(lanes: httpx.Client, lane: str, **fields: Any) -> httpx.Response:
    return lanes.post(f"/{lane}/v1/chat/completions", json={"model": "any", "messages": [HI]} | fields)


def stream(lanes: httpx.Client, lane: str, **fields: Any) -> list[dict[str, Any] | None]:
    """The events of a stream; `[DONE]` is None."""
    asked = {"stream": True, "stream_options": {"include_usage": True}} | fields
    reply = ask(lanes, lane, **asked)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = [block.removeprefix("data: ") for block in reply.text.split("\n\n") if block]
    return [None if event == "[DONE]" else json.loads(event) for event in events]


def text_of(events: list[dict[str, Any] | None]) -> str:
    deltas = [choice["delta"] for event in events if event for choice in event.get("choices", [])]
    return "".join(delta.get("content") or "" for delta in deltas)


def finishes_of(events: list[dict[str, Any] | None]) -> list[str]:
    choices = [choice for event in events if event for choice in event.get("choices", [])]
    return [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]


def calls_of(events: list[dict[str, Any] | None]) -> list[tuple[str, Any]]:
    made: dict[int, list[str]] = {}
    for event in events:
        for choice in (event or {}).get("choices", []):
            for call in choice["delta"].get("tool_calls") or []:
                name, arguments = made.setdefault(call["index"], ["", ""])
                function = call["function"]
                made[call["index"]] = [
                    name + (function.get("name") or ""),
                    arguments + (function.get("arguments") or ""),
                ]
    return [(name, json.loads(arguments)) for name, arguments in made.values()]


@pytest.mark.parametrize("lane", [*NATIVE, *RELAYED])
def test_a_plain_reply_has_the_text_the_finish_and_the_provider_s_own_usage(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    reply = ask(lanes, lane).json()
    choice = reply["choices"][0]
    assert choice["message"]["content"] == "Hello world"
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "stop"
    prompt = 16 if lane == "anthropic" else 11
    assert reply["usage"]["prompt_tokens"] == prompt
    assert reply["usage"]["completion_tokens"] == 7
    assert reply["usage"]["total_tokens"] == prompt + 7
    assert len(provider.calls) == 1


@pytest.mark.parametrize("lane", [*NATIVE, *RELAYED])
def test_a_stream_has_the_pieces_one_finish_the_usage_and_its_end(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    events = stream(lanes, lane)
    assert events[-1] is None
    assert text_of(events) == "Hello world"
    assert finishes_of(events) == ["stop"]
    usage = events[-2]
    assert usage is not None
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 7
    assert len({event["id"] for event in events if event}) == 1


@pytest.mark.parametrize("lane", NATIVE)
def test_a_stream_that_was_not_asked_for_usage_carries_none(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    events = stream(lanes, lane, stream_options=None)
    assert not any(event and event.get("usage") for event in events)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("lane", [*NATIVE, *RELAYED])
def test_usage_that_the_provider_did_not_give_is_not_made_up(
    lanes: httpx.Client, provider: NativeProviders, lane: str, streamed: bool
) -> None:
    provider.answer = Answer(usage=False)
    if streamed:
        assert not any(event and event.get("usage") for event in stream(lanes, lane))
    else:
        reply = ask(lanes, lane)
        assert reply.status_code == 200, reply.text
        assert "usage" not in reply.json()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("lane", [*NATIVE, *RELAYED])
def test_a_tool_call_comes_back_whole(
    lanes: httpx.Client, provider: NativeProviders, lane: str, streamed: bool
) -> None:
    provider.answer = Answer(text=(), tool=("weather", {"city": "Rome"}))
    if streamed:
        events = stream(lanes, lane, tools=TOOLS)
        assert calls_of(events) == [("weather", {"city": "Rome"})]
        assert finishes_of(events) == ["tool_calls"]
    else:
        choice = ask(lanes, lane, tools=TOOLS).json()["choices"][0]
        function = choice["message"]["tool_calls"][0]["function"]
        assert (function["name"], json.loads(function["arguments"])) == ("weather", {"city": "Rome"})
        assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("lane", [*NATIVE, *RELAYED])
def test_what_is_said_before_a_tool_call_comes_back(
    lanes: httpx.Client, provider: NativeProviders, lane: str, streamed: bool
) -> None:
    provider.answer = Answer(text=("I look", " it up"), tool=("weather", {"city": "Rome"}))
    if streamed:
        said = text_of(stream(lanes, lane, tools=TOOLS))
    else:
        message = ask(lanes, lane, tools=TOOLS).json()["choices"][0]["message"]
        assert message["tool_calls"]
        said = message["content"]
    assert said == "I look it up"


@pytest.mark.parametrize(
    ("lane", "said", "meant"),
    [
        ("anthropic", "max_tokens", "length"),
        ("anthropic", "refusal", "content_filter"),
        ("anthropic", "pause_turn", "pause_turn"),
        ("gemini", "MAX_TOKENS", "length"),
        ("gemini", "SAFETY", "content_filter"),
        ("gemini", "MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
        ("converse", "guardrail_intervened", "content_filter"),
        ("converse", "never_heard_of", "never_heard_of"),
        ("cohere", "MAX_TOKENS", "length"),
        ("ollama", "load", "load"),
        ("openai", "eos", "eos"),
    ],
)
def test_a_finish_reason_is_the_provider_s_or_its_documented_equivalent(
    lanes: httpx.Client, provider: NativeProviders, lane: str, said: str, meant: str
) -> None:
    provider.answer = Answer(finish=said)
    assert ask(lanes, lane).json()["choices"][0]["finish_reason"] == meant
    assert finishes_of(stream(lanes, lane)) == [meant]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_finish_that_is_an_error_is_an_error(
    lanes: httpx.Client, provider: NativeProviders, streamed: bool
) -> None:
    provider.answer = Answer(finish="ERROR")
    if streamed:
        events = stream(lanes, "cohere")
        assert events[-1] is not None
        assert events[-1]["error"]["code"] == "finish_reason_error"
    else:
        assert ask(lanes, "cohere").status_code == 502


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("lane", [*NATIVE, *RELAYED])
def test_a_refusal_of_the_provider_keeps_its_status_headers_and_words(
    lanes: httpx.Client, provider: NativeProviders, lane: str, streamed: bool
) -> None:
    provider.answer = Answer(
        status=529,
        body={"type": "error", "error": {"type": "overloaded_error", "message": "come back later"}},
        headers=(
            ("retry-after", "7"),
            ("request-id", "req-9"),
            ("anthropic-ratelimit-requests-remaining", "0"),
        ),
    )
    reply = ask(lanes, lane, stream=streamed)
    assert reply.status_code == 529
    assert reply.json()["error"]["message"] == "come back later"
    assert reply.headers["retry-after"] == "7"
    assert reply.headers["x-request-id"] == "req-9"
    assert reply.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert len(provider.calls) == 1, "a call is never sent twice"


@pytest.mark.parametrize("lane", NATIVE)
def test_a_stream_that_is_cut_ends_with_an_error_and_without_done(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    provider.answer = Answer(text=("a", "b", "c", "d", "e", "f"), cut_after=6 if lane == "anthropic" else 3)
    events = stream(lanes, lane)
    assert events[-1] is not None
    assert events[-1]["error"]["code"] == "upstream_cut"
    assert "a" in text_of(events)
    assert finishes_of(events) == []


@pytest.mark.parametrize("lane", ["anthropic", "gemini", "converse"])
def test_an_error_within_a_stream_is_told_in_the_provider_s_words(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    provider.answer = Answer(error_after={"type": "overloaded_error", "message": "too much today"})
    events = stream(lanes, lane)
    assert events[-1] is not None
    assert events[-1]["error"]["message"] == "too much today"
    assert text_of(events) == "Hello world"


def test_a_provider_that_is_not_there_is_said_to_be(lanes: httpx.Client) -> None:
    for name in ("anthropic", "gemini", "openai", "converse", "cohere", "ollama"):
        for streamed in (False, True):
            reply = ask(lanes, f"{name}-nowhere", stream=streamed)
            assert reply.status_code == 502, reply.text
            assert reply.json()["error"]["code"] == "upstream_unreachable", (name, streamed)


def test_a_field_that_cannot_be_placed_is_refused_by_name_and_nothing_is_sent(
    lanes: httpx.Client, provider: NativeProviders
) -> None:
    for lane, field, value in (
        ("anthropic", "seed", 7),
        ("gemini", "user", "u"),
        ("gemini", "metadata", {"a": "b"}),
        ("converse", "tags", ["a"]),
        ("cohere", "logit_bias", {"1": 2}),
        ("anthropic", "response_format", {"type": "json_object"}),
    ):
        reply = ask(lanes, lane, **{field: value})
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["param"]) == (400, "unsupported_parameter", field)
        assert "drop_params" not in error["message"]
    error = ask(lanes, "anthropic", seed=7, n=2, messages=[HI | {"name": "ann"}]).json()["error"]
    assert error["param"] == "seed"
    assert all(name in error["message"] for name in ("seed: ", "n: ", "messages[0].name: "))
    assert provider.asked == []


@pytest.mark.parametrize(
    ("choice", "mode"), [(None, "VALIDATED"), ("auto", "VALIDATED"), ("required", "ANY"), ("none", "NONE")]
)
def test_strict_tools_are_gemini_s_validated_calls(
    lanes: httpx.Client, provider: NativeProviders, choice: str | None, mode: str
) -> None:
    strict = [{**TOOLS[0], "function": TOOLS[0]["function"] | {"strict": True}}]
    fields: dict[str, Any] = {"tools": strict} | ({"tool_choice": choice} if choice else {})
    assert ask(lanes, "gemini", **fields).status_code == 200
    assert provider.calls[-1].body["toolConfig"]["functionCallingConfig"]["mode"] == mode


def test_what_is_placed_stands_in_the_request_that_arrives(
    lanes: httpx.Client, provider: NativeProviders
) -> None:
    ask(lanes, "anthropic", user="u", stop=["a", "b", "c", "d", "e"], tags=["x"], x_new={"a": None})
    sent = provider.calls[-1].body
    assert sent["metadata"] == {"user_id": "u"}
    assert sent["stop_sequences"] == ["a", "b", "c", "d", "e"]
    assert sent["tags"] == ["x"]
    assert sent["x_new"] == {"a": None}
    assert "extra_body" not in sent
    ask(lanes, "openai", metadata={"a": "b"}, verbosity="low", reasoning_effort="low", big=2**70)
    sent = provider.calls[-1].body
    assert sent["metadata"] == {"a": "b"}
    assert (sent["verbosity"], sent["reasoning_effort"], sent["big"]) == ("low", "low", 2**70)
    ask(lanes, "anthropic", tools=[{**TOOLS[0], "function": TOOLS[0]["function"] | {"strict": True}}])
    assert provider.calls[-1].body["tools"][0]["strict"] is True


def test_openai_s_conversation_arrives_as_it_was_written(
    lanes: httpx.Client, provider: NativeProviders
) -> None:
    turns = [
        {"role": "developer", "content": "d", "name": "boss"},
        {"role": "user", "content": [{"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": "", "reasoning_content": "hm", "odd": None},
        HI,
    ]
    for lane in RELAYED:
        ask(lanes, lane, messages=turns)
        assert provider.calls[-1].body["messages"] == turns


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("lane", ["anthropic", "gemini", "converse"])
def test_reasoning_goes_back_with_its_signature_also_when_the_framework_dropped_it(
    lanes: httpx.Client, provider: NativeProviders, lane: str, streamed: bool
) -> None:
    signature = f"c2ln{lane}{streamed:d}AAAA"
    rollout = {"x-osmosis-rollout-id": f"r-{lane}-{streamed}"}
    provider.answer = Answer(text=(), tool=("weather", {"city": "Rome"}), thinking="hm", signature=signature)
    body: dict[str, Any] = {"model": "m", "messages": [HI], "tools": TOOLS, "stream": streamed}
    reply = lanes.post(f"/{lane}/v1/chat/completions", json=body, headers=rollout)
    message = _message(reply, streamed)
    call = message["tool_calls"][0]
    dropped = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call["id"], "type": "function", "function": call["function"]}],
    }
    result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}
    for turn in (dropped, message):
        again = lanes.post(
            f"/{lane}/v1/chat/completions",
            json={**body, "stream": False, "messages": [HI, turn, result]},
            headers=rollout,
        )
        assert again.status_code == 200, again.text
        assert signature in json.dumps(provider.calls[-1].body)


@pytest.mark.parametrize("lane", ["anthropic", "gemini", "converse"])
def test_the_signed_reasoning_of_an_answer_in_words_goes_back_too(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    signature = f"c2ln{lane}BBBB"
    rollout = {"x-osmosis-rollout-id": f"words-{lane}"}
    provider.answer = Answer(thinking="hm", signature=signature)
    body: dict[str, Any] = {"model": "m", "messages": [HI]}
    message = lanes.post(f"/{lane}/v1/chat/completions", json=body, headers=rollout).json()["choices"][0][
        "message"
    ]
    assert message["reasoning_content"] == "hm"
    for turn in ({"role": "assistant", "content": message["content"]}, message):
        turns = [HI, turn, HI]
        again = lanes.post(f"/{lane}/v1/chat/completions", json={**body, "messages": turns}, headers=rollout)
        assert again.status_code == 200, again.text
        assert signature in json.dumps(provider.calls[-1].body)
    other = {"x-osmosis-rollout-id": f"another-{lane}"}
    turns = [HI, {"role": "assistant", "content": message["content"]}, HI]
    lanes.post(f"/{lane}/v1/chat/completions", json={**body, "messages": turns}, headers=other)
    assert signature not in json.dumps(provider.calls[-1].body), "one rollout's reasoning is not another's"


def _message(reply: httpx.Response, streamed: bool) -> dict[str, Any]:
    if not streamed:
        return reply.json()["choices"][0]["message"]
    message: dict[str, Any] = {"role": "assistant", "content": None}
    events = [json.loads(block[6:]) for block in reply.text.split("\n\n") if block and "[DONE]" not in block]
    for event in events:
        for choice in event["choices"]:
            for call in choice["delta"].get("tool_calls") or []:
                known = message.setdefault("tool_calls", [])
                if call.get("id"):
                    known.append({"id": call["id"], "type": "function", "function": dict(call["function"])})
                else:
                    known[-1]["function"]["arguments"] += call["function"]["arguments"]
    return message


@pytest.mark.parametrize("lane", [*NATIVE, *RELAYED])
def test_openai_s_client_drives_a_tool_loop_with_streams(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    with openai.OpenAI(base_url=f"{lanes.base_url}/{lane}/v1", api_key=KEY, max_retries=0) as client:
        provider.answer = Answer(text=("I look",), tool=("weather", {"city": "Rome"}), thinking="hm")
        turns: list[Any] = [{"role": "system", "content": "be brief"}, HI]
        tools: list[Any] = TOOLS
        with client.chat.completions.stream(model="any", messages=turns, tools=tools) as events:
            message = events.get_final_completion().choices[0].message
        assert message.tool_calls is not None
        call = message.tool_calls[0]
        assert json.loads(call.function.arguments) == {"city": "Rome"}
        turns.append(
            message.model_dump(exclude_none=True, exclude={"parsed"}) | {"tool_calls": [_plain(call)]}
        )
        turns.append(
            {"role": "tool", "tool_call_id": call.id, "content": [{"type": "text", "text": "sunny"}]}
        )
        provider.answer = Answer(text=("It is", " sunny"))
        pieces = client.chat.completions.create(model="any", messages=turns, tools=tools, stream=True)
        assert (
            "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
            == "It is sunny"
        )
        assert "sunny" in json.dumps(provider.calls[-1].body)


def _plain(call: Any) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id, "type": "function", "function": function}


def test_the_report_shows_the_request_that_would_be_sent_without_its_secrets(
    lanes: httpx.Client, provider: NativeProviders
) -> None:
    body = {"model": "m", "messages": [HI], "user": "u", "temperature": 0.5}
    for lane, place in (("anthropic", "metadata.user_id"), ("openai", "user")):
        reply = lanes.post(f"/{lane}/v1/explain/chat/completions", json=body)
        assert reply.status_code == 200, reply.text
        report = reply.json()
        rows = {row["field"]: row for row in report["fields"]}
        assert rows["user"]["at"] == place
        assert report["outgoing"]["body"]["temperature"] == 0.5
        assert "native-test-key-1" not in reply.text
    assert provider.asked == []


def test_a_caller_that_leaves_closes_the_provider_s_connection(
    lanes: httpx.Client, provider: NativeProviders
) -> None:
    provider.answer = Answer(text=tuple("abcdefghijklmnopqrstuvwxyz" * 10), gap_s=0.02)
    for lane in ("anthropic", "openai"):
        with lanes.stream(
            "POST", f"/{lane}/v1/chat/completions", json={"model": "m", "messages": [HI], "stream": True}
        ) as reply:
            next(reply.iter_raw())
        assert provider.calls[-1].left.wait(5), lane


def test_only_the_bridge_may_call(lanes: httpx.Client, provider: NativeProviders) -> None:
    reply = lanes.post("/openai/v1/chat/completions", json={}, headers={"authorization": "Bearer guess"})
    assert reply.status_code == 401
    assert provider.asked == []
