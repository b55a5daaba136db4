"""Where an answer goes, as it is or through a translation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.native.sender import JSON_TYPE, SSE_TYPE, Sender, SpokenSender
from osmosis_bridge.native.spoken.answer import Answer
from osmosis_bridge.redact import Redactor
from spoken_plainly import Plainly, line

FINISH = line({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"
ERROR = line({"error": {"message": "busy", "type": "rate_limit_error"}})
LIMIT = (b"x-ratelimit-limit-requests", b"9")


def delta(content: str) -> bytes:
    return line({"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]})


def completion() -> bytes:
    choice = {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}
    return json.dumps({"choices": [choice]}).encode()


class Client:
    """What was sent to it."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.pieces: list[bytes] = []
        self.complete = False

    async def __call__(self, message: Any) -> None:
        assert not self.complete
        if message["type"] == "http.response.start":
            assert self.status == 0
            self.status, self.headers = message["status"], dict(message["headers"])
            return
        assert self.status
        self.pieces.append(message["body"])
        self.complete = not message.get("more_body", False)

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


def told(does: Callable[[SpokenSender], Awaitable[None]], *, stream: bool = True) -> Client:
    client = Client()
    answer = Answer(Plainly({"stream": stream}), Redactor())
    asyncio.run(does(SpokenSender(Sender(client), answer, stream=stream)))  # type: ignore[arg-type]
    return client


def relayed(*pieces: bytes, status: int = 200, kind: Any = SSE_TYPE, cut: bool = False) -> Any:
    async def does(sender: SpokenSender) -> None:
        await sender.start(status, [kind, LIMIT] if kind else [LIMIT])
        for piece in pieces:
            await sender.send(piece)
        await (sender.cut() if cut else sender.end())

    return does


def test_a_failure_is_sent_unless_a_reply_has_begun() -> None:
    async def main() -> tuple[Client, Client]:
        first, second = Client(), Client()
        await Sender(first).fail(Refused("no", headers=((b"retry-after", b"1"),)))
        sender = Sender(second)
        await sender.start(200, [SSE_TYPE])
        await sender.fail(Refused("no"))
        return first, second

    first, second = asyncio.run(main())
    assert (first.status, first.headers[b"x-osmosis-error-origin"]) == (400, b"bridge")
    assert (first.headers[b"retry-after"], first.complete) == (b"1", True)
    assert second.pieces == []


def test_a_stream_is_said_as_it_comes() -> None:
    client = told(relayed(delta("a"), delta("b"), FINISH))
    assert client.pieces == [line("a"), line("b"), line("END"), b""]
    assert client.headers == dict([SSE_TYPE, LIMIT])
    assert client.complete


def test_a_stream_cut_anywhere_into_pieces_is_the_same() -> None:
    whole = delta("a") + FINISH
    for place in range(len(whole)):
        assert told(relayed(whole[:place], whole[place:])).body == line("a") + line("END")


@pytest.mark.parametrize("kind", [None, (b"content-type", b"text/plain")])
def test_a_stream_that_does_not_call_itself_one_is_known_by_how_it_begins(kind: Any) -> None:
    assert told(relayed(b"\n", delta("a") + FINISH, kind=kind)).body == line("a") + line("END")


def test_one_body_in_place_of_a_stream_is_said_as_one() -> None:
    client = told(relayed(completion()[:9], completion()[9:], kind=JSON_TYPE))
    assert json.loads(client.body) == {"said": "hi"}
    assert client.headers[b"content-type"] == b"application/json"
    assert client.headers[b"content-length"] == str(len(client.body)).encode()


def test_a_plain_reply_is_said_whole() -> None:
    for does in (
        relayed(completion(), kind=JSON_TYPE),
        lambda s: s.whole(200, [JSON_TYPE, LIMIT], completion()),
    ):
        client = told(does, stream=False)
        assert json.loads(client.body) == {"said": "hi"}
        assert client.headers[b"x-ratelimit-limit-requests"] == b"9"


def test_an_error_passes_as_it_is() -> None:
    client = told(relayed(b'{"err', b'or": 1}', status=429, kind=JSON_TYPE))
    assert (client.status, client.body, client.complete) == (429, b'{"error": 1}', True)
    whole = told(lambda sender: sender.whole(400, [JSON_TYPE], b"{}"), stream=False)
    assert (whole.status, whole.body) == (400, b"{}")


@pytest.mark.parametrize(
    "does",
    [
        relayed(ERROR),
        relayed(b'{"error": {"message": "busy", "type": "rate_limit_error"}}', kind=JSON_TYPE),
        lambda sender: sender.whole(
            200, [JSON_TYPE, LIMIT], b'{"error": {"message": "busy", "type": "rate_limit_error"}}'
        ),
    ],
    ids=["as an event", "as the body", "at once"],
)
def test_an_error_that_comes_before_anything_is_the_reply_with_the_provider_s_headers(does: Any) -> None:
    with pytest.raises(BridgeError) as caught:
        told(does)
    assert (caught.value.status, caught.value.headers) == (429, (LIMIT,))


def test_an_error_after_something_was_said_is_the_last_event_and_nothing_follows() -> None:
    client = told(relayed(delta("a"), ERROR + delta("b"), delta("c")))
    first, error, end = client.pieces
    assert (first, end) == (line("a"), b"")
    assert json.loads(error.removeprefix(b"data: "))["error"]["message"] == "busy"


def test_a_stream_that_ends_early_is_never_complete() -> None:
    client = told(relayed(delta("a")))
    assert b"END" not in client.body
    assert b"upstream_truncated" in client.body
    for pieces in ((), (b"\n",)):
        with pytest.raises(BridgeError) as caught:
            told(relayed(*pieces, kind=None))
        assert caught.value.code == "upstream_truncated"


def test_a_reply_that_is_cut_is_told_to_be() -> None:
    client = told(relayed(delta("a"), cut=True))
    assert b"upstream_cut" in client.body
    assert client.complete
    for does in (relayed(cut=True), relayed(completion()[:5], kind=JSON_TYPE, cut=True)):
        with pytest.raises(BridgeError) as caught:
            told(does)
        assert caught.value.code == "upstream_cut"


def test_what_is_cut_after_its_end_was_said_is_complete() -> None:
    assert told(relayed(delta("a") + FINISH, cut=True)).body == line("a") + line("END")


def test_a_reply_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osmosis_bridge.native.sender._LARGEST", 10)
    with pytest.raises(BridgeError) as caught:
        told(relayed(b"{" + b" " * 20, kind=JSON_TYPE))
    assert caught.value.code == "upstream_reply_too_large"
