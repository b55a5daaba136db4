"""The published results of the conformance suite: a table in `docs/conformance.md`, every verdict in a JSON file.

Knows reports and the two files, and nothing of how a peer is run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from osmosis_bridge.conformance import CaseResult, Report, compared, select
from osmosis_bridge.conformance.case import ASKED_TO_STREAM
from osmosis_bridge.conformance.report import Result

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"
RAW = ROOT / "docs" / "conformance.json"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def publish(done: Mapping[str, Report], order: Sequence[str], notes: Sequence[str]) -> None:
    """Write the table into the page, and every verdict into the JSON file.

    `done` is by title and version; `order` are the titles, in the order of the columns. Verdicts of titles that were
    not tried now are kept.
    """
    together = {**kept(done), **done}
    reports = dict(sorted(together.items(), key=lambda pair: order.index(title_of(pair[0]))))
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n\n{results_text(reports, notes)}\n\n{END}{after}", encoding="utf-8")
    document = {name: _brief(report) for name, report in reports.items()}
    RAW.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def results_text(reports: Mapping[str, Report], notes: Sequence[str]) -> str:
    """Table, own results, and what each peer fails, as Markdown."""
    parts = [compared(reports)]
    for name, report in reports.items():
        by_kind = [
            f"- {row['kind']}: {', '.join(case.id for case in report.failures() if case.kind == row['kind'])}"
            for row in report.rows()
            if row["failed"]
        ]
        parts.append("\n".join([f"**{name}**: {_counts(report)}.", *([""] if by_kind else []), *by_kind]))
    parts += [f"Not tried: {note}" for note in notes]
    return "\n\n".join(parts)


def _counts(report: Report) -> str:
    unasked = sum(case.expected == ASKED_TO_STREAM for case in report.failures())
    why = f" ({unasked} of them because it does not ask its provider to stream)" if unasked else ""
    return f"{report.count('passed')} passed, {report.count('failed')} failed{why}, {report.count('skipped')} skipped"


def title_of(name: str) -> str:
    """The title of a peer without its version."""
    return name.rsplit(" ", 1)[0]


def kept(done: Mapping[str, Report]) -> dict[str, Report]:
    """The verdicts of peers that were published before and not tried now, cases that are gone left out."""
    if not RAW.exists():
        return {}
    document = cast("dict[str, dict[str, str | dict[str, str]]]", json.loads(RAW.read_text(encoding="utf-8")))
    titles = {title_of(name) for name in done}
    return {name: _unbrief(verdicts) for name, verdicts in document.items() if title_of(name) not in titles}


def _unbrief(verdicts: Mapping[str, str | dict[str, str]]) -> Report:
    results: list[CaseResult] = []
    for case in select():
        verdict = verdicts.get(case.id, "skipped")
        if isinstance(verdict, str):
            results.append(CaseResult(case.id, case.kind, case.title, cast("Result", verdict)))
        else:
            found = (verdict["wanted"], verdict["seen"])
            results.append(CaseResult(case.id, case.kind, case.title, "failed", *found))
    return Report("", tuple(results), 0.0)


def _brief(report: Report) -> dict[str, object]:
    return {
        case.id: case.result
        if case.result != "failed"
        else {"title": case.title, "wanted": case.expected[:200], "seen": case.seen[:300]}
        for case in report.results
    }
