"""Results as JSON and as plain lines."""

from __future__ import annotations

import json

import pytest

from osmosis_cli.output import (
    DetailResult,
    ListResult,
    NextStep,
    OperationResult,
    Section,
    document,
    encode,
    error_document,
    one_line,
    plain_lines,
    printable,
    warning_document,
)

OPERATION = OperationResult(
    operation="eval.run",
    status="success",
    message="Done.",
    rows=(("Run", "quick\totter"),),
    sections=(Section("Failed rows", ("row 1\nrun 0",)),),
    resource={"run_name": "quick"},
    next_steps=(NextStep("View", "osmosis eval show quick"),),
)


def test_an_operation_is_one_document() -> None:
    assert document(OPERATION) == {
        "schema_version": 1,
        "status": "success",
        "operation": "eval.run",
        "resource": {"run_name": "quick"},
        "message": "Done.",
        "next_steps_structured": [{"label": "View", "command": "osmosis eval show quick"}],
    }


def test_an_operation_in_plain_text_is_its_message_then_facts_then_what_to_type() -> None:
    assert plain_lines(OPERATION) == [
        "Done.",
        "Run: quick otter",
        "Failed rows:",
        "  row 1 run 0",
        "View: osmosis eval show quick",
    ]


def test_a_detail_is_data_for_programs_and_labels_for_people() -> None:
    result = DetailResult("Run", (("Name", "quick"),), {"name": "quick"})
    assert document(result) == {"schema_version": 1, "data": {"name": "quick"}}
    assert plain_lines(result) == ["Name: quick"]


def test_a_list_is_items_for_programs_and_tabs_for_line_tools() -> None:
    result = ListResult("Runs", ("Name", "Status"), (("a\tb", "ok"),), ({"name": "a"},), {"root": "/x"})
    assert document(result) == {
        "schema_version": 1,
        "items": ({"name": "a"},),
        "total_count": 1,
        "has_more": False,
        "next_offset": None,
        "root": "/x",
    }
    assert plain_lines(result) == ["a b\tok"]


def test_an_error_names_the_root_when_no_command_was_reached() -> None:
    told = error_document("", "1.0", ("VALIDATION", "No."), {"fix": "Do."})
    assert told["command"] == "<root>"
    assert told["error"] == {"code": "VALIDATION", "message": "No.", "details": {"fix": "Do."}}


def test_a_warning_has_an_envelope() -> None:
    told = warning_document("1.0", "OLD", "Old.")
    assert told == {"schema_version": 1, "cli_version": "1.0", "warning": {"code": "OLD", "message": "Old."}}


def test_numbers_that_json_does_not_know_become_null() -> None:
    value = {"a": float("nan"), "b": [1.5, float("inf")], "c": ({"d": float("-inf")},), "e": "nan"}
    assert json.loads(encode(value)) == {"a": None, "b": [1.5, None], "c": [{"d": None}], "e": "nan"}


@pytest.mark.parametrize("text", ["a\nb", "é \ud800 \u2028", "\x1b[31m"])
def test_json_is_one_line_of_ascii(text: str) -> None:
    line = encode({"text": text})
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line) == {"text": text}


def test_text_of_others_cannot_drive_the_terminal() -> None:
    evil = "a\x1b[2Jb\r\nc\td\x9b31m\x00"
    assert one_line(evil) == "a[2Jb c d31m"
    assert printable(evil) == "a[2Jb\nc\td31m"
