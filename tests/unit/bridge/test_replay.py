"""Replies kept for clients that ask again: one retry each, bounded in time and bytes."""

from __future__ import annotations

import asyncio

import pytest

from osmosis_bridge import replay
from osmosis_bridge.replay import Attempts, attempt_key, retry_count


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def ended(attempts: Attempts, body: bytes = b"{}", *pieces: bytes, ok: bool = True, rollout_id: str = "r"):
    attempt = attempts.begin(rollout_id, body, "call-1")
    for piece in pieces:
        attempt.add(piece)
    attempts.end(attempt, ok=ok)
    return attempt


def test_an_attempt_that_ended_well_can_be_claimed_once() -> None:
    attempts = Attempts(Clock())
    attempt = ended(attempts, b"{}", b"a", b"b")
    assert attempts.claim("r", b"{}") is attempt
    assert (attempt.pieces, attempt.ok, attempt.done) == ([b"a", b"b"], True, True)
    assert attempts.claim("r", b"{}") is None
    assert len(attempts) == 0


def test_another_body_or_another_rollout_is_another_call() -> None:
    attempts = Attempts(Clock())
    ended(attempts, b"{}")
    assert attempts.claim("r", b"{ }") is None
    assert attempts.claim("s", b"{}") is None
    assert attempt_key("a", b"b") != attempt_key("b", b"a")
    assert attempt_key("x" * 128, b"") != attempt_key("x" * 127, b"x")


def test_an_attempt_that_failed_is_forgotten() -> None:
    attempts = Attempts(Clock())
    ended(attempts, ok=False)
    assert attempts.claim("r", b"{}") is None
    assert len(attempts) == 0


def test_the_latest_attempt_is_claimed_first() -> None:
    attempts = Attempts(Clock())
    first, second = ended(attempts), ended(attempts)
    assert attempts.claim("r", b"{}") is second
    assert attempts.claim("r", b"{}") is first


def test_an_attempt_that_is_still_running_is_joined() -> None:
    async def main() -> None:
        attempts = Attempts(Clock())
        attempt = attempts.begin("r", b"{}", "call-1")
        claimed = attempts.claim("r", b"{}")
        assert claimed is attempt
        waiting = asyncio.ensure_future(attempt.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        attempt.add(b"a")
        attempts.end(attempt, ok=True)
        assert await waiting is True
        # It was claimed: nobody else can find it, so it is not kept.
        assert len(attempts) == 0

    asyncio.run(main())


def test_who_joined_an_attempt_that_failed_is_told_so() -> None:
    async def main() -> None:
        attempts = Attempts(Clock())
        attempt = attempts.begin("r", b"{}", "call-1")
        attempts.end(attempt, ok=False)
        attempt.finish(ok=True)
        assert await attempt.wait() is False

    asyncio.run(main())


def test_an_attempt_is_kept_for_five_minutes() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    ended(attempts)
    clock.now = replay.KEEP_S - 1
    ended(attempts, b"other")
    assert len(attempts) == 2
    clock.now = replay.KEEP_S
    assert attempts.claim("r", b"{}") is None
    assert len(attempts) == 1


def test_what_is_kept_is_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "KEEP_BYTES", 2 * (replay.OVERHEAD + 4))
    attempts = Attempts(Clock())
    for name in (b"1", b"2", b"3"):
        ended(attempts, name, b"x" * 4)
    assert attempts.claim("r", b"1") is None
    assert attempts.claim("r", b"2") is not None
    assert attempts.claim("r", b"3") is not None


def test_a_reply_that_is_too_large_is_not_kept_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "LARGEST", 5)
    attempts = Attempts(Clock())
    assert ended(attempts, b"{}", b"123", b"45").ok
    large = ended(attempts, b"x", b"123", b"456", b"7")
    assert (large.ok, large.pieces, attempts.claim("r", b"x")) == (False, [b"123"], None)


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, None),
        (b"0", 0),
        (b"1", 1),
        (b"12", 12),
        (b"", None),
        (b"-1", None),
        (b"x", None),
        (b"1.0", None),
        (b"999999", None),
    ],
)
def test_the_retry_count_is_a_small_number_or_unknown(value: bytes | None, count: int | None) -> None:
    assert retry_count(value) == count


def test_a_rollout_that_is_closed_is_forgotten_and_no_other() -> None:
    attempts = Attempts(Clock())
    for rollout_id in ("a", "b"):
        for body in (b"1", b"2"):
            attempts.end(attempts.begin(rollout_id, body, "c"), ok=True)
    running = attempts.begin("a", b"3", "c")
    attempts.forget("a")
    attempts.end(running, ok=True)
    assert [attempts.claim("a", body) for body in (b"1", b"2", b"3")] == [None, None, None]
    assert attempts.claim("b", b"1") is not None
    assert len(attempts) == 1
