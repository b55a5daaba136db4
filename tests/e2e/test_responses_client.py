"""The official `openai` client on `/responses`, `/completions`, `/embeddings`: a process, real sockets, a provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import completion_create_params as chat_create_params
from openai.types.responses import response_create_params

from bridge_process import KEY, BridgeProcess, bridge_process
from dialect_provider import ARGUMENTS, HELLO, SIGNATURE, DialectProvider
from osmosis_bridge.controls import is_control
from sdk_client import SdkClient

MODEL = "model-of-my-choice"
USAGE = {
    "prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28, "cached_tokens": 12, "cache_write_tokens": 3,
    "reasoning_tokens": 5,
}  # fmt: skip
TOOLS: list[Any] = [
    {
        "type": "function",
        "name": "add",
        "description": "adds",
        "strict": True,
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    }
]
ASKED: dict[str, Any] = {"model": MODEL, "input": "7 + 8?"}


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
    """OpenAI's client on `/responses`."""

    classes = (OpenAI, AsyncOpenAI)
    resource = "responses"
    final = "get_final_response"
    asked = ASKED


@pytest.fixture(params=["sync", "async"])
def client(bridge: BridgeProcess, request: pytest.FixtureRequest) -> Client:
    return Client(bridge, request.param)


@pytest.fixture(params=["plain", "streamed"])
def ask(client: Client, request: pytest.FixtureRequest) -> Any:
    """One response, however it comes."""
    return client.create if request.param == "plain" else client.assemble


def test_a_response_comes_back_under_the_clients_name_for_the_model(
    ask: Any, client: Client, provider: DialectProvider
) -> None:
    answer = ask(temperature=0.5, metadata={"row": "7"}, extra_body={"top_k": 3})
    assert (answer.output_text, answer.status, answer.model) == (HELLO, "completed", MODEL)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (20, 8)
    (asked,) = provider.asked
    stream = {"stream": True} if asked.body.get("stream") else {}
    fields = {"temperature": 0.5, "metadata": {"row": "7"}, "top_k": 3}
    assert asked.body == {**ASKED, "model": "upstream-model", **fields, **stream}
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    record = client.record
    assert (record["dialect"], record["usage"], record["finish_reasons"]) == (
        "responses",
        USAGE,
        ["completed"],
    )
    assert (record["alias"], record["model"]) == (MODEL, "upstream-model")


def test_a_tool_is_called_and_its_result_answered(ask: Any, provider: DialectProvider) -> None:
    provider.thinks = True
    call = ask(tools=TOOLS, include=["reasoning.encrypted_content"], store=False)
    reasoning, function = call.output
    assert (function.name, json.loads(function.arguments)) == ("add", ARGUMENTS)
    given = [
        {"role": "user", "content": "7 + 8?"},
        reasoning.to_dict(),
        {
            "type": "function_call",
            "call_id": function.call_id,
            "name": "add",
            "arguments": function.arguments,
        },
        {"type": "function_call_output", "call_id": function.call_id, "output": "15"},
    ]
    assert ask(tools=TOOLS, input=given).output_text == "the tool said 15"
    first, second = provider.asked
    assert (first.body["tools"], first.body["store"]) == (TOOLS, False)
    assert second.body["input"] == given
    assert second.body["input"][1]["encrypted_content"] == SIGNATURE


def test_the_events_of_a_stream_come_in_order_to_the_last(client: Client, provider: DialectProvider) -> None:
    events = client.create(stream=True)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == HELLO
    assert {event.response.model for event in events if hasattr(event, "response")} == {MODEL}


@pytest.mark.parametrize("trouble", ["told in the stream", "cut", "failed"])
def test_a_stream_that_breaks_off_raises(client: Client, provider: DialectProvider, trouble: Any) -> None:
    provider.trouble = trouble
    with pytest.raises(openai.APIError) as caught:
        client.create(stream=True)
    assert caught.value.message == (
        "Overloaded" if trouble != "cut" else "the provider's stream ended without a finish reason"
    )
    assert client.record["status"] == ("truncated" if trouble == "cut" else "upstream_error")


def test_a_failed_response_is_seen_before_its_error(bridge: BridgeProcess, provider: DialectProvider) -> None:
    provider.trouble = "failed"
    seen: list[str] = []
    with OpenAI(**Client(bridge, "sync").options) as client:
        events = client.responses.create(**ASKED, stream=True)
        with pytest.raises(openai.APIError):
            for event in events:
                seen.append(event.type)
    assert seen[-1] == "response.failed"


def test_an_overloaded_provider_is_the_clients_own_error(client: Client, provider: DialectProvider) -> None:
    provider.trouble = "overloaded"
    with pytest.raises(openai.InternalServerError) as caught:
        client.create()
    assert (caught.value.status_code, caught.value.type) == (503, "overloaded_error")
    assert "Overloaded" in caught.value.message
    assert client.record["http_status"] == 503


@pytest.mark.parametrize("stream", [False, True])
def test_text_completions_are_served(bridge: BridgeProcess, provider: DialectProvider, stream: bool) -> None:
    used = Client(bridge, "sync")
    with OpenAI(**used.options) as client:
        answer: Any = client.completions.create(model=MODEL, prompt="7 + 8?", stream=stream)
        parts = list(answer) if stream else [answer]
    assert "".join(part.choices[0].text for part in parts) == HELLO
    assert {part.model for part in parts} == {MODEL}
    assert (used.record["dialect"], used.record["usage"]["total_tokens"]) == ("completions", 15)
    assert ("stream_options" in provider.asked[0].body) is stream


@pytest.mark.parametrize("given", ["hi", ["hi", "there"], [1, 2], [[1, 2], [3]]])
def test_embeddings_are_served(bridge: BridgeProcess, provider: DialectProvider, given: Any) -> None:
    used = Client(bridge, "sync")
    with OpenAI(**used.options) as client:
        answer = client.embeddings.create(model=MODEL, input=given)
    assert (answer.data[0].embedding, answer.model) == ([1.0, 2.0], MODEL)
    (asked,) = provider.asked
    assert (asked.body["input"], asked.body["encoding_format"]) == (given, "base64")
    assert (used.record["dialect"], used.record["usage"]) == (
        "embeddings",
        {"prompt_tokens": 8, "total_tokens": 8},
    )


@pytest.mark.parametrize(
    "fields",
    [
        response_create_params.ResponseCreateParamsNonStreaming,
        chat_create_params.CompletionCreateParamsNonStreaming,
        completion_create_params.CompletionCreateParamsNonStreaming,
        embedding_create_params.EmbeddingCreateParams,
    ],
    ids=lambda fields: fields.__module__,
)
def test_no_field_that_the_client_knows_is_stripped(fields: Any) -> None:
    names = fields.__required_keys__ | fields.__optional_keys__
    assert {"model", "user"} <= names
    assert [name for name in names if is_control(name)] == []
