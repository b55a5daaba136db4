"""The cases of the other dialects catch a proxy that reshapes their events or makes a success of a failure."""

from __future__ import annotations

from dataclasses import replace

from mini_proxy import Faults, failed, judged, on_body, on_events
from osmosis_bridge.conformance.cases.dialects import M_STOPS, R_DONE, R_ERROR
from osmosis_bridge.conformance.reply import Reply
from osmosis_bridge.conformance.samples import MODEL

EVENTS = ("T6-responses", "T6-messages", "T6-completions", "S-responses-incomplete")
CUTS = ("S4-responses-eof", "S4-responses-chunked", "S4-messages-eof", "S4-messages-no-reason")


def renamed(seen: Reply) -> Reply:
    return replace(seen, body=seen.body.replace(f'"{MODEL}"'.encode(), b'"osmosis-rollout"'))


def test_events_under_the_clients_name_pass_and_others_do_not() -> None:
    assert failed(*EVENTS, "T-responses", "T-messages", faults=Faults(reply=renamed), ours=True) == []
    assert failed(*EVENTS, "T-messages", ours=True) == sorted((*EVENTS, "T-messages"))


def test_an_event_that_is_lost_is_caught() -> None:
    def lose(events: list[bytes]) -> list[bytes]:
        return [event for event in events if b'"lo"' not in event]

    lossy = Faults(reply=lambda seen: on_events(lose)(renamed(seen)))
    assert failed("T6-responses", "T6-messages", faults=lossy, ours=True) == ["T6-messages", "T6-responses"]


def test_a_signature_that_changes_is_caught() -> None:
    changed = Faults(reply=lambda seen: on_body(b"s+/=", b"s+=")(renamed(seen)))
    assert failed("T-messages", "T-responses", faults=changed, ours=True) == ["T-messages"]


def test_a_cut_that_is_passed_on_silently_is_caught() -> None:
    assert failed(*CUTS, ours=True) == sorted(CUTS)


def test_an_invented_ending_is_caught() -> None:
    def finish(events: list[bytes]) -> list[bytes]:
        return [*events, R_ERROR, R_DONE, M_STOPS[2]]

    assert failed(*CUTS[:3], faults=Faults(reply=on_events(finish)), ours=True) == sorted(CUTS[:3])


def test_an_honest_error_passes() -> None:
    honest = Faults(reply=on_events(lambda events: [*events, R_ERROR]))
    assert failed(*CUTS[:3], faults=honest, ours=True) == []


def test_failures_with_status_200_are_caught() -> None:
    names = ("S6-responses-error", "S6-responses-failed", "S6-messages-error", "E-messages-200-html")
    assert failed(*names, ours=True) == sorted(names)


def test_a_told_key_is_caught() -> None:
    assert failed("E1-responses", "E1-messages", ours=True) == ["E1-messages", "E1-responses"]


def test_others_are_not_asked() -> None:
    assert {case.result for case in judged("T6-*", "T-messages", "C1-responses").values()} == {"skipped"}
