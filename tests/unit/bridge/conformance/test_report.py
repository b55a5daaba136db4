"""Reports: counted by kind, compared on what every target was tried on."""

from __future__ import annotations

import json

from osmosis_bridge.conformance.report import CaseResult, Report, compared, failed_list, shared_cases


def result(case_id: str, outcome: str) -> CaseResult:
    kind = case_id[0]
    return CaseResult(case_id, kind, f"title of {case_id}", outcome, "a|b", "c\nd", 0.1)  # pyright: ignore[reportArgumentType]


GOOD = Report("http://a", (result("F-1", "passed"), result("S-1", "passed"), result("C-1", "passed")), 1.0)
POOR = Report("http://b", (result("F-1", "failed"), result("S-1", "passed"), result("C-1", "skipped")), 2.0)


def test_outcomes_are_counted_by_kind() -> None:
    assert (POOR.count("passed"), POOR.count("failed"), POOR.count("skipped")) == (1, 1, 1)
    assert [(row["kind"], row["passed"], row["failed"]) for row in POOR.rows()] == [
        ("F", 0, 1),
        ("S", 1, 0),
        ("C", 0, 0),
    ]
    assert (GOOD.ok, POOR.ok) == (True, False)
    assert [case.id for case in POOR.failures()] == ["F-1"]


def test_a_report_is_one_json_document() -> None:
    document = json.loads(json.dumps(POOR.as_json()))
    assert document["failed"] == 1
    assert document["cases"][0]["id"] == "F-1"


def test_targets_are_compared_on_what_all_were_tried_on() -> None:
    assert shared_cases([GOOD, POOR]) == {"F-1", "S-1"}
    assert shared_cases([]) == set()
    lines = compared({"ours": GOOD, "theirs": POOR}).splitlines()
    assert lines[0] == "| kind | cases | ours | theirs |"
    assert lines[2].endswith("| 1 | 1 | 0 |")
    assert lines[-1] == "| **all** | **2** | **2** | **1** |"


def test_failures_fit_in_a_table_whatever_was_seen() -> None:
    last = failed_list(POOR).splitlines()[-1]
    assert last == "| F-1 | title of F-1 | a\\|b: c d |"
