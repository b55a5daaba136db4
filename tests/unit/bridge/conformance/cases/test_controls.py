"""The cases of controls catch a proxy that forwards them, obeys them, or names none."""

from __future__ import annotations

import json

from mini_proxy import Faults, failed
from osmosis_bridge.conformance.case import Fault, Seen
from osmosis_bridge.conformance.cases.controls import answered_by_the_model, names_stripped
from osmosis_bridge.conformance.reply import Reply


def test_controls_on_the_wire_are_caught_at_the_top_and_inside() -> None:
    caught = failed("F25-*-top", "F25-*-extra")
    assert len(caught) == 22
    assert "F25-endpoint-top" in caught


def test_controls_that_are_stripped_pass() -> None:
    def only_seed(body: bytes) -> bytes:
        fields = json.loads(body)
        return json.dumps({name: fields[name] for name in ("model", "messages")} | {"seed": 4}).encode()

    assert failed("F25-*-top", "F25-*-extra", faults=Faults(request=only_seed)) == []


def test_data_that_is_called_like_a_control_must_stay() -> None:
    def greedy(body: bytes) -> bytes:
        return body.replace(b'"api_key":"a",', b"")

    assert failed("F25-value-named-like-control") == []
    assert failed("F25-value-*", faults=Faults(request=greedy)) == ["F25-value-named-like-control"]


def seen(*headers: tuple[str, str]) -> Seen:
    return Seen(Reply(200, headers, b"", b"{}", "clean"), (), b"", ours=True)


def test_every_stripped_name_must_be_told() -> None:
    check = names_stripped(["a", "b"])
    assert check(seen(("x-osmosis-stripped", "b, a"))) is None
    assert isinstance(check(seen(("x-osmosis-stripped", "ab"))), Fault)
    assert isinstance(check(seen()), Fault)


def test_an_answer_without_a_call_is_a_mock() -> None:
    assert isinstance(answered_by_the_model(seen()), Fault)
