"""Anthropic's SDK against bridges on the native lane: the provider's own dialect, and one that is translated.

Real sockets and processes: the client, a bridge and its translator, a provider that speaks its own dialect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic

from bridge_process import TOKEN, BridgeProcess, bridge_process, environment
from native_providers import Answer, NativeProviders, native_providers
from sdk_client import SdkClient

pytestmark = pytest.mark.timeout(120)

KEY = "native-test-key-1"
MODELS = {
    "anthropic": ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY", ""),
    "gemini": ("gemini/gemini-2.5-flash", "GEMINI_API_KEY", ""),
    "mistral": ("mistral/mistral-large-latest", "MISTRAL_API_KEY", "/v1"),
}
TOOLS: list[Any] = [
    {
        "name": "weather",
        "description": "tells it",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
PROMPT_TOKENS = {"anthropic": 16, "gemini": 11, "mistral": 11}


class Client(SdkClient):
    """Anthropic's client."""

    classes = (Anthropic, AsyncAnthropic)
    resource = "messages"
    final = "get_final_message"
    asked = {  # noqa: RUF012 - what every request holds
        "model": "my-claude",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.fixture(scope="module")
def serving() -> Iterator[NativeProviders]:
    with native_providers() as server:
        yield server


@pytest.fixture(scope="module", params=[*MODELS])
def running(
    serving: NativeProviders, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, BridgeProcess]]:
    model, variable, path = MODELS[request.param]
    environ = environment(OSMOSIS_BRIDGE_TOKEN=TOKEN, **{variable: KEY})
    folder = tmp_path_factory.mktemp(request.param)
    with bridge_process(
        folder, f"{serving.url}{path}", "--lane", "native", model=model, environ=environ
    ) as bridge:
        wait_until_loaded(bridge)
        serving.asked.clear()
        yield request.param, bridge


def wait_until_loaded(bridge: BridgeProcess) -> None:
    """Calls wait while LiteLLM is loaded, on a busy machine longer than the client of a test does."""
    with Anthropic(base_url=bridge.url, api_key=TOKEN, max_retries=0, timeout=90) as client:
        client.messages.create(**Client.asked)


@pytest.fixture
def provider(serving: NativeProviders) -> NativeProviders:
    serving.answer = Answer()
    serving.asked.clear()
    return serving


@pytest.fixture
def lane(running: tuple[str, BridgeProcess]) -> str:
    return running[0]


@pytest.fixture
def bridge(running: tuple[str, BridgeProcess]) -> BridgeProcess:
    return running[1]


@pytest.fixture(params=["sync", "async"])
def client(bridge: BridgeProcess, request: pytest.FixtureRequest) -> Client:
    return Client(bridge, request.param)


@pytest.fixture(params=["plain", "streamed"])
def ask(client: Client, request: pytest.FixtureRequest) -> Any:
    """One message, however it comes."""
    return client.create if request.param == "plain" else client.assemble


def usage_of(lane: str) -> dict[str, Any]:
    prompt = PROMPT_TOKENS[lane]
    cached = {"cached_tokens": 5} if lane == "anthropic" else {}
    return {"prompt_tokens": prompt, "completion_tokens": 7, "total_tokens": prompt + 7, **cached}


def test_a_message_comes_back_and_is_recorded_as_one(
    ask: Any, client: Client, lane: str, provider: NativeProviders
) -> None:
    answer = ask(system="be brief")
    assert (answer.content[0].text, answer.stop_reason, answer.model) == (
        "Hello world",
        "end_turn",
        "my-claude",
    )
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 7)
    record = client.record
    assert (record["dialect"], record["lane"], record["status"]) == ("messages", "native", "ok")
    assert (record["usage"], record["usage_source"]) == (usage_of(lane), "provider")
    assert record["finish_reasons"] == ["end_turn"]
    (asked,) = provider.calls
    assert "be brief" in json.dumps(asked.body)


def test_a_tool_loop_runs_to_its_end(ask: Any, client: Client, provider: NativeProviders) -> None:
    provider.answer = Answer(text=("I look",), tool=("weather", {"city": "Rome"}))
    first = ask(tools=TOOLS, tool_choice={"type": "any"})
    assert first.stop_reason == "tool_use"
    text, call = first.content
    assert (text.text, call.name, call.input) == ("I look", "weather", {"city": "Rome"})
    provider.answer = Answer(text=("It is", " sunny"))
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "sun"}]}
    turns = [*client.asked["messages"], {"role": "assistant", "content": first.content}]
    again = ask(tools=TOOLS, messages=[*turns, {"role": "user", "content": [result]}])
    assert again.content[0].text == "It is sunny"
    sent = json.dumps(provider.calls[-1].body)
    assert "Rome" in sent
    assert "sun" in sent


@pytest.mark.parametrize("running", ["anthropic", "gemini"], indirect=True)
def test_a_thought_comes_and_goes_back_with_what_makes_it_valid(
    ask: Any, client: Client, provider: NativeProviders
) -> None:
    provider.answer = Answer(text=(), tool=("weather", {"city": "Rome"}), thinking="hm", signature="c2lnQUFB")
    first = ask(tools=TOOLS)
    thought, call = first.content
    assert (thought.type, thought.thinking) == ("thinking", "hm")
    provider.answer = Answer()
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sun", "is_error": True}
    turns = [*client.asked["messages"], {"role": "assistant", "content": first.content}]
    ask(tools=TOOLS, messages=[*turns, {"role": "user", "content": [result]}])
    assert "c2lnQUFB" in json.dumps(provider.calls[-1].body)


def test_the_events_of_a_stream_come_in_order(client: Client, provider: NativeProviders) -> None:
    kinds = [event.type for event in client.create(stream=True) if event.type != "ping"]
    assert kinds == [
        "message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip


# Anthropic's own streams always count, and its client cannot read one that does not.
@pytest.mark.parametrize("running", ["gemini", "mistral"], indirect=True)
def test_where_the_provider_counted_nothing_the_record_says_so(
    ask: Any, client: Client, provider: NativeProviders
) -> None:
    provider.answer = Answer(usage=False)
    assert ask().content[0].text == "Hello world"
    record = client.record
    assert (record["usage_source"], "usage" in record) == ("missing", False)


def test_a_provider_s_refusal_is_the_client_s_own_error(
    ask: Any, client: Client, provider: NativeProviders
) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "come back later"}}
    provider.answer = Answer(status=529, body=error, headers=(("request-id", "req-9"),))
    with pytest.raises(anthropic.InternalServerError) as caught:
        ask()
    assert caught.value.status_code == 529
    body: Any = caught.value.body
    assert body["error"]["message"] == "come back later"
    assert client.record["http_status"] == 529
    assert len(provider.calls) == 1


def test_a_stream_that_is_cut_raises(client: Client, provider: NativeProviders) -> None:
    provider.answer = Answer(text=tuple("abcdefgh"), cut_after=5)
    with pytest.raises(anthropic.APIStatusError):
        client.assemble()
    assert client.record["status"] == "truncated"


@pytest.mark.parametrize("running", ["gemini", "mistral"], indirect=True)
def test_what_cannot_be_sent_is_refused_in_the_client_s_words(
    ask: Any, client: Client, provider: NativeProviders
) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        ask(tools=[*TOOLS, {"type": "web_search_20250305", "name": "web_search"}])
    body: Any = caught.value.body
    assert body["error"]["message"].startswith("tools[1].type cannot be sent to this model")
    assert (client.record["status"], client.record["error_code"]) == ("refused", "unsupported_parameter")
    assert provider.asked == []


def test_a_dry_run_shows_the_request_that_would_be_sent(
    client: Client, lane: str, provider: NativeProviders
) -> None:
    with Anthropic(**client.options) as sdk:
        report: Any = sdk.messages.with_raw_response.create(
            **client.asked,
            stop_sequences=["a"],
            system="be brief",
            extra_headers={"x-osmosis-dry-run": "1", "anthropic-beta": "context-1m"},
        ).http_response.json()
    rows = {row["field"]: row for row in report["fields"]}
    assert report["accepted"]
    assert {"max_tokens", "messages", "stop_sequences", "system"} <= rows.keys()
    assert {rows[name]["origin"] for name in ("max_tokens", "stop_sequences", "system")} == {"top level"}
    assert KEY not in json.dumps(report)
    if lane == "anthropic":
        assert rows["stop_sequences"]["became"] == "forwarded"
        assert report["outgoing"]["headers"]["anthropic-beta"] == "context-1m"
        assert report["outgoing"]["body"]["system"] == "be brief"
    elif lane == "gemini":
        assert rows["stop_sequences"]["at"] == "generationConfig.stop_sequences"
        assert rows["system"]["became"] == "moved to"
        assert report["outgoing"]["body"]["system_instruction"] == {"parts": [{"text": "be brief"}]}
    assert provider.asked == []


@pytest.mark.parametrize("running", ["anthropic"], indirect=True)
def test_what_the_provider_speaks_itself_arrives_as_it_was_written(
    client: Client, provider: NativeProviders
) -> None:
    with Anthropic(**client.options) as sdk:
        sdk.beta.messages.create(
            **client.asked,
            betas=["context-1m", "odd-2"],
            context_management={"edits": []},
            extra_body={"x_new": {"a": None}, "top_p": 0.25},
            extra_headers={"x-odd": "1"},
        )
    (asked,) = provider.calls
    assert asked.headers["anthropic-beta"] == "context-1m,odd-2"
    assert asked.headers["x-api-key"] == KEY
    assert "x-odd" not in asked.headers
    assert "authorization" not in asked.headers
    assert asked.body == {
        **client.asked,
        "model": "claude-sonnet-4-5",
        "context_management": {"edits": []},
        "x_new": {"a": None},
        "top_p": 0.25,
    }
