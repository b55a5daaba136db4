"""`osmosis dataset validate`: the rules that a run reads its rows by, applied to one file.

It knows what to say of a file; the rules are the runner's, the same that `osmosis eval run` refuses a file by.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click

from osmosis_cli import tables
from osmosis_cli.errors import Exit
from osmosis_cli.figures import counted
from osmosis_cli.flags import FILE
from osmosis_cli.invocation import Invocation
from osmosis_cli.output import DetailResult, Json, Section
from osmosis_cli.refusals import refusals
from osmosis_runner.errors import LISTED_ISSUES, DatasetError, DatasetNotFound
from osmosis_runner.rows import RowSet, read_rows

FEWEST_ROWS = 4
LARGEST_BYTES = 5 * 1024**3
ENDINGS = (".jsonl", ".csv", ".parquet")
"""What the platform takes (SPEC.md c.1); a run of this machine takes more."""


@click.command("validate")
@click.argument("file", metavar="FILE", type=FILE)
@click.pass_obj
def validate_command(invocation: Invocation, file: Path) -> int:
    """Read every row of FILE by the rules of a run, and tell all that is wrong with it by kind.

    FILE is JSON lines, CSV or Parquet; .jsonl and .csv may be gzipped. What the platform would not take of a file that
    a run takes is told too, and changes no exit code.

    Exit codes: 0 every row is in order, 1 the file has problems or does not exist, 2 usage.
    """
    path = (invocation.cwd / file.expanduser()).absolute()
    with refusals():
        try:
            result = in_order(file, read_rows(path))
        except DatasetNotFound:
            raise
        except DatasetError as error:
            result = in_disorder(file, error)
    return tables.show(invocation.out, result)


def in_order(file: Path, rows: RowSet) -> DetailResult:
    """What there is to say of a file whose rows are all in order."""
    size, labelled, described, prompted = rows.file.stat().st_size, 0, 0, 0
    for row in rows.rows:
        labelled += row.label is not None
        described += row.metadata is not None
        prompted += bool(row.messages)
    notes = tuple(upload_notes(rows, size))
    facts = (
        ("File", str(file)),
        ("Result", "in order"),
        ("Format", rows.dataset_format),
        ("Rows", f"{rows.total_rows:,}"),
        ("With Prompt", f"{prompted:,}"),
        ("With Label", f"{labelled:,}"),
        ("With Metadata", f"{described:,}"),
        ("Ignored Columns", ", ".join(rows.ignored_columns)),
        ("Size", f"{counted(size, 'byte')}"),
        ("SHA-256", rows.sha256),
    )
    return DetailResult(
        title="Dataset",
        rows=tuple((label, text) for label, text in facts if text),
        sections=(Section("An upload to the platform would be refused", notes),) if notes else (),
        data={
            "file": str(rows.file),
            "valid": True,
            "format": rows.dataset_format,
            "total_rows": rows.total_rows,
            "with_prompt": prompted,
            "with_label": labelled,
            "with_metadata": described,
            "ignored_columns": list(rows.ignored_columns),
            "bytes": size,
            "sha256": rows.sha256,
            "total": 0,
            "kinds": [],
            "issues": [],
            "upload_notes": list(notes),
        },
    )


def in_disorder(file: Path, error: DatasetError) -> DetailResult:
    """What there is to say of a file with problems; programs get them one by one too, up to a bound."""
    kinds = error.kinds.listed
    lines = [str(kind) for kind in kinds[:LISTED_ISSUES]]
    told = sum(kind.count for kind in kinds[:LISTED_ISSUES])
    if told < error.total:
        lines.append(f"and {error.total - told:,} more, of other kinds")
    return DetailResult(
        title="Dataset",
        rows=(("File", str(file)), ("Result", counted(error.total, "problem"))),
        sections=(Section("Problems", tuple(lines)),),
        data={
            "file": error.file,
            "valid": False,
            **{name: cast("Json", error.details[name]) for name in ("total", "kinds", "issues")},
        },
        exit_code=Exit.ERROR,
    )


def upload_notes(rows: RowSet, size: int) -> Iterator[str]:
    """Why the platform would not take a file that a run takes."""
    if rows.total_rows < FEWEST_ROWS:
        yield f"it has {counted(rows.total_rows, 'row')}; {FEWEST_ROWS} are the fewest"
    if size > LARGEST_BYTES:
        yield f"it has {size:,} bytes; {LARGEST_BYTES:,} are the most"
    if not rows.file.name.lower().endswith(ENDINGS):
        yield f"its name must end in {', '.join(ENDINGS)}"
    if rows.column_sets > 1:
        yield "its rows do not all have the same columns"
