"""Clients that leave: in whatever moment, the provider's connection closes and the call is recorded once, as cancelled.

How long the provider waited is printed, not asserted: the promise is one second, a deadline here only fails a hang.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from typing import Any

import httpx
import pytest

from bridge_process import TOKEN, BridgeProcess, Played, UpstreamThread, bridge_process, eventually
from osmosis_bridge.conformance.samples import HELLO, USAGE, completion, finish, said, usage
from osmosis_bridge.conformance.script import DONE, Hold, Pause, Script, Send, head, plain, raw, stream

LONG = Hold(50)
HALF = head(200, ("content-type", "application/json"), ("content-length", "5000")) + b'{"id":"c","choices":['
HALF_ERROR = head(500, ("content-type", "application/json"), ("content-length", "5000")) + b'{"error":{"mess'
COUNTED = json.loads(USAGE)


@pytest.fixture(scope="module")
def upstream() -> Iterator[UpstreamThread]:
    with UpstreamThread().serving() as serving:
        yield serving


@pytest.fixture(scope="module")
def bridge(upstream: UpstreamThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeProcess]:
    with bridge_process(tmp_path_factory.mktemp("leaving"), upstream.url) as running:
        yield running
        # Nobody is in flight: what follows would wait for them.
        assert eventually(lambda: gauge(running, "osmosis_bridge_calls_in_flight") == 0.0)


ROLLOUTS = iter(range(1, 10_000))


class Visitor:
    """A client on a bare socket."""

    def __init__(self, bridge: BridgeProcess, played: Played, rollout_id: str, **fields: Any) -> None:
        mark = fields.pop("mark", None)
        body = json.dumps({"messages": played.messages, **fields}).encode()
        lines = [f"POST /v1/rollouts/{rollout_id}/chat/completions HTTP/1.1", "host: localhost"]
        lines += [f"authorization: Bearer {TOKEN}", f"content-length: {len(body)}"]
        lines += [] if mark is None else [f"x-stainless-retry-count: {mark}"]
        self.rollout_id = rollout_id
        self.socket = socket.create_connection(("127.0.0.1", int(bridge.url.rpartition(":")[2])), timeout=20)
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def read_until(self, marker: bytes) -> bytes:
        seen = b""
        while marker not in seen:
            piece = self.socket.recv(65536)
            assert piece, f"the bridge hung up after {seen!r}"
            seen += piece
        return seen

    def leave(self, how: str) -> float:
        """Hang up, politely or not; when that began."""
        now = time.monotonic()
        if how == "rst":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
        return now


def visit(bridge: BridgeProcess, played: Played, **fields: Any) -> Visitor:
    return Visitor(bridge, played, f"leaves-{next(ROLLOUTS)}", **fields)


def gauge(bridge: BridgeProcess, name: str) -> float | None:
    text = httpx.get(f"{bridge.url}/metrics", headers={"authorization": f"Bearer {TOKEN}"}).text
    found = [line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(found[0]) if found else None


# What the provider has said by then, what the client has seen of it, and whether it asked for a stream.
MOMENTS: dict[str, tuple[Script, bytes | None, bool]] = {
    "before the first byte of a stream": (raw(LONG), None, True),
    "before the first byte of a plain reply": (raw(LONG), None, False),
    "after the head of a stream, which is held back": (stream(LONG), None, True),
    "after a comment only": (stream(b": PROCESSING\n\n", LONG), None, True),
    "in the middle of a stream": (stream(said("one"), LONG), b"one", True),
    "after the finish, before the usage": (stream(*HELLO, LONG), b'"finish_reason":"stop"', True),
    "in the middle of a plain reply": (raw(HALF, LONG), None, False),
    "in the middle of an error": (raw(HALF_ERROR, LONG), None, False),
}


@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_leaving_closes_the_provider_and_is_recorded_once(
    bridge: BridgeProcess,
    upstream: UpstreamThread,
    capsys: pytest.CaptureFixture[str],
    moment: str,
    how: str,
) -> None:
    script, marker, streamed = MOMENTS[moment]
    played = upstream.play(script)
    visitor = visit(bridge, played, stream=streamed)
    (received,) = eventually(lambda: played.received, "the call did not arrive")
    before = takewhile(lambda step: step != LONG, script.steps)
    said_so_far = sum(
        len(step.data) for step in before if isinstance(step, Send) and isinstance(step.data, bytes)
    )
    eventually(lambda: received.sent == said_so_far)
    if marker is not None:
        visitor.read_until(marker)
    closed_at = upstream.closed_at(received)
    left_at = visitor.leave(how)
    waited_ms = (closed_at.result(20) - left_at) * 1000
    record = bridge.record(visitor.rollout_id)
    assert record["status"] == "cancelled"
    assert record["usage_source"] == "missing"
    assert "http_status" not in record
    with capsys.disabled():
        print(f"\n{moment} ({how}): the provider was left after {waited_ms:.1f} ms")
    assert len(bridge.records(visitor.rollout_id)) == 1


def test_usage_that_was_told_before_the_client_left_is_kept(
    bridge: BridgeProcess, upstream: UpstreamThread
) -> None:
    told = said("one")[: -len(b"}\n\n")] + f',"usage":{USAGE}}}\n\n'.encode()
    played = upstream.play(stream(told, LONG))
    visitor = visit(bridge, played, stream=True)
    visitor.read_until(b"one")
    visitor.leave("fin")
    record = bridge.record(visitor.rollout_id)
    assert (record["status"], record["usage_source"], record["usage"]) == ("cancelled", "provider", COUNTED)


def test_a_client_that_has_its_whole_reply_has_not_left(
    bridge: BridgeProcess, upstream: UpstreamThread
) -> None:
    for script, streamed, last in (
        (plain(completion()), False, b"}]" + f',"usage":{USAGE}}}'.encode()),
        (stream(*HELLO, usage(), DONE), True, b"[DONE]"),
    ):
        visitor = visit(bridge, upstream.play(script), stream=streamed)
        visitor.read_until(last)
        visitor.leave("rst")
        assert bridge.record(visitor.rollout_id)["status"] == "ok"


def test_many_clients_that_leave_at_once_leave_nothing(
    bridge: BridgeProcess, upstream: UpstreamThread
) -> None:
    played = [upstream.play(stream(said("one"), LONG)) for _ in range(60)]
    visitors = [visit(bridge, one, stream=True) for one in played]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda visitor: visitor.read_until(b"one"), visitors))
    for visitor in visitors:
        visitor.leave("rst")
    for one in played:
        eventually(one.received[0].peer_closed.is_set, "a provider was never left")
    for visitor in visitors:
        assert bridge.record(visitor.rollout_id)["status"] == "cancelled"


def test_a_retry_that_leaves_while_it_waits_for_the_first_attempt_disturbs_nobody(
    bridge: BridgeProcess, upstream: UpstreamThread
) -> None:
    played = upstream.play(stream(said("one"), Pause(0.4), finish(), usage(), DONE))
    first = visit(bridge, played, stream=True, mark=0)
    first.read_until(b"one")
    second = Visitor(bridge, played, first.rollout_id, stream=True, mark=1)
    time.sleep(0.05)
    second.leave("rst")
    first.read_until(b"[DONE]")
    first.leave("fin")
    records = eventually(lambda: both_of(bridge, first.rollout_id))
    assert [record["status"] for record in records] == ["ok", "cancelled"]
    assert len(played.received) == 1


def both_of(bridge: BridgeProcess, rollout_id: str) -> list[dict[str, Any]]:
    records = sorted(bridge.records(rollout_id), key=lambda record: record["seq"])
    return records if len(records) == 2 else []


def test_whoever_leaves_the_queue_for_a_connection_never_reaches_the_provider(
    upstream: UpstreamThread, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("queue")
    with bridge_process(folder, upstream.url, "--max-upstream-connections", "1") as bridge:
        busy, waiting = upstream.play(raw(LONG)), upstream.play(plain(completion()))
        first = visit(bridge, busy)
        eventually(lambda: busy.received, "the call did not arrive")
        second, third = visit(bridge, waiting), visit(bridge, waiting)
        time.sleep(0.1)
        second.leave("fin")
        assert bridge.record(second.rollout_id)["status"] == "cancelled"
        first.leave("rst")
        third.read_until(b"hello")
        third.leave("fin")
        assert bridge.record(first.rollout_id)["status"] == "cancelled"
        assert bridge.record(third.rollout_id)["status"] == "ok"
    assert len(waiting.received) == 1


def test_a_client_that_leaves_in_its_own_request_is_no_call(bridge: BridgeProcess) -> None:
    before = len(bridge.records())
    with socket.create_connection(("127.0.0.1", int(bridge.url.rpartition(":")[2]))) as half:
        half.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer "
            + TOKEN.encode()
            + b'\r\ncontent-length: 500\r\n\r\n{"messages":['
        )
        time.sleep(0.05)
    assert httpx.get(f"{bridge.url}/health").status_code == 200
    assert len(bridge.records()) == before
    assert "fault" not in bridge.log
