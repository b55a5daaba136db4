"""Where the last record of each item stands in a journal, so that one of any length can be looked into item by item.

Reads the journal once; of an item it keeps how it ended, its reward and the place of its line, some hundred bytes, and
reads a record again when it is asked for. Blocking.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from osmosis_runner.errors import JournalCorrupt, StorageError
from osmosis_runner.journal import read_placed
from osmosis_runner.journal_record import BadRecord, decode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from osmosis_runner.journal_record import JournalRecord, Status

Item = tuple[int, int]
"""(row_index, run_index)."""

_STATUSES: tuple[Status, ...] = ("success", "failed", "skipped")
_RUN_BITS = 32
_LAST_RUN = (1 << _RUN_BITS) - 1


class JournalIndex:
    """The recorded items of one journal; a context manager, which lets go of the file."""

    def __init__(self, path: Path) -> None:
        """Read the journal at `path`; a missing file is an empty one. Raises `JournalCorrupt` and `StorageError`."""
        self._path = path
        self._slots: dict[int, int] = {}
        self._offsets = array("q")
        self._statuses = bytearray()
        self._rewards = array("d")
        self._file = _opened(path)
        try:
            for offset, record in read_placed(path):
                if record.status != "cancelled":
                    self._note(record, offset)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """How many items are recorded."""
        return len(self._slots)

    @property
    def extent(self) -> Item:
        """Rows and runs up to the largest recorded ones; zeros where nothing is recorded."""
        rows = max((key >> _RUN_BITS for key in self._slots), default=-1) + 1
        runs = max((key & _LAST_RUN for key in self._slots), default=-1) + 1
        return rows, runs

    def counts(self) -> Counter[Status]:
        """How many items ended how."""
        return Counter({name: self._statuses.count(code) for code, name in enumerate(_STATUSES)})

    def items(self, status: Status | None = None, reward_below: float | None = None) -> list[Item]:
        """The recorded items in order: all, or those that ended so and whose known reward is below that."""
        code = None if status is None else _STATUSES.index(status)
        return [
            (key >> _RUN_BITS, key & _LAST_RUN)
            for key, slot in sorted(self._slots.items())
            if (code is None or self._statuses[slot] == code)
            # An unknown reward is NaN, which is below nothing.
            and (reward_below is None or self._rewards[slot] < reward_below)
        ]

    def record(self, item: Item) -> JournalRecord | None:
        """The last final record of an item; None when there is none. Raises `JournalCorrupt` and `StorageError`."""
        slot = self._slots.get(_key(item))
        if slot is None or self._file is None:
            return None
        try:
            self._file.seek(self._offsets[slot])
            record = decode_record(self._file.readline().removesuffix(b"\n"))
        except OSError as error:
            raise StorageError.of(str(self._path), error, "the journal cannot be read") from None
        except BadRecord:
            record = None
        if record is None or record.item != item:
            raise JournalCorrupt(str(self._path), slot + 1, "it was changed while it was read", "try again")
        return record

    def records(self, items: Iterable[Item]) -> Iterator[JournalRecord]:
        """The last final records of recorded items, in their order. Raises as `record` does."""
        return (record for item in items if (record := self.record(item)) is not None)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _note(self, record: JournalRecord, offset: int) -> None:
        slot = self._slots.setdefault(_key(record.item), len(self._offsets))
        code = _STATUSES.index(cast("Status", record.status))
        reward = math.nan if record.reward is None else record.reward
        if slot == len(self._offsets):
            self._offsets.append(offset)
            self._statuses.append(code)
            self._rewards.append(reward)
        else:
            self._offsets[slot], self._statuses[slot], self._rewards[slot] = offset, code, reward


def _key(item: Item) -> int:
    """One number an item, in its order: it takes less memory than a pair."""
    return item[0] << _RUN_BITS | item[1]


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError.of(str(path), error, "the journal cannot be read") from None
