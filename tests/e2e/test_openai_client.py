"""The official `openai` client against the bridge as users run both: real sockets, a process, a scripted provider."""

from __future__ import annotations

import asyncio
import json
import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from bridge_process import KEY, BridgeProcess, Played, UpstreamThread, bridge_process, eventually
from osmosis_bridge.conformance.samples import HELLO, USAGE, WHOLE, chunk, completion, finish, said, usage
from osmosis_bridge.conformance.script import DONE, Hold, Pause, Script, data, plain, raw, stream

MODEL = "osmosis-rollout"
COUNTED = json.loads(USAGE)
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]


@pytest.fixture(scope="module")
def upstream() -> Iterator[UpstreamThread]:
    with UpstreamThread().serving() as serving:
        yield serving


@pytest.fixture(scope="module")
def bridge(upstream: UpstreamThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeProcess]:
    with bridge_process(tmp_path_factory.mktemp("bridge"), upstream.url) as running:
        yield running


class Client:
    """The `openai` client, sync or async, in the name of a rollout of its own."""

    def __init__(self, bridge: BridgeProcess, kind: str, rollout_id: str) -> None:
        self.kind = kind
        self.rollout_id = rollout_id
        self._bridge = bridge

    def options(self, **given: Any) -> dict[str, Any]:
        base = {
            "base_url": self._bridge.base_url(self.rollout_id),
            "api_key": self._bridge.bearer(self.rollout_id),
        }
        return {**base, "max_retries": 0, "timeout": 20.0, **given}

    def create(self, played: Played, fields: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """One completion; with `stream=True` the list of its chunks."""
        sent: dict[str, Any] = {"model": MODEL, "messages": played.messages, **(fields or {})}
        if self.kind == "async":
            return asyncio.run(self._create_async(sent, options))
        with OpenAI(**self.options(**options)) as client:
            answer = client.chat.completions.create(**sent)
            return list(answer) if sent.get("stream") else answer

    async def _create_async(self, sent: dict[str, Any], options: dict[str, Any]) -> Any:
        async with AsyncOpenAI(**self.options(**options)) as client:
            answer = await client.chat.completions.create(**sent)
            return [chunk async for chunk in answer] if sent.get("stream") else answer

    @property
    def records(self) -> list[dict[str, Any]]:
        return self._bridge.records(self.rollout_id)

    @property
    def record(self) -> dict[str, Any]:
        return self._bridge.record(self.rollout_id)


ROLLOUTS = iter(range(1, 10_000))


@pytest.fixture(params=["sync", "async"])
def client(bridge: BridgeProcess, request: pytest.FixtureRequest) -> Client:
    return Client(bridge, request.param, f"r-{next(ROLLOUTS)}")


@pytest.fixture
def sync(bridge: BridgeProcess) -> Iterator[OpenAI]:
    with OpenAI(**Client(bridge, "sync", f"s-{next(ROLLOUTS)}").options()) as sync:
        yield sync


def rollout_of(sync: OpenAI) -> str:
    return sync.base_url.path.rstrip("/").rpartition("/")[2]


def failing(status: int, *headers: tuple[str, str]) -> Script:
    text = '{"error":{"message":"told to fail","type":"a_type","param":"a_param","code":"a_code"}}'
    return plain(text, status, *headers)


# Plain and streamed.


def test_a_plain_reply_is_the_providers_but_for_the_alias(client: Client, upstream: UpstreamThread) -> None:
    played = upstream.play(plain(completion(more=',"service_tier":"flex","weird":{"a":[1,null]}')))
    answer = client.create(played, {"model": "my-alias", "temperature": 0.5})
    assert answer.choices[0].message.content == "hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.to_dict() == COUNTED
    assert answer.model == "my-alias"
    assert answer.id == "chatcmpl-1"
    assert (answer.service_tier, answer.weird) == ("flex", {"a": [1, None]})
    assert played.body == {"model": "upstream-model", "messages": played.messages, "temperature": 0.5}
    assert played.received[0].headers("authorization") == [f"Bearer {KEY}"]
    assert client.record["usage"] == COUNTED
    assert client.record["alias"] == "my-alias"


def test_a_stream_without_include_usage_has_no_usage_only_chunk_and_is_counted_all_the_same(
    client: Client, upstream: UpstreamThread
) -> None:
    played = upstream.play(stream(*WHOLE))
    chunks = client.create(played, {"stream": True})
    assert "".join(part.choices[0].delta.content or "" for part in chunks) == "hello"
    assert all(len(part.choices) == 1 for part in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert {part.model for part in chunks} == {MODEL}
    assert not any(part.usage for part in chunks)
    assert played.body["stream_options"] == {"include_usage": True}
    assert client.record["usage"] == COUNTED


def test_a_stream_with_include_usage_ends_in_the_usage_chunk(
    client: Client, upstream: UpstreamThread
) -> None:
    played = upstream.play(stream(*WHOLE))
    options = {"include_usage": True, "include_obfuscation": False}
    chunks = client.create(played, {"stream": True, "stream_options": options})
    assert [len(part.choices) for part in chunks] == [1] * len(HELLO) + [0]
    assert chunks[-1].usage.to_dict() == COUNTED
    assert not any(part.usage for part in chunks[:-1])
    assert played.body["stream_options"] == options
    assert client.record["usage"] == COUNTED


def test_several_choices_of_a_stream_keep_apart(client: Client, upstream: UpstreamThread) -> None:
    frames = [
        chunk(f'{{"content":"{text}"}}', index=index)
        for text, index in (("a", 0), ("b", 1), ("c", 0), ("d", 1))
    ]
    ends = [chunk("{}", finish='"stop"', index=1), chunk("{}", finish='"length"', index=0)]
    chunks = client.create(upstream.play(stream(*frames, *ends, DONE)), {"stream": True, "n": 2})
    said_by = [
        "".join(c.delta.content or "" for p in chunks for c in p.choices if c.index == i) for i in (0, 1)
    ]
    assert said_by == ["ac", "bd"]
    assert sorted(client.record["finish_reasons"]) == ["length", "stop"]


def test_chunks_reach_the_client_before_the_provider_sends_the_next(
    sync: OpenAI, upstream: UpstreamThread
) -> None:
    played = upstream.play(stream(said("one"), Hold(20)))
    answer = sync.chat.completions.create(model=MODEL, messages=played.messages, stream=True)
    with answer:
        assert next(iter(answer)).choices[0].delta.content == "one"
    assert eventually(played.received[0].peer_closed.is_set)


# Tools and content.

CALLS = (
    '[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\\"city\\":\\"Bern\\"}"}}]'
)


SIGNED = {"type": "reasoning.text", "text": "t", "signature": "s"}


def test_tools_go_out_as_given_and_calls_come_back(client: Client, upstream: UpstreamThread) -> None:
    message = f'{{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":{CALLS}}}'
    played = upstream.play(plain(completion(message, finish='"tool_calls"')))
    fields = {"tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": True}
    answer = client.create(played, fields)
    assert played.body["tools"] == TOOLS
    assert played.body["parallel_tool_calls"] is True
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"city": "Bern"}
    assert choice.message.reasoning_content == "hm"


def test_a_conversation_with_tool_results_goes_out_byte_for_value(
    client: Client, upstream: UpstreamThread
) -> None:
    played = upstream.play(plain(completion()))
    messages = [
        {"role": "developer", "content": "be brief", "name": "boss"},
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": json.loads(CALLS)},
        {"role": "assistant", "content": "", "reasoning_details": [SIGNED]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "12 °C \u2028"}]},
        *played.messages,
    ]  # fmt: skip
    client.create(played, {"messages": messages})
    assert played.body["messages"] == messages


def tool_delta(index: int, **function: str) -> bytes:
    call: dict[str, Any] = {"index": index, "function": function}
    if "name" in function:
        call |= {"id": f"call_{index}", "type": "function"}
    return chunk(json.dumps({"tool_calls": [call]}))


def test_parallel_tool_deltas_are_put_together_by_the_client(
    client: Client, upstream: UpstreamThread
) -> None:
    openers = [tool_delta(index, name="weather", arguments="") for index in range(3)]
    cities = ["Bern", "Ulm", "Kyōto"]
    texts = [json.dumps({"city": city}, ensure_ascii=False) for city in cities]
    pieces = [tool_delta(i, arguments=texts[i][at : at + 4]) for at in range(0, 20, 4) for i in range(3)]
    played = upstream.play(stream(*openers, *pieces, finish('"tool_calls"'), usage(), DONE))
    # The client parses a strict tool's arguments as soon as another call begins, so these are not strict.
    loose = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    assembled = assemble(client, played, loose)
    calls = assembled.choices[0].message.tool_calls
    assert [call.id for call in calls] == ["call_0", "call_1", "call_2"]
    assert [json.loads(call.function.arguments)["city"] for call in calls] == cities
    assert assembled.choices[0].finish_reason == "tool_calls"
    assert played.body["tools"] == loose


def assemble(client: Client, played: Played, tools: list[Any]) -> Any:
    """What the client's own assembler makes of a stream."""
    sent: dict[str, Any] = {"model": MODEL, "messages": played.messages, "tools": tools}

    async def assemble_async() -> Any:
        async with (
            AsyncOpenAI(**client.options()) as made,
            made.chat.completions.stream(**sent) as events,
        ):
            return await events.get_final_completion()

    if client.kind == "async":
        return asyncio.run(assemble_async())
    with OpenAI(**client.options()) as made, made.chat.completions.stream(**sent) as events:
        return events.get_final_completion()


def test_a_strict_call_in_one_chunk_is_parsed_by_the_client(client: Client, upstream: UpstreamThread) -> None:
    whole = [tool_delta(0, name="weather", arguments='{"city":"Bern"}')]
    assembled = assemble(client, upstream.play(stream(*whole, finish('"tool_calls"'), DONE)), TOOLS)
    assert assembled.choices[0].message.tool_calls[0].function.parsed_arguments == {"city": "Bern"}


class Answer(BaseModel):
    number: int


def test_structured_output_is_parsed_and_its_schema_goes_out_strict(
    sync: OpenAI, upstream: UpstreamThread
) -> None:
    message = '{"role":"assistant","content":"{\\"number\\": 56}"}'
    played = upstream.play(plain(completion(message)))
    answer = sync.chat.completions.parse(model=MODEL, messages=played.messages, response_format=Answer)
    assert answer.choices[0].message.parsed == Answer(number=56)
    asked = played.body["response_format"]["json_schema"]
    assert (asked["name"], asked["strict"]) == ("Answer", True)
    assert asked["schema"]["additionalProperties"] is False


# Fields beyond the client's own.


def test_extra_body_reaches_the_top_level_whoever_merges_it(client: Client, upstream: UpstreamThread) -> None:
    extra = {"top_k": 3, "provider": {"order": ["x"]}, "seed": None, "guided": False}
    merged_by_client = upstream.play(plain(completion()))
    client.create(merged_by_client, {"temperature": 0.1, "extra_body": {**extra, "temperature": 0.9}})
    merged_here = upstream.play(plain(completion()))
    literal = {"extra_body": {"extra_body": {**extra, "temperature": 0.9}}, "temperature": 0.1}
    client.create(merged_here, literal)
    for played in (merged_by_client, merged_here):
        expected = {"model": "upstream-model", "messages": played.messages, **extra, "temperature": 0.9}
        assert played.body == expected


def test_controls_are_stripped_named_and_never_sent(sync: OpenAI, upstream: UpstreamThread) -> None:
    played = upstream.play(plain(completion()))
    controls = {"api_key": "sk-mine-0123456789", "api_base": "http://127.0.0.1:1/v1", "num_retries": 3}
    reply = sync.chat.completions.with_raw_response.create(
        model=MODEL, messages=played.messages, extra_body={**controls, "top_k": 1}
    )
    assert set(reply.headers["x-osmosis-stripped"].split(",")) == set(controls)
    assert set(played.body) == {"model", "messages", "top_k"}


def test_a_raw_response_shows_the_providers_headers_and_ours(
    sync: OpenAI, bridge: BridgeProcess, upstream: UpstreamThread
) -> None:
    limits = [("x-request-id", "req-9"), ("x-ratelimit-remaining-tokens", "77"), ("set-cookie", "a=b")]
    played = upstream.play(plain(completion(), 200, *limits))
    reply = sync.chat.completions.with_raw_response.create(model=MODEL, messages=played.messages)
    assert reply.request_id == "req-9"
    assert reply.headers["x-ratelimit-remaining-tokens"] == "77"
    assert "set-cookie" not in reply.headers
    assert reply.headers["x-osmosis-call-id"] == bridge.record(rollout_of(sync))["call_id"]
    assert bridge.record(rollout_of(sync))["upstream_request_id"] == "req-9"
    assert reply.parse().choices[0].message.content == "hello"


def test_a_streaming_response_gives_lines_that_end_in_done(sync: OpenAI, upstream: UpstreamThread) -> None:
    played = upstream.play(stream(*WHOLE))
    with sync.chat.completions.with_streaming_response.create(
        model=MODEL, messages=played.messages, stream=True
    ) as reply:
        lines = [line for line in reply.iter_lines() if line]
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert lines[-1] == "data: [DONE]"
    assert len(lines) == len(HELLO) + 1


# Errors.

CLASSES = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    402: openai.APIStatusError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    408: openai.APIStatusError,
    409: openai.ConflictError,
    413: openai.APIStatusError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    451: openai.APIStatusError,
    500: openai.InternalServerError,
    502: openai.InternalServerError,
    503: openai.InternalServerError,
    529: openai.InternalServerError,
}


@pytest.mark.parametrize("status", CLASSES)
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_a_status_of_the_provider_raises_its_own_class(
    sync: OpenAI, bridge: BridgeProcess, upstream: UpstreamThread, status: int, streamed: bool
) -> None:
    played = upstream.play(failing(status, ("retry-after", "7"), ("x-request-id", "req-7")))
    with pytest.raises(CLASSES[status]) as caught:
        sync.chat.completions.create(model=MODEL, messages=played.messages, stream=streamed)
    error = caught.value
    assert type(error) is CLASSES[status]
    assert error.status_code == status
    assert (error.code, error.param, error.type) == ("a_code", "a_param", "a_type")
    assert "told to fail" in error.message
    assert error.request_id == "req-7"
    assert error.response.headers["retry-after"] == "7"
    assert error.response.headers["x-osmosis-error-origin"] == "upstream"
    record = bridge.record(rollout_of(sync))
    assert (record["status"], record["http_status"], record["error_code"]) == (
        "upstream_error",
        status,
        "a_code",
    )
    assert len(played.received) == 1


def test_an_async_client_raises_the_same_classes(bridge: BridgeProcess, upstream: UpstreamThread) -> None:
    client = Client(bridge, "async", f"r-{next(ROLLOUTS)}")
    for status in (400, 429, 500):
        with pytest.raises(CLASSES[status]):
            client.create(upstream.play(failing(status)), {"stream": status == 500})
    assert [record["http_status"] for record in client.records] == [400, 429, 500]


IN_BAND = {
    "an error object": data('{"error":{"message":"engine dead","type":"t","code":"c"}}'),
    "a flat error": data('{"object":"error","message":"engine dead","code":500}'),
    "an error event": b'event: error\ndata: {"message":"engine dead"}\n\n',
    "a page": b"data: <html>engine dead</html>\n\n",
}


@pytest.mark.parametrize("frame", IN_BAND.values(), ids=IN_BAND)
def test_an_error_in_the_middle_of_a_stream_is_raised(
    client: Client, upstream: UpstreamThread, frame: bytes
) -> None:
    played = upstream.play(stream(said("hel"), frame, DONE))
    with pytest.raises(openai.APIError, match="engine dead") as caught:
        client.create(played, {"stream": True})
    assert not isinstance(caught.value, openai.APIStatusError)
    assert client.record["status"] == "upstream_error"


def test_a_first_event_that_is_an_error_has_a_status(client: Client, upstream: UpstreamThread) -> None:
    played = upstream.play(stream(data('{"error":{"message":"slow down","code":429}}'), DONE))
    with pytest.raises(openai.RateLimitError, match="slow down"):
        client.create(played, {"stream": True})
    assert client.record["http_status"] == 429


CUTS = {
    "reset": stream(said("hel"), Pause(0.05), whole=False, end="reset"),
    "closed early": stream(said("hel"), whole=False),
    "ended without a finish": stream(said("hel")),
    "done without a finish": stream(said("hel"), DONE),
}


@pytest.mark.parametrize("script", CUTS.values(), ids=CUTS)
def test_a_stream_that_is_cut_never_looks_complete(
    client: Client, upstream: UpstreamThread, script: Script
) -> None:
    with pytest.raises(openai.APIError):
        client.create(upstream.play(script), {"stream": True})
    assert client.record["status"] == "truncated"


def test_an_error_under_status_200_and_a_cut_plain_reply_are_raised(
    client: Client, upstream: UpstreamThread
) -> None:
    with pytest.raises(openai.APIStatusError, match="engine dead"):
        client.create(upstream.play(plain('{"error":{"message":"engine dead"}}')))
    cut = raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{")
    with pytest.raises(openai.InternalServerError):
        client.create(upstream.play(cut))
    assert [record["status"] for record in client.records] == ["upstream_error", "truncated"]


def test_the_bridges_own_refusals_have_their_classes(bridge: BridgeProcess, upstream: UpstreamThread) -> None:
    played = upstream.play(plain(completion()))
    options = Client(bridge, "sync", "refused-1").options()

    def refused(expected: type[openai.APIStatusError], code: str, *, given: Any = (), **fields: Any) -> None:
        with OpenAI(**{**options, **dict(given)}) as client, pytest.raises(expected) as caught:
            client.chat.completions.create(**{"model": MODEL, "messages": played.messages, **fields})
        assert type(caught.value) is expected
        assert caught.value.code == code
        assert caught.value.response.headers["x-osmosis-error-origin"] == "bridge"

    refused(openai.AuthenticationError, "invalid_bearer", given={"api_key": "wrong"})
    refused(openai.PermissionDeniedError, "forbidden", given={"api_key": bridge.bearer("somebody-else")})
    refused(openai.BadRequestError, "invalid_stream", extra_body={"stream": "true"})
    refused(openai.BadRequestError, "invalid_extra_body", extra_body={"extra_body": 3})
    refused(openai.BadRequestError, "invalid_messages", messages="hello")
    assert played.received == []
    records = bridge.records("refused-1")
    assert [record["status"] for record in records] == ["refused"] * 3, "who has no bearer leaves no record"


def test_paths_that_are_not_served_are_not_found(sync: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no route"):
        sync.images.generate(model=MODEL, prompt="a cat")


def test_models_are_listed_and_any_name_is_one(sync: OpenAI) -> None:
    assert [model.id for model in sync.models.list()] == [MODEL]
    assert sync.models.retrieve("gpt-4o").id == "gpt-4o"


# Time-outs and retries.


def test_a_client_that_times_out_leaves_nothing_open(client: Client, upstream: UpstreamThread) -> None:
    played = upstream.play(raw(Hold(20)))
    with pytest.raises(openai.APITimeoutError):
        client.create(played, timeout=0.3)
    assert eventually(played.received[0].peer_closed.is_set)
    assert client.record["status"] == "cancelled"


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_the_client_retries_what_failed_and_each_attempt_is_a_call(
    client: Client, upstream: UpstreamThread, streamed: bool
) -> None:
    well = stream(*WHOLE) if streamed else plain(completion())
    played = upstream.play(failing(429, ("retry-after-ms", "5")), failing(503, ("retry-after-ms", "5")), well)
    client.create(played, {"stream": streamed}, max_retries=2)
    assert len(played.received) == 3
    assert [record["status"] for record in client.records] == ["upstream_error", "upstream_error", "ok"]
    assert [record.get("usage") for record in client.records] == [None, None, COUNTED]


def test_a_provider_that_forbids_a_retry_is_heeded(sync: OpenAI, upstream: UpstreamThread) -> None:
    played = upstream.play(failing(500, ("x-should-retry", "false")))
    with pytest.raises(openai.InternalServerError):
        sync.with_options(max_retries=3).chat.completions.create(model=MODEL, messages=played.messages)
    assert len(played.received) == 1


class Lossy(socketserver.BaseRequestHandler):
    """A wire that swallows the first whole reply and hangs up, then passes everything on."""

    server: LossyServer

    def handle(self) -> None:
        lose = self.server.to_lose > 0
        self.server.to_lose -= 1
        with socket.create_connection(self.server.behind) as bridge, suppress(ConnectionError):
            while request := self._request():
                bridge.sendall(request)
                reply = self._reply(bridge)
                self.server.lost += lose
                if lose:
                    return
                self.request.sendall(reply)

    def _request(self) -> bytes:
        return read_message(self.request)

    def _reply(self, bridge: socket.socket) -> bytes:
        return read_message(bridge)


class LossyServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    behind: tuple[str, int]
    to_lose = 1
    lost = 0


def read_message(connection: socket.socket) -> bytes:
    """One HTTP message, its framing read as far as needed to find its end."""
    message = b""
    while True:
        head, found, body = message.partition(b"\r\n\r\n")
        if found:
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            if b"transfer-encoding" in fields and body.endswith(b"0\r\n\r\n"):
                return message
            if b"transfer-encoding" not in fields and len(body) >= int(fields.get(b"content-length", 0)):
                return message
        piece = connection.recv(65536)
        if not piece:
            return message
        message += piece


@contextmanager
def lossy(bridge: BridgeProcess) -> Iterator[LossyServer]:
    with LossyServer(("127.0.0.1", 0), Lossy) as server:
        server.behind = ("127.0.0.1", int(bridge.url.rpartition(":")[2]))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_a_retry_after_a_lost_reply_gets_it_again_and_it_is_paid_for_once(
    bridge: BridgeProcess, client: Client, upstream: UpstreamThread, streamed: bool
) -> None:
    played = upstream.play(stream(*WHOLE) if streamed else plain(completion()))
    with lossy(bridge) as wire:
        base_url = f"http://127.0.0.1:{wire.server_address[1]}/v1/rollouts/{client.rollout_id}"
        answer = client.create(played, {"stream": streamed}, base_url=base_url, max_retries=1)
        assert wire.lost == 1
    content = "".join(part.choices[0].delta.content or "" for part in answer) if streamed else None
    assert (content or answer.choices[0].message.content) == "hello"
    assert len(played.received) == 1
    first, second = client.records
    assert (first["status"], first["usage"]) == ("ok", COUNTED)
    assert (second["status"], second["replay_of"]) == ("ok", first["call_id"])
    assert "usage" not in second
    totals = httpx.get(f"{bridge.base_url(client.rollout_id)}/usage", headers=authorized(bridge)).json()
    assert (totals["calls"], totals["tokens"], totals["calls_without_usage"]) == (
        2,
        COUNTED["total_tokens"],
        0,
    )


def authorized(bridge: BridgeProcess, rollout_id: str | None = None) -> dict[str, str]:
    return {"authorization": f"Bearer {bridge.token if rollout_id is None else bridge.bearer(rollout_id)}"}


def test_identical_calls_that_are_no_retries_are_new_samples(
    bridge: BridgeProcess, client: Client, upstream: UpstreamThread
) -> None:
    played = upstream.play(plain(completion()))
    for _ in range(3):
        client.create(played)
    body = {"model": MODEL, "messages": played.messages}
    for _ in range(2):
        url = f"{bridge.base_url(client.rollout_id)}/chat/completions"
        assert httpx.post(url, json=body, headers=authorized(bridge)).status_code == 200
    assert len(played.received) == 5
    assert [record["usage"] for record in client.records] == [COUNTED] * 5


# Rollouts.


NAMED = {"X-Osmosis-Rollout-Id": "by-header"}


def test_the_rollout_is_told_by_bearer_by_path_or_by_header(
    bridge: BridgeProcess, upstream: UpstreamThread
) -> None:
    played = upstream.play(plain(completion()))
    ways: dict[str, dict[str, Any]] = {
        "by-bearer": {"base_url": bridge.base_url(), "api_key": bridge.bearer("by-bearer")},
        "by-path": {"base_url": bridge.base_url("by-path"), "api_key": bridge.token},
        "by-both": {"base_url": bridge.base_url("by-both"), "api_key": bridge.bearer("by-both")},
        "by-header": {"base_url": bridge.base_url(), "api_key": bridge.token, "default_headers": NAMED},
        "default": {"base_url": bridge.base_url(), "api_key": bridge.token},
    }  # fmt: skip
    for rollout_id, options in ways.items():
        with OpenAI(**options, max_retries=0) as client:
            client.chat.completions.create(model=MODEL, messages=played.messages)
        assert bridge.record(rollout_id)["seq"] == 1


def test_a_closed_rollout_takes_no_more_calls(bridge: BridgeProcess, upstream: UpstreamThread) -> None:
    client = Client(bridge, "sync", "closing-1")
    played = upstream.play(plain(completion()))
    client.create(played)
    url = f"{bridge.base_url('closing-1')}/close"
    assert httpx.post(url, headers=authorized(bridge, "closing-1")).status_code == 403
    closed = httpx.post(url, headers=authorized(bridge))
    assert closed.json()["tokens"] == COUNTED["total_tokens"]
    with pytest.raises(openai.ConflictError) as caught:
        client.create(played)
    assert caught.value.code == "rollout_closed"
    assert len(played.received) == 1
    assert httpx.post(url, headers=authorized(bridge)).json() == closed.json()


def test_many_async_clients_at_once_keep_apart(bridge: BridgeProcess, upstream: UpstreamThread) -> None:
    texts = {f"many-{place}": f"answer-{place}" for place in range(40)}
    played = {
        rollout_id: upstream.play(stream(said(text), Pause(0.05), said("!"), finish(), usage(), DONE))
        for rollout_id, text in texts.items()
    }

    async def ask(rollout_id: str) -> str:
        async with AsyncOpenAI(
            base_url=bridge.base_url(), api_key=bridge.bearer(rollout_id), max_retries=0
        ) as client:
            answer = await client.chat.completions.create(
                model=rollout_id, messages=played[rollout_id].messages, stream=True
            )
            chunks = [part async for part in answer]
        assert {part.model for part in chunks} == {rollout_id}
        return "".join(part.choices[0].delta.content or "" for part in chunks)

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*map(ask, texts))

    assert asyncio.run(all_at_once()) == [f"{text}!" for text in texts.values()]
    assert all(bridge.record(rollout_id)["usage"] == COUNTED for rollout_id in texts)
