"""What a run of the suite found, and its forms: JSON, rows for a table, Markdown. Prints nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, TypedDict

from osmosis_bridge.conformance.case import KINDS, Kind

Result: TypeAlias = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case's outcome; `expected` and `seen` say what failed, or in `seen` why it was skipped."""

    id: str
    kind: Kind
    title: str
    result: Result
    expected: str = ""
    seen: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the case holds."""
        return self.result == "passed"


class KindRow(TypedDict):
    """One line of the table."""

    kind: str
    about: str
    passed: int
    failed: int
    skipped: int


@dataclass(frozen=True, slots=True)
class Report:
    """All outcomes of one target."""

    target: str
    results: tuple[CaseResult, ...]
    seconds: float

    def count(self, result: Result) -> int:
        """How many cases ended so."""
        return sum(1 for case in self.results if case.result == result)

    @property
    def ok(self) -> bool:
        """Whether no case failed."""
        return self.count("failed") == 0

    def failures(self) -> list[CaseResult]:
        """The failed cases, in order."""
        return [case for case in self.results if case.result == "failed"]

    def reasons(self) -> dict[str, int]:
        """Why cases were skipped, and how many for each reason, in the order met."""
        return dict(Counter(case.seen for case in self.results if case.result == "skipped"))

    def rows(self) -> list[KindRow]:
        """A row for each kind that has cases, in the order of the kinds."""
        return [self._row(kind) for kind in KINDS if any(case.kind == kind for case in self.results)]

    def _row(self, kind: Kind) -> KindRow:
        mine = [case.result for case in self.results if case.kind == kind]
        return KindRow(
            kind=kind,
            about=KINDS[kind],
            passed=mine.count("passed"),
            failed=mine.count("failed"),
            skipped=mine.count("skipped"),
        )

    def as_json(self) -> dict[str, object]:
        """The whole report as one JSON document."""
        return {
            "target": self.target,
            "passed": self.count("passed"),
            "failed": self.count("failed"),
            "skipped": self.count("skipped"),
            "seconds": round(self.seconds, 1),
            "kinds": self.rows(),
            "cases": [asdict(case) for case in self.results],
        }


def compared(reports: Mapping[str, Report]) -> str:
    """A Markdown table: kinds down, targets across, `passed / tried` of the cases that every target was tried on."""
    shared = shared_cases(list(reports.values()))
    lines = [
        f"| kind | cases | {' | '.join(reports)} |",
        f"|---|---|{'---|' * len(reports)}",
    ]
    totals = dict.fromkeys(reports, 0)
    for kind, about in KINDS.items():
        tried = {case_id for case_id in shared if case_id[0] == kind}
        cells: list[str] = []
        for name, report in reports.items():
            good = sum(1 for case in report.results if case.id in tried and case.passed)
            totals[name] += good
            cells.append(str(good))
        lines.append(f"| {kind}: {about} | {len(tried)} | {' | '.join(cells)} |")
    sums = " | ".join(f"**{totals[name]}**" for name in reports)
    lines.append(f"| **all** | **{len(shared)}** | {sums} |")
    return "\n".join(lines)


def shared_cases(reports: Sequence[Report]) -> set[str]:
    """The ids that no target skipped."""
    tried = [{case.id for case in report.results if case.result != "skipped"} for report in reports]
    return tried[0].intersection(*tried[1:]) if tried else set()


def failed_list(report: Report, width: int = 140) -> str:
    """The failures as Markdown rows: id, what must happen, what was seen."""
    lines = ["| case | wanted | seen |", "|---|---|---|"]
    lines += [
        f"| {case.id} | {_cell(case.title, width)} | {_cell(f'{case.expected}: {case.seen}', width)} |"
        for case in report.failures()
    ]
    return "\n".join(lines)


def _cell(text: str, width: int) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text).replace("|", "\\|")
    return plain if len(plain) <= width else plain[: width - 1] + "…"
