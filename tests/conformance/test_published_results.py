"""The published page says what the verdicts beside it say."""

from __future__ import annotations

import json

import conformance_page
from osmosis_bridge.conformance import CaseResult, Report


def between(text: str) -> str:
    return text.partition(conformance_page.BEGIN)[2].partition(conformance_page.END)[0].strip()


def test_the_page_and_its_verdicts_agree() -> None:
    verdicts = json.loads(conformance_page.RAW.read_text("utf-8"))
    page = conformance_page.PAGE.read_text("utf-8")
    assert next(iter(verdicts)).startswith("osmosis bridge ")
    for name, cases in verdicts.items():
        wrong = sum(isinstance(verdict, dict) for verdict in cases.values())
        right = sum(verdict == "passed" for verdict in cases.values())
        assert f"**{name}**: {right} passed, {wrong} failed" in page


def test_our_own_bridge_is_published_without_a_failure() -> None:
    verdicts = json.loads(conformance_page.RAW.read_text("utf-8"))
    ours = next(cases for name, cases in verdicts.items() if name.startswith("osmosis bridge "))
    assert [case_id for case_id, verdict in ours.items() if verdict != "passed"] == []


def test_a_failure_that_comes_from_not_streaming_is_told_apart() -> None:
    results = (
        CaseResult("S-crlf", "S", "t", "failed", "the provider is asked to stream", "no"),
        CaseResult("S-cr", "S", "t", "failed", "an answer", "none"),
    )
    text = conformance_page.results_text({"x 1": Report("", results, 0.0)}, ["y: no interpreter"])
    assert (
        "**x 1**: 0 passed, 2 failed (1 of them because it does not ask its provider to stream), 0 skipped."
        in text
    )
    assert "- S: S-crlf, S-cr" in text
    assert "Not tried: y: no interpreter" in text


def test_verdicts_of_peers_that_were_not_tried_are_kept(tmp_path, monkeypatch) -> None:
    page, raw = tmp_path / "page.md", tmp_path / "raw.json"
    page.write_text(f"before\n{conformance_page.BEGIN}\nold\n{conformance_page.END}\nafter\n")
    monkeypatch.setattr(conformance_page, "PAGE", page)
    monkeypatch.setattr(conformance_page, "RAW", raw)
    good = Report("", (CaseResult("F1-user", "F", "t", "passed"),), 0.0)
    bad = Report("", (CaseResult("F1-user", "F", "t", "failed", "a", "b"),), 0.0)
    conformance_page.publish({"ours 1": good, "theirs 1": bad}, ["ours", "theirs"], [])
    conformance_page.publish({"ours 2": good}, ["ours", "theirs"], [])
    assert list(json.loads(raw.read_text())) == ["ours 2", "theirs 1"]
    assert "| kind | cases | ours 2 | theirs 1 |" in between(page.read_text())
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")
