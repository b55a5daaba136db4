"""The cases of usage catch a proxy that shows, loses or invents usage."""

from __future__ import annotations

from dataclasses import replace

from mini_proxy import Faults, failed, on_body, on_events
from osmosis_bridge.conformance.case import Fault, Seen
from osmosis_bridge.conformance.cases.usage import counts, hidden
from osmosis_bridge.conformance.exact import parse
from osmosis_bridge.conformance.reply import Reply


def keep_usage_out(events: list[bytes]) -> list[bytes]:
    return [event for event in events if b'"choices":[]' not in event]


def test_usage_shown_to_all_is_caught_and_usage_kept_from_all_too() -> None:
    assert failed("U2-hidden", "U10-shown") == ["U2-hidden"]
    assert failed("U2-hidden", "U10-shown", faults=Faults(reply=on_events(keep_usage_out))) == ["U10-shown"]


def test_usage_that_is_made_up_is_caught() -> None:
    def invent(seen: Reply) -> Reply:
        return replace(seen, body=seen.body.replace(b"}]}", b'}],"usage":{"total_tokens":0}}'))

    assert failed("U13-none", "U-plain") == []
    assert failed("U13-none", "U-plain", faults=Faults(reply=invent)) == ["U13-none"]


def test_lost_details_are_caught() -> None:
    fault = Faults(reply=on_body(b'"cost":0.01,', b""))
    assert failed("U17-cost", "U17-cost-streamed", faults=fault) == ["U17-cost", "U17-cost-streamed"]


def test_a_hidden_chunk_of_content_is_caught() -> None:
    fault = Faults(reply=on_events(lambda events: [event for event in events if b'"usage"' not in event]))
    assert "U-on-content" in failed("U-on-content", faults=fault)


def seen(record: str) -> Seen:
    reply = Reply(200, (), b"", b"{}", "clean")
    return Seen(reply, (), b"", ours=True, records=(parse(record),), readable=True)


def test_a_record_is_counted_by_its_total_or_by_its_parts() -> None:
    whole = '{"usage_source":"provider","usage":{"prompt_tokens":7,"completion_tokens":3%s}}'
    assert counts(10)(seen(whole % "")) is None
    assert counts(25)(seen(whole % ',"total_tokens":25')) is None
    assert counts(10)(seen(whole % ',"total_tokens":25')) is not None


def test_unknown_is_not_zero() -> None:
    zero = '{"usage_source":"missing","usage":{"total_tokens":0}}'
    assert counts(None)(seen('{"usage_source":"missing"}')) is None
    assert isinstance(counts(None)(seen(zero)), Fault)


def test_an_empty_chunk_without_usage_is_not_hidden_usage() -> None:
    event = b'data: {"choices":[],"prompt_filter_results":[]}\n\n'
    stream = Reply(200, (("content-type", "text/event-stream"),), event, event, "clean")
    assert hidden(Seen(stream, (), b"", ours=True)) is None
