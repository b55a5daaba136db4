"""The selected rows, kept small: one byte string each, decoded on access; beyond a size they go to a temporary file.

Holds what a run needs for hours without a Python object per message. Knows nothing of files or rules.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

import msgspec

from osmosis_runner.errors import StorageError
from osmosis_runner.jsontext import JsonObject

MEMORY_BYTES = 32 * 1024 * 1024
"""Rows stay in memory up to this many bytes, then all further ones go to an unlinked file."""


class Row(msgspec.Struct, frozen=True):
    """One selected row, normalised."""

    row_index: int
    """Position among the selected rows, from 0."""
    source_row_index: int
    """Offset in the file, from 0."""
    messages: list[JsonObject]
    """Chat messages; empty when the row has metadata only."""
    label: str | None
    metadata: JsonObject | None


class _Kept(msgspec.Struct, array_like=True):
    # `Any` is a JSON value here: msgspec cannot resolve the recursive type, and has nothing to check.
    source_row_index: int
    messages: list[dict[str, Any]]
    label: str | None
    metadata: dict[str, Any] | None


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Kept)


class RowStore(Sequence[Row]):
    """Rows in order; `store[i].row_index == i`."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._memory = bytearray()
        self._ends = array("Q")
        self._spool = -1

    def add(
        self,
        source_row_index: int,
        messages: list[JsonObject],
        label: str | None,
        metadata: JsonObject | None,
    ) -> None:
        """Append one row. Raises `StorageError` when the temporary file cannot be written."""
        kept = _ENCODER.encode(_Kept(source_row_index, messages, label, metadata))
        start = self._ends[-1] if self._ends else 0
        if self._spool < 0 and start + len(kept) <= self._memory_bytes:
            self._memory += kept
        else:
            self._write(kept, start - len(self._memory))
        self._ends.append(start + len(kept))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self._row(place) for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"no row {index} of {len(self)}")
        return self._row(place)

    def _row(self, place: int) -> Row:
        start = self._ends[place - 1] if place else 0
        stop = self._ends[place]
        if stop <= len(self._memory):
            kept = _DECODER.decode(memoryview(self._memory)[start:stop])
        else:
            kept = _DECODER.decode(os.pread(self._spool, stop - start, start - len(self._memory)))
        return Row(place, kept.source_row_index, kept.messages, kept.label, kept.metadata)

    def _write(self, kept: bytes, offset: int) -> None:
        try:
            if self._spool < 0:
                self._spool, path = tempfile.mkstemp(prefix="osmosis-rows-")
                weakref.finalize(self, os.close, self._spool)
                Path(path).unlink()
            view = memoryview(kept)
            while view:
                written = os.pwrite(self._spool, view, offset)
                view, offset = view[written:], offset + written
        except OSError as error:
            raise StorageError.of(
                tempfile.gettempdir(), error, "set TMPDIR to a folder with room for the dataset"
            ) from None
