"""Dataset files as bytes: which format, which encoding, hashed while read, line by line.

Tells apart what a file is from what its name says, and names it. Knows nothing of rows or columns.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from osmosis_runner.dataset_problems import WHOLE_FILE, Problems, Unreadable, shown
from osmosis_runner.errors import DatasetIssue, DatasetNotFound

DatasetFormat = Literal["jsonl", "csv", "parquet"]

LONGEST_ROW_BYTES = 64 * 1024 * 1024
"""A row beyond this is refused: it would have to stay in memory whole."""

_BUFFER_BYTES = 1024 * 1024
_HEAD_BYTES = 4096
_FORMATS: dict[str, DatasetFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_OTHER_NAMES = {
    ".json": "if it holds one object a line, rename it to .jsonl; if it holds a list: jq -c '.[]' OLD > NEW.jsonl",
    ".tsv": "save it with commas, as .csv",
    ".xlsx": "export the sheet as CSV (UTF-8)",
    ".xls": "export the sheet as CSV (UTF-8)",
    ".zip": "unpack it",
    ".zst": "unpack it, or compress it with gzip",
    ".bz2": "unpack it, or compress it with gzip",
    ".xz": "unpack it, or compress it with gzip",
}


class DatasetName(NamedTuple):
    """What a file's name says."""

    format: DatasetFormat
    gzipped: bool


class Line(NamedTuple):
    """One line of a file, with its line end."""

    number: int
    offset: int
    """Where it begins, in bytes of the (uncompressed) file."""
    content: bytes


def format_of(path: Path) -> DatasetName:
    """Return what the name of `path` says, in any case. Raises `Unreadable`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    gzipped = suffixes[-1:] == [".gz"]
    inner = (suffixes[-2:-1] if gzipped else suffixes[-1:]) or [""]
    found = _FORMATS.get(inner[0])
    if found is None:
        ending = inner[0] or "no ending"
        fix = _OTHER_NAMES.get(
            inner[0], "name it .jsonl, .ndjson, .csv or .parquet (.gz after the first three)"
        )
        raise Unreadable(f"the name says {ending}, which is not a dataset format", fix)
    if gzipped and found == "parquet":
        raise Unreadable("a gzipped Parquet file", "unpack it; Parquet is compressed inside")
    return DatasetName(found, gzipped)


def check_regular(path: Path, problems: Problems) -> None:
    """Raise `DatasetNotFound` or `DatasetError` unless `path` is a file that can be opened."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise DatasetNotFound(str(path), [DatasetIssue("does not exist", "check the path")]) from None
    except OSError as error:
        problems.add(WHOLE_FILE, None, f"cannot be opened: {error.strerror}", "check the path")
    else:
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            problems.add(WHOLE_FILE, None, f"is {kind}", "name the dataset's file")
    problems.raise_any()


class HashingFile(io.RawIOBase):
    """A file opened for reading that keeps the SHA-256 of every byte read so far."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill `buffer` and hash what came."""
        count = self._file.readinto(buffer) or 0
        self._hash.update(memoryview(buffer)[:count])
        return count

    def hexdigest(self) -> str:
        """Return the digest of what was read."""
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


class _Lines(Protocol):
    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


class DatasetText:
    """An open JSONL or CSV file, past its byte order mark."""

    def __init__(self, stored: io.BufferedReader[HashingFile], raw: HashingFile, *, gzipped: bool) -> None:
        self._stored = stored
        self._raw = raw
        self._gzipped = gzipped

    def lines(self) -> Iterator[Line]:
        """Yield the lines, each ending in a newline or, at the end, not. Raises `Unreadable`."""
        head = self._stored.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        _check_stored(head, gzipped=self._gzipped)
        if not self._gzipped:
            yield from self._lines_of(self._stored, head)
            return
        with gzip.GzipFile(fileobj=self._stored, mode="rb") as unpacked, _gzip_faults():
            buffered = io.BufferedReader(unpacked, _BUFFER_BYTES)
            yield from self._lines_of(buffered, buffered.peek(_HEAD_BYTES)[:_HEAD_BYTES])

    def sha256(self) -> str:
        """Read what is left and return the hex digest of the file as stored."""
        while self._stored.read(_BUFFER_BYTES):
            pass
        return self._raw.hexdigest()

    @staticmethod
    def _lines_of(source: _Lines, head: bytes) -> Iterator[Line]:
        mark = b"\xef\xbb\xbf"
        _check_encoding(head)
        number, offset = 0, 0
        if head.startswith(mark):
            offset = len(source.read(len(mark)))
        while content := source.readline(LONGEST_ROW_BYTES + 1):
            number += 1
            if len(content) > LONGEST_ROW_BYTES:
                fix = "end each row with a newline, or move large values into files"
                raise Unreadable(f"a line of more than {LONGEST_ROW_BYTES:,} bytes", fix, line=number)
            yield Line(number, offset, content)
            offset += len(content)


@contextmanager
def open_text(path: Path, *, gzipped: bool) -> Generator[DatasetText]:
    """Open a JSONL or CSV file. Raises `OSError`."""
    with HashingFile(path) as raw, io.BufferedReader(raw, _BUFFER_BYTES) as stored:
        yield DatasetText(stored, raw, gzipped=gzipped)


def hash_file(path: Path) -> str:
    """Return the hex SHA-256 of a whole file. Raises `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_stored(head: bytes, *, gzipped: bool) -> None:
    if gzipped and not head.startswith(b"\x1f\x8b"):
        raise Unreadable("the name says .gz but the file is not gzipped", "rename it without .gz")
    if not gzipped and head.startswith(b"\x1f\x8b"):
        raise Unreadable("the file is gzipped", "add .gz to its name")


def _check_encoding(head: bytes) -> None:
    for mark, name in ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"), (b"\0\0\xfe\xff", "UTF-32")):
        if head.startswith(mark):
            raise Unreadable(f"the file is {name}", f"save it as UTF-8 (iconv -f {name} -t UTF-8 OLD > NEW)")
    if head.startswith(b"PAR1"):
        raise Unreadable("the file is Parquet", "name it .parquet")
    if head.startswith(b"PK\x03\x04"):
        raise Unreadable(
            "the file is a zip archive or an Excel sheet", "unpack it, or export it as CSV (UTF-8)"
        )
    for start, name in ((1, "UTF-16LE"), (0, "UTF-16BE")):
        places = head[start::2]
        if len(places) >= 8 and places.count(0) * 4 > len(places) * 3:
            raise Unreadable(
                f"the file looks like {name}", f"save it as UTF-8 (iconv -f {name} -t UTF-8 OLD > NEW)"
            )


@contextmanager
def _gzip_faults() -> Generator[None]:
    try:
        yield
    except EOFError:
        raise Unreadable("the gzip file is cut short", "compress or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise Unreadable(
            f"the gzip file is damaged: {shown(str(error))}", "compress or download it again"
        ) from None
