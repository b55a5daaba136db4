"""Tests of the tests: a relay of typed events that does wrong must be caught by the checker below.

The checker holds a served stream of Responses and of Messages to what its provider sent, with the assertions that the
other tests make.
"""

from __future__ import annotations

import asyncio
import json
from types import ModuleType
from typing import Any

import msgspec
import pytest

from fakes import SSE, Answer, FakeLedger, FakeReply, FakeTransport, a_bridge, a_call
from osmosis_bridge.dialects import messages, responses
from osmosis_bridge.dialects.messages import MessagesStream
from osmosis_bridge.dialects.responses import ResponsesStream
from osmosis_bridge.errors import UpstreamFailed
from typed_events import MESSAGES, RESPONSES, event, response

ERROR = event("error", error={"type": "api_error", "code": "server_error", "message": "boom"})
FAILED = event(
    "response.failed", response=response("failed", error={"code": "server_error", "message": "boom"})
)


def served(dialect: str, pieces: list[bytes]) -> tuple[list[bytes], dict[str, Any], FakeReply]:
    """The events the client read, the record, and the reply."""
    ledger, reply = FakeLedger(), FakeReply()
    bridge = a_bridge(FakeTransport(Answer(pieces, headers=SSE)), ledger)
    body = {"model": "m", "stream": True, "messages": [], "input": "hi"}
    call = msgspec.structs.replace(a_call(json.dumps(body).encode()), dialect=dialect)
    asyncio.run(bridge.serve(call, reply))
    return [part + b"\n\n" for part in reply.body.split(b"\n\n") if part], ledger.records[0], reply


def renamed(events: list[bytes]) -> list[bytes]:
    return [each.replace(b'"up/real"', b'"m"') for each in events]


def check_good(dialect: str, events: list[bytes], usage: dict[str, int], finish: str) -> None:
    frames, record, reply = served(dialect, events)
    assert frames == renamed(events)
    assert reply.pieces[-1] == renamed(events)[-1]
    assert (record["status"], record["finish_reasons"], record["usage"]) == ("ok", [finish], usage)


def check_broken(dialect: str, events: list[bytes], last: bytes) -> None:
    frames, record, _ = served(dialect, [*events[:4], last, *events[4:]])
    assert frames[:4] == renamed(events[:4])
    found = json.loads(frames[-1].partition(b"data: ")[2])
    assert (found["type"], found["error"]["message"]) == ("error", "boom")
    assert len(frames) == 5 + (b"response.failed" in last)
    assert record["status"] == "upstream_error"


def check_cut(dialect: str, events: list[bytes]) -> None:
    frames, record, _ = served(dialect, events[:-1])
    assert frames[:-1] == renamed(events[:-1])
    found = json.loads(frames[-1].partition(b"data: ")[2])
    assert found["type"] == "error"
    assert found["error"]["message"]
    assert record["status"] == "truncated"


def check_first(dialect: str) -> None:
    _, record, reply = served(dialect, [ERROR])
    assert (reply.status, record["http_status"], record["status"]) == (500, 500, "upstream_error")
    assert b"boom" in reply.body


RESPONSES_USED = {
    "prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28, "cached_tokens": 12, "cache_write_tokens": 3,
    "reasoning_tokens": 5,
}  # fmt: skip
MESSAGES_USED = {
    "prompt_tokens": 15, "completion_tokens": 15, "total_tokens": 30, "cached_tokens": 3, "cache_write_tokens": 7,
}  # fmt: skip
CHECKS = {
    "responses": (
        lambda: check_good("responses", RESPONSES, RESPONSES_USED, "completed"),
        lambda: check_broken("responses", RESPONSES, ERROR),
        lambda: check_broken("responses", RESPONSES, FAILED),
        lambda: check_cut("responses", RESPONSES),
        lambda: check_first("responses"),
    ),
    "messages": (
        lambda: check_good("messages", MESSAGES, MESSAGES_USED, "end_turn"),
        lambda: check_broken("messages", MESSAGES, ERROR),
        lambda: check_cut("messages", MESSAGES),
        lambda: check_first("messages"),
    ),
}


def drops_the_last_event(base: Any) -> Any:
    class Mutant(base):
        def _end_with(self, frame: bytes) -> bytes:
            super()._end_with(b"")
            return b""

    return Mutant


def drops_one_event(base: Any) -> Any:
    class Mutant(base):
        def feed(self, piece: bytes) -> bytes:
            out = super().feed(piece)
            return b"" if b"delta" in out and b"llo" in out else out

    return Mutant


def repeats_an_event(base: Any) -> Any:
    class Mutant(base):
        def feed(self, piece: bytes) -> bytes:
            out = super().feed(piece)
            return out + out if b"llo" in out else out

    return Mutant


def swaps_the_order(base: Any) -> Any:
    class Mutant(base):
        held = b""

        def feed(self, piece: bytes) -> bytes:
            out = super().feed(piece)
            if b'"he"' in out:
                Mutant.held = out
                return b""
            out, Mutant.held = out + Mutant.held, b""
            return out

    return Mutant


def hides_the_error(base: Any) -> Any:
    class Mutant(base):
        def fail(self, failure: Any, status: Any = "upstream_error") -> None:
            super().fail(failure, status)
            self.failure, self.status, self.last = (
                None,
                "ok",
                MESSAGES[-1] if base is MessagesStream else RESPONSES[-1],
            )

    return Mutant


def empties_the_error(base: Any) -> Any:
    class Mutant(base):
        def fail(self, failure: Any, status: Any = "upstream_error") -> None:
            super().fail(UpstreamFailed("", code=failure.code), status)

    return Mutant


def ends_after_an_error(base: Any) -> Any:
    class Mutant(base):
        def fail(self, failure: Any, status: Any = "upstream_error") -> None:
            super().fail(failure, status)
            self.last += MESSAGES[-1] if base is MessagesStream else RESPONSES[-1]

    return Mutant


def sends_the_end_too_early(base: Any) -> Any:
    class Mutant(base):
        def feed(self, piece: bytes) -> bytes:
            out = super().feed(piece)
            if self.failure is None:
                out, self.last = out + self.last, b""
            return out

    return Mutant


def takes_any_end_for_success(base: Any) -> Any:
    class Mutant(base):
        complete = True

    return Mutant


def forgets_the_usage(base: Any) -> Any:
    class Mutant(base):
        def feed(self, piece: bytes) -> bytes:
            return super().feed(piece.replace(b"input_tokens", b"input_tokenz"))

    return Mutant


def forgets_the_alias(base: Any) -> Any:
    class Mutant(base):
        def feed(self, piece: bytes) -> bytes:
            return super().feed(piece).replace(b'"model": "m"', b'"model": "up/real"')

    return Mutant


def calls_a_truncation_an_error(base: Any) -> Any:
    class Mutant(base):
        def fail(self, failure: Any, status: Any = "upstream_error") -> None:
            super().fail(failure, "upstream_error")

    return Mutant


def begins_before_an_error(base: Any) -> Any:
    class Mutant(base):
        def feed(self, piece: bytes) -> bytes:
            out = super().feed(piece)
            self.started = True
            return out

    return Mutant


def changes_a_byte(base: Any) -> Any:
    class Mutant(base):
        def feed(self, piece: bytes) -> bytes:
            return (
                super()
                .feed(piece)
                .replace(b"1.0", b"1")
                .replace(b"c2ln", b"c2lN")
                .replace(b"logprobs", b"logprob")
            )

    return Mutant


PLACES: dict[str, tuple[ModuleType, str, Any]] = {
    "responses": (responses, "ResponsesStream", ResponsesStream),
    "messages": (messages, "MessagesStream", MessagesStream),
}
BOTH = pytest.mark.parametrize("dialect", PLACES)


@BOTH
def test_the_relay_as_it_is_passes_every_check(dialect: str) -> None:
    for check in CHECKS[dialect]:
        check()


@BOTH
@pytest.mark.parametrize(
    "mutation",
    [
        drops_the_last_event, drops_one_event, repeats_an_event, swaps_the_order, hides_the_error, empties_the_error,
        ends_after_an_error, sends_the_end_too_early, takes_any_end_for_success, forgets_the_usage,
        forgets_the_alias, calls_a_truncation_an_error, begins_before_an_error, changes_a_byte,
    ],
)  # fmt: skip
def test_a_relay_that_does_wrong_is_caught(
    mutation: Any, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name, base = PLACES[dialect]
    monkeypatch.setattr(module, name, mutation(base))
    caught = 0
    for check in CHECKS[dialect]:
        try:
            check()
        except (AssertionError, KeyError, TypeError, ValueError):
            caught += 1
    assert caught > 0
