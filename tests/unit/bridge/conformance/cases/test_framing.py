"""The cases of framing catch a proxy that holds chunks back, swaps them, or splits lines where none end."""

from __future__ import annotations

from dataclasses import replace

from mini_proxy import Faults, failed, on_events
from osmosis_bridge.conformance.reply import Reply

GOOD = (
    "S-crlf",
    "S-cr",
    "S-multi-line",
    "S-bom",
    "S-one-byte",
    "S-code-points",
    "S-separators",
    "S19-*",
    "S11-*",
)


def test_a_transparent_proxy_passes_the_spellings() -> None:
    assert failed(*GOOD, "S14-spaced", "S-event-order", "S-bytes") == []


def test_a_stream_that_is_buffered_is_caught() -> None:
    buffering = Faults(reply=lambda seen: seen)
    assert failed("S14-first", "S-event-order", faults=buffering) == ["S14-first"]


def test_swapped_chunks_are_caught() -> None:
    swap = Faults(reply=on_events(lambda events: [*events[:1], *events[2:3], *events[1:2], *events[3:]]))
    assert failed("S-event-order", "S-bytes", faults=swap) == ["S-bytes", "S-event-order"]


def test_a_lost_last_event_is_caught() -> None:
    fault = Faults(reply=on_events(lambda events: events[:-1]))
    assert failed("S-one-write", faults=fault) == ["S-one-write"]


def test_a_doubled_chunk_is_caught() -> None:
    fault = Faults(reply=on_events(lambda events: [*events[:2], *events[1:]]))
    assert failed("S19-identical", faults=fault) == ["S19-identical"]


def test_lines_split_at_unicode_separators_are_caught() -> None:
    def python_lines(seen: Reply) -> Reply:
        return replace(seen, body="\n".join(seen.body.decode().splitlines()).encode() + b"\n")

    assert failed("S-separators", "S-crlf", faults=Faults(reply=python_lines)) == ["S-separators"]


def test_an_ending_read_out_of_the_text_is_caught() -> None:
    def cut_at_done(seen: Reply) -> Reply:
        return replace(seen, body=seen.body.partition(b"[DONE]")[0] + b"[DONE]\n\n")

    assert "S-done-in-text" in failed("S-done-in-text", faults=Faults(reply=cut_at_done))
