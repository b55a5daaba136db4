"""Mending a damaged journal: every good line is kept in order, the damaged file beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from osmosis_runner.errors import RunNotFound, StorageError
from osmosis_runner.files import replace_file, sync_folder
from osmosis_runner.journal import all_lines, torn_bytes
from osmosis_runner.journal_record import BadRecord, decode_record


class Repair(msgspec.Struct, frozen=True):
    """What `repair` did."""

    kept: int
    dropped: Sequence[int]
    """1-based numbers of the lines left out."""
    backup: Path | None
    """Copy of the damaged file; None when nothing was wrong."""


def repair(path: Path) -> Repair:
    """Keep every good line of a damaged journal; the original is kept beside it as `events.jsonl.damaged-N`.

    A last line without an end is kept where it is a whole record, and left out where it is not.

    The caller holds the run's lock. Raises `RunNotFound` without a journal and `StorageError`.
    """
    if not path.is_file():
        raise RunNotFound(f"there is no journal {path}", {"file": str(path)})
    good: list[bytes] = []
    dropped: list[int] = []
    for number, line in all_lines(path):
        try:
            decode_record(line)
        except BadRecord:
            dropped.append(number)
        else:
            good.append(line + b"\n")
    if not dropped and not torn_bytes(path):
        return Repair(len(good), (), None)
    backup = _back_up(path)
    replace_file(path, b"".join(good))
    return Repair(len(good), tuple(dropped), backup)


def _back_up(path: Path) -> Path:
    number = 1
    while (backup := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    try:
        # A link is a whole copy at once: replacing `path` leaves the linked content alone.
        os.link(path, backup)
        sync_folder(backup.parent)
    except OSError as error:
        raise StorageError.of(str(backup), error, "the journal was not changed") from None
    return backup
