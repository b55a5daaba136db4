"""The official `anthropic` client against the bridge as users run both: real sockets, a process, a provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types import message_create_params
from anthropic.types.beta import message_create_params as beta_create_params

from bridge_process import KEY, TOKEN, BridgeProcess, bridge_process
from dialect_provider import ARGUMENTS, HELLO, SIGNATURE, THOUGHT, DialectProvider
from osmosis_bridge.controls import is_control
from sdk_client import SdkClient

MODEL = "claude-of-my-choice"
USAGE = {
    "prompt_tokens": 15, "completion_tokens": 15, "total_tokens": 30, "cached_tokens": 3, "cache_write_tokens": 7,
}  # fmt: skip
TOOLS: list[Any] = [
    {
        "name": "add",
        "description": "adds",
        "input_schema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        },
    }
]
ASKED: dict[str, Any] = {
    "model": MODEL, "max_tokens": 99, "system": "be brief", "messages": [{"role": "user", "content": "7 + 8?"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def serving() -> Iterator[DialectProvider]:
    with DialectProvider().serving() as provider:
        yield provider


@pytest.fixture
def provider(serving: DialectProvider) -> DialectProvider:
    serving.clear()
    return serving


@pytest.fixture(scope="module")
def bridge(serving: DialectProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeProcess]:
    with bridge_process(tmp_path_factory.mktemp("bridge"), serving.url) as running:
        yield running


class Client(SdkClient):
    """Anthropic's client."""

    classes = (Anthropic, AsyncAnthropic)
    resource = "messages"
    final = "get_final_message"
    asked = ASKED


@pytest.fixture(params=["sync", "async"])
def client(bridge: BridgeProcess, request: pytest.FixtureRequest) -> Client:
    return Client(bridge, request.param)


@pytest.fixture(params=["plain", "streamed"])
def ask(client: Client, request: pytest.FixtureRequest) -> Any:
    """One message, however it comes."""
    return client.create if request.param == "plain" else client.assemble


def test_a_message_comes_back_under_the_clients_name_for_the_model(
    ask: Any, client: Client, provider: DialectProvider
) -> None:
    answer = ask()
    assert (answer.content[0].text, answer.stop_reason, answer.model) == (HELLO, "end_turn", MODEL)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (5, 15)
    (asked,) = provider.asked
    stream = {"stream": True} if asked.body.get("stream") else {}
    assert asked.body == {**ASKED, "model": "upstream-model", **stream}
    assert asked.headers["x-api-key"] == KEY
    own = Anthropic(**client.options).default_headers
    assert asked.headers["anthropic-version"] == own["anthropic-version"]
    assert not [name for name in asked.headers if name.startswith("x-stainless")]
    record = client.record
    assert (record["dialect"], record["usage"], record["finish_reasons"]) == ("messages", USAGE, ["end_turn"])
    assert (record["alias"], record["model"]) == (MODEL, "upstream-model")


def test_a_tool_is_called_and_its_result_answered(
    ask: Any, client: Client, provider: DialectProvider
) -> None:
    call = ask(tools=TOOLS)
    assert call.stop_reason == "tool_use"
    (block,) = call.content
    assert (block.name, block.input) == ("add", ARGUMENTS)
    turn = [
        *ASKED["messages"],
        {"role": "assistant", "content": call.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block.id, "content": "15"}]},
    ]
    assert ask(tools=TOOLS, messages=turn).content[0].text == "the tool said 15"
    first, second = provider.asked
    assert first.body["tools"] == TOOLS
    assert second.body["messages"][1]["content"][0]["input"] == ARGUMENTS


def test_a_thought_comes_with_its_signature_and_goes_back_as_it_came(
    ask: Any, provider: DialectProvider
) -> None:
    provider.thinks = True
    thinking = {"type": "enabled", "budget_tokens": 1024}
    call = ask(tools=TOOLS, thinking=thinking, max_tokens=2000)
    thought, used = call.content
    assert (thought.thinking, thought.signature) == (THOUGHT, SIGNATURE)
    result = {"type": "tool_result", "tool_use_id": used.id, "content": [{"type": "text", "text": "15"}]}
    turn = [
        *ASKED["messages"],
        {"role": "assistant", "content": call.content},
        {"role": "user", "content": [result]},
    ]
    ask(tools=TOOLS, thinking=thinking, max_tokens=2000, messages=turn)
    back = provider.asked[1].body["messages"][1]["content"][0]
    assert (back["thinking"], back["signature"]) == (THOUGHT, SIGNATURE)
    assert provider.asked[0].body["thinking"] == thinking


def test_the_events_of_a_stream_come_in_order_to_the_last(client: Client, provider: DialectProvider) -> None:
    kinds = [event.type for event in client.create(stream=True)]
    assert kinds == [
        "message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip


def test_betas_and_fields_beyond_the_clients_own_go_out(
    bridge: BridgeProcess, provider: DialectProvider
) -> None:
    with Anthropic(**Client(bridge, "sync").options) as client:
        client.beta.messages.create(
            **ASKED,
            betas=["context-1m", "odd-2"],
            extra_body={"top_k": 3, "provider": {"order": ["x"]}, "api_base": "http://evil.example"},
            extra_headers={"x-odd": "1"},
        )
    (asked,) = provider.asked
    assert asked.headers["anthropic-beta"] == "context-1m,odd-2"
    assert "x-odd" not in asked.headers
    assert (asked.body["top_k"], asked.body["provider"]) == (3, {"order": ["x"]})
    assert "api_base" not in asked.body


@pytest.mark.parametrize("base", ["", "/v1", "/v1/rollouts/my-own"])
@pytest.mark.parametrize("given", ["api_key", "auth_token"])
def test_any_base_url_and_either_credential_will_do(
    base: str, given: str, bridge: BridgeProcess, provider: DialectProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    options: dict[str, Any] = {"base_url": bridge.url + base, given: TOKEN, "max_retries": 0}
    with Anthropic(**options) as client:
        assert client.messages.create(**ASKED).content[0].type == "text"
    assert bridge.records()[-1]["rollout_id"] == ("my-own" if "rollouts" in base else "default")


def test_a_wrong_key_is_an_authentication_error(client: Client, bridge: BridgeProcess) -> None:
    with Anthropic(base_url=bridge.url, api_key="wrong", max_retries=0) as wrong:
        with pytest.raises(anthropic.AuthenticationError) as caught:
            wrong.messages.create(**ASKED)
        assert caught.value.type == "authentication_error"


def test_an_overloaded_provider_is_the_clients_own_error(client: Client, provider: DialectProvider) -> None:
    provider.trouble = "overloaded"
    with pytest.raises(anthropic.InternalServerError) as caught:
        client.create()
    assert (caught.value.status_code, caught.value.request_id) == (529, "req_1")
    assert caught.value.body == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    }
    assert client.record["http_status"] == 529


@pytest.mark.parametrize("trouble", ["told in the stream", "cut"])
def test_a_stream_that_breaks_off_raises(client: Client, provider: DialectProvider, trouble: Any) -> None:
    provider.trouble = trouble
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.assemble()
    body: Any = caught.value.body
    assert body["error"]["type"] == ("overloaded_error" if trouble != "cut" else "api_error")
    assert client.record["status"] == ("truncated" if trouble == "cut" else "upstream_error")


def test_a_request_that_is_refused_says_why(client: Client) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.create(extra_body={"extra_body": {"extra_body": {}}})
    body: Any = caught.value.body
    assert body["error"]["type"] == "invalid_request_error"
    assert "extra_body" in body["error"]["message"]
    assert client.record["status"] == "refused"


@pytest.mark.parametrize(
    ("fields", "stripped"),
    [
        (message_create_params.MessageCreateParamsNonStreaming, set()),
        # Another model's answers, which are not the evaluated model's.
        (beta_create_params.MessageCreateParamsNonStreaming, {"fallbacks"}),
    ],
)
def test_no_field_that_the_client_knows_is_stripped_but_other_models(fields: Any, stripped: set[str]) -> None:
    names = fields.__required_keys__ | fields.__optional_keys__
    assert {"model", "thinking"} <= names
    assert {name for name in names if is_control(name)} == stripped
