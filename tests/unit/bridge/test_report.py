"""The forwarding report: what became of each field, said by the decision that serves calls."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from osmosis_bridge.policy import Policy, admit
from osmosis_bridge.report import ForwardingReport, explain, translated

POLICY = Policy("up/real")


def report_on(body: bytes | dict[str, Any], policy: Policy = POLICY) -> ForwardingReport:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return explain(
        raw,
        policy,
        provider="fake",
        url="http://x/v1/chat/completions",
        headers=lambda _stream: {"accept": "*/*"},
    )


def rows(report: ForwardingReport) -> list[tuple[str, str, str]]:
    return [(row.field, row.origin, row.became) for row in report.fields]


def test_every_field_says_where_it_came_from_and_what_became_of_it() -> None:
    report = report_on(
        {
            "model": "mine", "messages": [], "stream": True, "seed": 1, "temperature": 0.1, "api_key": "SECRET",
            "extra_body": {"model": "x", "temperature": 0.9, "top_k": 2, "callbacks": ["SECRET"]},
        }
    )  # fmt: skip
    assert rows(report) == [
        ("model", "top level", "value changed"),
        ("messages", "top level", "forwarded"),
        ("stream", "top level", "forwarded"),
        ("seed", "top level", "forwarded"),
        ("temperature", "top level", "ignored"),
        ("api_key", "top level", "stripped as control"),
        ("model", "extra_body", "ignored"),
        ("temperature", "extra_body", "forwarded"),
        ("top_k", "extra_body", "forwarded"),
        ("callbacks", "extra_body", "stripped as control"),
        ("stream_options", "bridge", "set by the bridge"),
    ]
    assert b"SECRET" not in msgspec.json.encode(report)


def test_the_outgoing_body_is_the_one_that_would_be_sent() -> None:
    body = b'{"messages":[ 1.10 ],"seed":12345678901234567890}'
    report = report_on(body)
    assert report.accepted
    assert report.outgoing is not None
    assert bytes(report.outgoing["body"]) == admit(body, POLICY).body
    assert report.outgoing["headers"] == {"accept": "*/*"}
    assert b'"seed":12345678901234567890' in msgspec.json.encode(report)


def test_a_value_that_changes_shows_both() -> None:
    (row,) = [row for row in report_on({"model": "mine", "messages": []}).fields if row.field == "model"]
    assert (row.before, row.after, row.at) == ('"mine"', '"up/real"', "model")


def test_stream_options_that_the_bridge_completes_are_a_changed_value() -> None:
    report = report_on({"messages": [], "stream": True, "stream_options": {"x": 1}})
    assert ("stream_options", "top level", "value changed") in rows(report)


def test_the_envelope_within_extra_body_is_reported_once() -> None:
    assert rows(report_on({"messages": [], "extra_body": {"messages": []}}))[0] == (
        "messages",
        "top level",
        "forwarded",
    )
    report = report_on({"extra_body": {"messages": []}})
    assert ("messages", "extra_body", "forwarded") in rows(report)


def test_long_values_are_cut() -> None:
    (row,) = [row for row in report_on({"messages": [], "x": "y" * 5000}).fields if row.field == "x"]
    assert row.before is not None
    assert len(row.before) == 200
    assert row.before.endswith("…")


def test_a_refused_request_names_the_field_and_goes_nowhere() -> None:
    report = report_on({"messages": [], "stream": "true"})
    assert (report.accepted, report.outgoing) == (False, None)
    assert report.error is not None
    assert (report.error["param"], report.error["code"]) == ("stream", "invalid_stream")
    assert rows(report) == [("stream", "top level", "refused")]


def test_controls_that_are_refused_are_named_at_both_levels_without_their_values() -> None:
    body = {"messages": [], "api_key": "SECRET", "extra_body": {"mock_response": "SECRET"}}
    report = report_on(body, Policy("up", controls="reject"))
    assert rows(report) == [("api_key", "top level", "refused"), ("mock_response", "extra_body", "refused")]
    assert b"SECRET" not in msgspec.json.encode(report)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", []),
        (b"[]", []),
        (b'{"messages":[],"a":' + b"[" * 9000 + b"]" * 9000 + b"}", []),
        (b'{"messages":[],"extra_body":7}', ["extra_body"]),
        (b'{"seed":1}', []),
    ],
)
def test_what_is_no_request_is_reported_as_such(body: bytes, named: list[str]) -> None:
    report = report_on(body)
    assert not report.accepted
    assert report.error is not None
    assert [row.field for row in report.fields] == named


def test_a_byte_order_mark_changes_nothing() -> None:
    assert report_on(b'\xef\xbb\xbf{"messages":[]}') == report_on(b'{"messages":[]}')


def test_all_that_the_translator_refuses_stands_in_the_report() -> None:
    report = report_on({"model": "m", "messages": [1], "seed": 1, "api_key": "x", "temperature": 1})
    error = {"message": "no", "param": "seed"}
    answer = {"error": error, "refused": {"seed": "why", "messages[0].name": "because", "odd": "so"}}
    found = translated(report, 400, json.dumps(answer).encode())
    assert [(row.field, row.origin, row.became, row.before, row.why) for row in found.fields] == [
        ("api_key", "top level", "stripped as control", None, None),
        ("seed", "top level", "refused", "1", "why"),
        ("messages[0].name", "top level", "refused", None, "because"),
        ("odd", "bridge", "refused", None, "so"),
    ]
    assert (found.accepted, found.lane, found.error) == (False, "native", error)
    named = translated(report, 400, json.dumps({"error": error}).encode())
    assert [row.field for row in named.fields] == ["api_key", "seed"]
    nameless = translated(report, 503, b'{"error":{"message":"no","param":null}}')
    assert [row.field for row in nameless.fields] == ["api_key"]
