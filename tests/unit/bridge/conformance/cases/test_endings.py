"""The cases of endings catch a proxy that makes a success of a failure."""

from __future__ import annotations

from mini_proxy import Faults, failed, on_body, on_events
from osmosis_bridge.conformance.samples import finish
from osmosis_bridge.conformance.script import DONE

STOP = finish()
ERROR = b'data: {"error":{"message":"cut","type":"t","param":null,"code":null}}\n\n'


def ended_with(*last: bytes) -> Faults:
    """Whatever came, the stream is given this ending."""
    return Faults(reply=on_events(lambda events: [*events, *last]))


CUTS = ("S4-reset", "S4-eof", "S4-chunked", "S4-short")


def test_a_cut_that_is_passed_on_silently_is_caught() -> None:
    assert failed("S4-eof", "S4-chunked") == ["S4-chunked", "S4-eof"]


def test_an_invented_stop_is_caught() -> None:
    assert failed(*CUTS, faults=ended_with(STOP, DONE)) == sorted(CUTS)
    assert failed(*CUTS, faults=ended_with(STOP, ERROR)) == sorted(CUTS)


def test_an_invented_done_is_caught() -> None:
    assert failed(*CUTS, faults=ended_with(ERROR, DONE)) == sorted(CUTS)


def test_an_honest_error_passes() -> None:
    assert failed(*CUTS, faults=ended_with(ERROR)) == []


def test_a_swallowed_error_is_caught() -> None:
    def swallow(events: list[bytes]) -> list[bytes]:
        return [*(event for event in events if b"error" not in event and b"[DONE]" not in event), STOP, DONE]

    names = ("S1-flat", "S2-event", "S7-nested", "S10-finish-error")
    assert failed(*names, faults=Faults(reply=on_events(swallow))) == sorted(names)


def test_an_error_emptied_of_its_words_is_caught() -> None:
    def empty(events: list[bytes]) -> list[bytes]:
        return [*(event for event in events if b"error" not in event and b"[DONE]" not in event), ERROR]

    assert failed("S7-nested", "S10-finish-error", faults=Faults(reply=on_events(empty))) == ["S7-nested"]


def test_a_laundered_finish_reason_is_caught() -> None:
    fault = Faults(reply=on_body(b'"finish_reason":"abort"', b'"finish_reason":"stop"'))
    assert failed("S10-*-abort", "S10-*-length", faults=fault) == ["S10-plain-abort", "S10-stream-abort"]


def test_an_error_that_stays_a_200_is_caught() -> None:
    assert failed("S6-429", "S6-word") == ["S6-429", "S6-word"]
