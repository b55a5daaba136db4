"""A run as tables: for the terminal, and as Markdown with plots for docs/performance.md. Computes nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks import plots
from benchmarks.contestants import OURS
from benchmarks.results import HERE, NOISY_PCT, Book, Summary, value_of
from benchmarks.targets import MISSING, Verdict, judge, number

PAGE = HERE.parent / "docs" / "performance.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
T = TypeVar("T")
Column = tuple[str, str, str, float]
"""Heading, measure, value, factor."""

PROXIES: Sequence[Column] = (
    ("1 KB req/s", "small", "rate", 1),
    ("CPU ms/req", "small", "cpu_ms", 1),
    ("100 KB req/s", "large", "rate", 1),
    ("1 paced +p50 ms", "paced_1", "added_p50_ms", 1),
    ("+p99", "paced_1", "added_p99_ms", 1),
    ("16 in flight +p50 ms", "in_flight_16", "added_p50_ms", 1),
    ("+p99", "in_flight_16", "added_p99_ms", 1),
    ("MB idle", "start", "idle_mb", 1),
    ("MB after", "start", "after_mb", 1),
    ("ready ms", "start", "ready_ms", 1),
)
STREAMS: Sequence[Column] = (
    ("1,000: first p50 ms", "streams_1000", "first_p50_ms", 1),
    ("p99", "streams_1000", "first_p99_ms", 1),
    ("µs CPU/chunk", "streams_1000", "cpu_us", 1),
    ("KB/stream", "streams_1000", "kb_per_stream", 1),
    ("lost", "streams_1000", "lost", 1),
    ("5,000: transit p50 ms", "streams_5000", "transit_p50_ms", 1),
    ("p99", "streams_5000", "transit_p99_ms", 1),
    ("KB/stream", "streams_5000", "kb_per_stream", 1),
    ("lost", "streams_5000", "lost", 1),
    ("largest loop lag ms", "streams_5000", "loop_lag_ms", 1),
    ("most chunks/s", "chunks_max", "chunks_per_s", 1),
)
RUNNER_VALUES: Sequence[tuple[str, str]] = (
    ("rows/s", "rows_per_s"),
    ("rows/s once running", "steady_rows_per_s"),
    ("CPU ms/row", "cpu_ms_per_row"),
    ("of the supervisor", "supervisor_cpu_ms_per_row"),
    ("peak MB", "peak_mb"),
    ("of the supervisor", "supervisor_peak_mb"),
    ("first dispatch s", "first_dispatch_s"),
)
DEFAULTS: Sequence[Column] = (
    ("1 KB req/s", "defaults", "rate", 1),
    ("CPU µs/req", "defaults", "cpu_ms", 1000),
)
NATIVE: Sequence[Column] = (("req/s", "native", "rate", 1), ("CPU ms/req", "native", "cpu_ms", 1))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(summary: Summary, titles: Mapping[str, str]) -> list[Table]:
    """Every table that has something in it."""
    made = [
        _by_contestant("Proxies", PROXIES, summary, titles),
        _by_contestant("Streams", STREAMS, summary, titles),
        _runners(summary, titles),
        _by_contestant("What each default costs", DEFAULTS, summary, titles),
        _by_contestant("Native lane", NATIVE, summary, titles),
    ]
    return [table for table in made if table.rows]


def target_table(verdicts: Sequence[Verdict]) -> Table:
    """Every target: what was measured, and whether that is enough."""
    rows = [
        [
            verdict.target.label,
            f"{'≥' if verdict.target.at_least else '≤'} {verdict.target.bound:,g}"
            + (f" ({verdict.target.stretch:,g})" if verdict.target.stretch is not None else "")
            + f" {verdict.target.unit}",
            MISSING if verdict.figure is None else number(verdict.figure),
            verdict.status,
            ""
            if verdict.target.of_nginx is None
            else f"≥ {verdict.target.of_nginx[0]} ({verdict.target.of_nginx[1]})",
            verdict.share_status,
        ]
        for verdict in verdicts
    ]
    columns = ("target", "wanted (stretch)", "measured", "verdict", "share of nginx wanted", "share of nginx")
    return Table("Targets", columns, rows)


def _by_contestant(
    title: str, columns: Sequence[Column], summary: Summary, titles: Mapping[str, str]
) -> Table:
    present = [column for column in columns if column[1] in summary]
    names = list(dict.fromkeys(name for column in present for name in summary[column[1]]))
    rows = [
        [
            titles.get(name, name),
            *(
                _cell(value_of(summary, measure, name, value), factor)
                for _, measure, value, factor in present
            ),
        ]
        for name in names
    ]
    return Table(title, ["", *(column[0] for column in present)], rows)


def _runners(summary: Summary, titles: Mapping[str, str]) -> Table:
    measures = sorted(
        (measure for measure in summary if measure.startswith("rows_")),
        key=lambda measure: int(measure.removeprefix("rows_")),
    )
    rows = [
        [
            titles.get(f"rows/{name}", name),
            f"{int(measure.removeprefix('rows_')):,}",
            *(_cell(value_of(summary, measure, name, value), 1) for _, value in RUNNER_VALUES),
        ]
        for measure in measures
        for name in summary[measure]
    ]
    return Table("Runners", ["", "rows", *(heading for heading, _ in RUNNER_VALUES)], rows)


def _cell(value: float | None, factor: float) -> str:
    return MISSING if value is None else number(value * factor)


def show(book: Book, console: Console) -> None:
    """The run on the terminal."""
    summary = book.summary
    for table in [*tables(summary, _titles(book)), target_table(judge(summary))]:
        shown = RichTable(title=table.title, title_justify="left")
        for index, heading in enumerate(table.columns):
            shown.add_column(heading, justify="left" if index == 0 or table.title == "Targets" else "right")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
    for note in [*book.notes, *quality(book)]:
        console.print(f"note: {note}", markup=False, soft_wrap=True)


def quality(book: Book) -> list[str]:
    """What speaks against the figures of this run."""
    found: list[str] = []
    if not book.head.get("quiet"):
        found.append(
            f"the machine was not quiet at the start (load average {book.head.get('load')}): nothing here is a result"
        )
    if book.noisy:
        worst = max(book.noisy, key=lambda one: one.foreign_pct)
        found.append(
            f"during {len(book.noisy)} of {len(book.observations)} observations others used more than "
            f"{NOISY_PCT:.0f} % of a core, at most {worst.foreign_pct:.0f} % ({worst.contestant}, {worst.measure})"
        )
    errors = sum(
        one.values.get("bad_status", 0) + one.values.get("broken", 0)
        for one in book.observations
        if one.contestant == OURS
    )
    if errors:
        found.append(f"{errors:.0f} calls through our bridge failed")
    if not book.head.get("cores_apart", True):
        found.append("client and contestant shared the one core of this machine")
    return found


def markdown(book: Book, raw: str, pictures: Sequence[str]) -> str:
    """The results as a section of docs/performance.md."""
    summary, head = book.summary, book.head
    parts = [
        f"Measured {head['started']} by `{_command(head)}`, {_medians_of(book)}; raw observations: [{raw}]({raw}).",
        _machine(head),
        _table(target_table(judge(summary))),
        *(_table(table) for table in tables(summary, _titles(book))),
        "\n".join(f"![{Path(picture).stem}]({picture})" for picture in pictures),
    ]
    remarks = [*quality(book), *book.notes]
    if remarks:
        parts.append("Notes\n\n" + "\n".join(f"- {remark}" for remark in remarks))
    return "\n\n".join(part for part in parts if part)


def _command(head: Mapping[str, object]) -> str:
    return {"quick": "make bench", "full": "make bench-full"}.get(str(head["form"]), "python -m benchmarks")


def _medians_of(book: Book) -> str:
    rounds = {one.measure: 0 for one in book.observations}
    for one in book.observations:
        rounds[one.measure] = max(rounds[one.measure], one.round + 1)
    most = max(rounds.values(), default=0)
    return f"medians of up to {most} interleaved rounds" if most > 1 else "one round"


def _machine(head: Mapping[str, object]) -> str:
    machine = cast("dict[str, object]", head["machine"])
    text = (
        f"Machine: {machine['processor']}, {machine['usable_cores']} cores, {machine['memory_mb']:,} MB, "
        f"Linux {machine['kernel']}; load average at the start {head['load']}."
    )
    versions = cast("dict[str, dict[str, str]]", head["versions"])
    named = [
        f"{name}: " + ", ".join(f"{package} {version}" for package, version in found.items())
        for name, found in versions.items()
        if found
    ]
    return text + "\n\nVersions\n\n" + "\n".join(f"- {line}" for line in named)


def _table(table: Table) -> str:
    head = f"| {' | '.join(table.columns)} |\n|{'---|' * len(table.columns)}"
    rows = "\n".join(f"| {' | '.join(row)} |" for row in table.rows)
    return f"### {table.title}\n\n{head}\n{rows}"


def _titles(book: Book) -> dict[str, str]:
    return cast("dict[str, str]", book.head["titles"])


def draw(book: Book) -> dict[str, str]:
    """Plots by file name."""
    summary, titles = book.summary, _titles(book)
    wanted = (
        ("small-calls.svg", "1 KB calls", "req/s", "small", "rate"),
        ("large-calls.svg", "100 KB calls", "req/s", "large", "rate"),
        ("added-latency.svg", "Added p50, 16 in flight", "ms", "in_flight_16", "added_p50_ms"),
        ("first-chunk.svg", "1,000 streams: first chunk p99", "ms", "streams_1000", "first_p99_ms"),
        ("chunk-cost.svg", "1,000 streams: CPU a chunk", "µs", "streams_1000", "cpu_us"),
        ("memory.svg", "Resident after load", "MB", "start", "after_mb"),
    )
    drawn: dict[str, str] = {}
    for file, title, unit, measure, value in wanted:
        by_name = _ours_first(summary.get(measure, {}))
        found = [
            (titles.get(name, name), values[value]) for name, values in by_name.items() if value in values
        ]
        found = [pair for pair in found if pair[0] != "no proxy"]
        if found:
            drawn[file] = plots.bars(title, unit, found)
    series = _row_series(summary, titles)
    if series:
        drawn["rows.svg"] = plots.lines("Rows a second by rows of the run", "rows", "rows/s", series)
    return drawn


def _ours_first(by_name: Mapping[str, T]) -> dict[str, T]:
    """The same, ours before the others, since that is the one a plot makes stand out."""
    return dict(sorted(by_name.items(), key=lambda pair: pair[0] != OURS))


def _row_series(summary: Summary, titles: Mapping[str, str]) -> list[plots.Series]:
    points: dict[str, list[tuple[float, float]]] = {}
    for measure, by_name in summary.items():
        if measure.startswith("rows_"):
            for name, values in by_name.items():
                points.setdefault(name, []).append((values["rows"], values["rows_per_s"]))
    return [
        plots.Series(titles.get(f"rows/{name}", name), sorted(found))
        for name, found in _ours_first(points).items()
    ]


def publish(book: Book, page: Path) -> list[Path]:
    """Write the section into the page, the raw book and the plots beside it; returns what was written."""
    folder = page.parent / page.stem
    folder.mkdir(exist_ok=True)
    raw = folder / f"{book.head['form']}.json"
    raw.write_bytes(book.path.read_bytes())
    drawn = draw(book)
    for name, text in drawn.items():
        (folder / name).write_text(text, encoding="utf-8")
    pictures = [f"{folder.name}/{name}" for name in drawn]
    section = markdown(book, f"{folder.name}/{raw.name}", pictures)
    page.write_text(replaced(page.read_text(encoding="utf-8"), section), encoding="utf-8")
    return [page, raw, *(folder / name for name in drawn)]


def replaced(page: str, section: str, begin: str = BEGIN, end: str = END) -> str:
    """The page with the section between its marks; ValueError where the marks are not there."""
    if begin not in page or end not in page:
        raise ValueError(f"the page has no {begin} and {end}")
    before, _, rest = page.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n\n{section}\n\n{end}{after}"
