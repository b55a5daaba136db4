"""What streams of all dialects have in common, shown on a dialect of three words."""

from __future__ import annotations

import pytest

from fakes import admitted
from osmosis_bridge.call import Outcome, Status
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import Event


class NoReading:
    def outcome(self, status: Status, http_status: int | None, error_code: str | None = None) -> Outcome:
        return Outcome(status, http_status, error_code)


class Words(Stream):
    """`end` ends it well, `bad` ends it ill, `enough` makes it complete, all else is passed on."""

    enough = False

    @property
    def reading(self) -> NoReading:
        return NoReading()

    @property
    def complete(self) -> bool:
        return self.enough

    def _take(self, event: Event) -> bytes:
        if event.data == b"bad":
            self._fail_invalid(event.data)
            return b""
        if event.data == b"end":
            self.ended, self.last = True, event.raw
            return b""
        self.enough = self.enough or event.data == b"enough"
        self.started = True
        return event.raw

    def _is_torn(self, event: Event) -> bool:
        return event.data == b"torn"

    def _error_event(self, failure: BridgeError) -> bytes:
        return b"error: " + failure.message.encode() + b"\n\n"


def words() -> Words:
    return Words(admitted(), Redactor(["the-secret-key"]))


def test_the_event_that_ends_a_stream_is_kept_back_and_what_follows_is_dropped() -> None:
    stream = words()
    assert stream.feed(b"data: a\n\ndata: end\n\ndata: b\n\n") == b"data: a\n\n"
    assert (stream.ended, stream.last, stream.failure, stream.status) == (True, b"data: end\n\n", None, "ok")


def test_nothing_is_passed_on_before_an_event_is_whole() -> None:
    stream = words()
    assert [stream.feed(piece) for piece in (b"da", b"ta: a", b"\n", b"\n")] == [
        b"",
        b"",
        b"",
        b"data: a\n\n",
    ]


def test_a_clean_end_where_the_answer_is_complete_is_an_end() -> None:
    stream = words()
    stream.feed(b"data: enough\n\n")
    assert stream.finish() == b""
    assert (stream.ended, stream.last, stream.status) == (True, b"", "ok")


def test_an_unterminated_event_is_read_and_gets_its_blank_line() -> None:
    stream = words()
    assert stream.feed(b"data: a\n\ndata: enough\n") == b"data: a\n\n"
    assert stream.finish() == b"data: enough\n\n\n"
    assert stream.status == "ok"
    stream = words()
    stream.feed(b"data: end")
    assert stream.finish() == b""
    assert (stream.last, stream.status) == (b"data: end\n\n", "ok")


def test_a_clean_end_where_the_answer_is_not_complete_is_a_truncation() -> None:
    for pieces in (b"", b"data: a\n\n", b"data: a"):
        stream = words()
        stream.feed(pieces)
        stream.finish()
        assert stream.failure is not None
        assert (stream.status, stream.failure.code) == ("truncated", "upstream_truncated")
        assert stream.last == b"error: the provider's stream ended without a finish reason\n\n"


def test_half_an_event_is_a_truncation_and_not_passed_on() -> None:
    stream = words()
    stream.feed(b"data: enough\n\ndata: torn")
    assert stream.finish() == b""
    assert stream.failure is not None
    assert (stream.status, stream.failure.code) == ("truncated", "upstream_truncated")


def test_finishing_a_stream_that_has_ended_changes_nothing() -> None:
    stream = words()
    stream.feed(b"data: end\n\ndata: torn")
    assert stream.finish() == b""
    assert (stream.status, stream.last) == ("ok", b"data: end\n\n")


def test_the_first_end_stands() -> None:
    stream = words()
    stream.fail(UpstreamFailed("one"), "truncated")
    stream.fail(UpstreamFailed("two"))
    assert stream.failure is not None
    assert (stream.failure.message, stream.status, stream.last) == ("one", "truncated", b"error: one\n\n")


def test_what_a_dialect_has_put_at_the_end_stands() -> None:
    stream = words()
    stream.last = b"own words\n\n"
    stream.fail(UpstreamFailed("one"))
    assert stream.last == b"own words\n\n"


def test_what_is_not_valid_is_shown_short_and_without_secrets() -> None:
    stream = words()
    stream.feed(b"data: bad\n\n")
    assert b"bad" in stream.last
    stream = words()
    stream._fail_invalid(b"the-secret-key " + b"x" * 9000)
    assert b"the-secret-key" not in stream.last
    assert len(stream.last) < 1100


def test_an_event_beyond_any_size_ends_the_stream() -> None:
    stream = words()
    for _ in range(18):
        assert stream.feed(b"x" * 1024 * 1024) == b""
    assert stream.failure is not None
    assert (stream.status, stream.failure.code) == ("upstream_error", "invalid_upstream_stream")


@pytest.mark.parametrize("status", ["truncated", "upstream_error", "cancelled"])
def test_a_failure_has_the_status_it_is_given(status: Status) -> None:
    stream = words()
    stream.fail(UpstreamFailed("x"), status)
    assert stream.status == status
