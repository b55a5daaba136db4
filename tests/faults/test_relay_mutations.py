"""Tests of the tests: a relay that drops, adds, swaps or hides something must be caught by the checker below.

The checker holds a served stream to what its provider sent, with the assertions that the other tests make.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from fakes import SSE, Answer, FakeLedger, FakeReply, FakeTransport, a_bridge, a_call, delta, request, sse
from osmosis_bridge.dialects import chat
from osmosis_bridge.dialects.chat import ChatStream
from osmosis_bridge.errors import UpstreamFailed

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
SENT = [delta("he"), delta("l"), delta("lo"), delta(finish="stop")]
GOOD = [sse(item, done=False) for item in SENT] + [sse({"choices": [], "usage": USAGE})]
BROKEN = [sse(item, done=False) for item in SENT[:2]] + [sse({"error": {"message": "boom", "code": 500}})]
CUT = [sse(item, done=False) for item in SENT[:3]]


def served(pieces: list[bytes]) -> tuple[list[Any], dict[str, Any], FakeReply]:
    """What the client read, the record, and the reply."""
    ledger, reply = FakeLedger(), FakeReply()
    bridge = a_bridge(FakeTransport(Answer(pieces, headers=SSE)), ledger)
    asyncio.run(bridge.serve(a_call(request(stream=True)), reply))
    parts = [part.removeprefix(b"data: ") for part in reply.body.split(b"\n\n") if part]
    return ["[DONE]" if part == b"[DONE]" else json.loads(part) for part in parts], ledger.records[0], reply


def expected(number: int) -> list[dict[str, object]]:
    return [{**item, "model": "m"} for item in SENT[:number]]


def check_good() -> None:
    frames, record, reply = served(GOOD)
    assert frames == [*expected(4), "[DONE]"]
    assert reply.pieces[-1] == b"data: [DONE]\n\n"
    assert (record["status"], record["finish_reasons"], record["usage"]) == ("ok", ["stop"], USAGE)


def check_broken() -> None:
    frames, record, _ = served(BROKEN)
    assert frames[:-1] == expected(2)
    assert frames[-1]["error"]["message"] == "boom"
    assert (record["status"], record.get("finish_reasons")) == ("upstream_error", None)


def check_cut() -> None:
    frames, record, _ = served(CUT)
    assert frames[:-1] == expected(3)
    assert frames[-1]["error"]["code"] == "upstream_truncated"
    assert (record["status"], record.get("finish_reasons")) == ("truncated", None)


CHECKS = (check_good, check_broken, check_cut)


class DropsTheLastEvent(ChatStream):
    def feed(self, piece: bytes) -> bytes:
        out = super().feed(piece)
        return b"" if b'"finish_reason": "stop"' in out else out


class DropsOneEvent(ChatStream):
    def feed(self, piece: bytes) -> bytes:
        out = super().feed(piece)
        return b"" if b'"l"' in out else out


class AddsAStop(ChatStream):
    def fail(self, failure: Any, status: Any = "upstream_error") -> None:
        super().fail(failure, status)
        self.last = sse(delta(finish="stop")) + self.last


class EndsWithDone(ChatStream):
    def fail(self, failure: Any, status: Any = "upstream_error") -> None:
        super().fail(failure, status)
        self.last += b"data: [DONE]\n\n"


class SwapsTheOrder(ChatStream):
    held = b""

    def feed(self, piece: bytes) -> bytes:
        out = super().feed(piece)
        if b'"l"' in out:
            SwapsTheOrder.held = out
            return b""
        out, SwapsTheOrder.held = out + SwapsTheOrder.held, b""
        return out


class HidesTheError(ChatStream):
    def fail(self, failure: Any, status: Any = "upstream_error") -> None:
        super().fail(failure, status)
        self.failure, self.status, self.last = None, "ok", b"data: [DONE]\n\n"


class EmptiesTheError(ChatStream):
    def fail(self, failure: Any, status: Any = "upstream_error") -> None:
        super().fail(UpstreamFailed("", code=failure.code), status)
        self.last = b'data: {"error":{"message":""}}\n\n'


class SendsTheEndTooEarly(ChatStream):
    def feed(self, piece: bytes) -> bytes:
        out = super().feed(piece)
        out, self.last = out + self.last, b""
        return out


class ForgetsTheUsage(ChatStream):
    def feed(self, piece: bytes) -> bytes:
        return super().feed(piece.replace(b"prompt_tokens", b"prompt_tokenz"))


class ShowsTheUsageNobodyAskedFor(ChatStream):
    def feed(self, piece: bytes) -> bytes:
        return super().feed(piece) + (piece if b'"usage"' in piece else b"")


class ForgetsTheAlias(ChatStream):
    def feed(self, piece: bytes) -> bytes:
        return super().feed(piece).replace(b'"model": "m"', b'"model": "up/real"')


class RepeatsAnEvent(ChatStream):
    def feed(self, piece: bytes) -> bytes:
        out = super().feed(piece)
        return out + out if b'"lo"' in out else out


class CallsATruncationAnError(ChatStream):
    def fail(self, failure: Any, status: Any = "upstream_error") -> None:
        super().fail(failure, "upstream_error")


@pytest.mark.parametrize("check", CHECKS)
def test_the_relay_as_it_is_passes_every_check(check: Any) -> None:
    check()


@pytest.mark.parametrize(
    "mutant",
    [
        DropsTheLastEvent, DropsOneEvent, AddsAStop, EndsWithDone, SwapsTheOrder, HidesTheError, EmptiesTheError,
        SendsTheEndTooEarly, ForgetsTheUsage, ShowsTheUsageNobodyAskedFor, ForgetsTheAlias, RepeatsAnEvent,
        CallsATruncationAnError,
    ],
)  # fmt: skip
def test_a_relay_that_does_wrong_is_caught(mutant: type[ChatStream], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "ChatStream", mutant)
    caught = 0
    for check in CHECKS:
        try:
            check()
        except (AssertionError, KeyError, TypeError, ValueError):
            caught += 1
    assert caught > 0
