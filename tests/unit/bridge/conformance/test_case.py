"""Cases: what a request says, and what a case is called."""

from __future__ import annotations

import json

import pytest

from osmosis_bridge.conformance.case import KINDS, Ask, alone, exchange, needing
from osmosis_bridge.conformance.cases import ALL
from osmosis_bridge.conformance.samples import completion
from osmosis_bridge.conformance.script import plain

OK = plain(completion())
FIELDS = "F1 F2 F4 F5 F6 F8 F9 F11 F12 F13 F14 F15 F16 F18 F19 F23 F25 F26 F27"
OTHERS = (
    "U1 U2 U4 U7 U9 U10 U11 U13 U15 U16 U17 S1 S2 S4 S6 S7 S8 S10 S11 S14 S15 S16 S19 T1 T3 T5 T6 T7 T9 T10 T11 "
    "T12 T15 E1 E3 E4 E6 E8 E10 E12 C1 C3 C4 C6 C7 C9 C10 C11"
)


def test_a_request_goes_out_as_it_is_written() -> None:
    body = Ask('"x":1.10,"y":1e400', stream=True).body("c.1", 'a "b"')
    assert body == (
        b'{"model":"a \\"b\\"","messages":[{"role":"user","content":"case:c.1"}],"x":1.10,"y":1e400,"stream":true}'
    )


def test_model_and_messages_may_be_text_of_their_own() -> None:
    body = Ask(model="null", messages='[{"content":"$CASE"}]').body("c.1", "a")
    assert json.loads(body) == {"model": None, "messages": [{"content": "case:c.1"}]}


def test_a_raw_body_is_sent_with_the_token_in_place() -> None:
    assert Ask(raw=b"\xff $CASE").body("c.1", "a") == b"\xff case:c.1"


def test_every_case_has_an_id_of_its_own_and_a_kind() -> None:
    ids = [case.id for case in ALL]
    assert len(set(ids)) == len(ids)
    assert {case.kind for case in ALL} == set(KINDS)
    assert all(case.title.strip() and "\n" not in case.title for case in ALL)


@pytest.mark.parametrize("report", FIELDS.split())
def test_every_report_about_fields_has_a_case(report: str) -> None:
    assert any(case.id.startswith(f"{report}-") for case in ALL)


@pytest.mark.parametrize("report", OTHERS.split())
def test_every_other_report_of_the_wire_lane_has_a_case(report: str) -> None:
    assert any(case.id.startswith(f"{report}-") for case in ALL)


def test_marks_are_put_on_a_copy() -> None:
    case = exchange("F-x", "x", Ask(), OK)
    assert (alone(case).alone, needing(case, "slots").needs) == (True, "slots")
    assert (case.alone, case.needs) == (False, "")
