from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import pytest

from osmosis_runner import dataset_file
from osmosis_runner.dataset_file import check_regular, format_of, hash_file, open_text
from osmosis_runner.dataset_problems import Problems, Unreadable
from osmosis_runner.errors import DatasetError, DatasetNotFound


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a.jsonl", ("jsonl", False)),
        ("A.JSONL", ("jsonl", False)),
        ("a.ndjson", ("jsonl", False)),
        ("a.b.csv", ("csv", False)),
        ("a.jsonl.gz", ("jsonl", True)),
        ("a.CSV.GZ", ("csv", True)),
        ("a.parquet", ("parquet", False)),
    ],
)
def test_a_name_says_the_format(name: str, wanted: tuple[str, bool]) -> None:
    assert format_of(Path(name)) == wanted


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("a.json", "jq -c '.[]'"),
        ("a.xlsx", "CSV"),
        ("a.tsv", "commas"),
        ("a.gz", "name it .jsonl"),
        ("a", "name it .jsonl"),
        ("a.parquet.gz", "unpack it"),
        ("a.jsonl.zst", "gzip"),
    ],
)
def test_another_name_says_what_to_do(name: str, fix: str) -> None:
    with pytest.raises(Unreadable) as caught:
        format_of(Path(name))
    assert fix in caught.value.fix


def read(path: Path, *, gzipped: bool = False) -> tuple[list[tuple[int, int, bytes]], str]:
    with open_text(path, gzipped=gzipped) as text:
        return [(line.number, line.offset, line.content) for line in text.lines()], text.sha256()


def test_lines_have_numbers_and_offsets_and_the_hash_is_the_files(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    content = b"one\r\n\ntwo"
    path.write_bytes(content)
    assert read(path) == (
        [(1, 0, b"one\r\n"), (2, 5, b"\n"), (3, 6, b"two")],
        hashlib.sha256(content).hexdigest(),
    )


def test_a_byte_order_mark_is_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbfx\n")
    lines, digest = read(path)
    assert lines == [(1, 3, b"x\n")]
    assert digest == hash_file(path)


def test_the_hash_covers_what_was_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x\n" * 2_000_000)
    with open_text(path, gzipped=False) as text:
        next(iter(text.lines()))
        assert text.sha256() == hash_file(path)


def test_a_gzipped_file_is_unpacked_and_hashed_as_stored(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfone\n") + gzip.compress(b"two\n"))
    lines, digest = read(path, gzipped=True)
    assert [line[2] for line in lines] == [b"one\n", b"two\n"]
    assert digest == hash_file(path)


@pytest.mark.parametrize(
    ("content", "gzipped", "found"),
    [
        (gzip.compress(b"x\n", mtime=0), False, "is gzipped"),
        (b"x\n", True, "not gzipped"),
        (gzip.compress(os.urandom(5000))[:-100], True, "cut short"),
        (gzip.compress(b"x" * 5000, mtime=0)[:20] + b"\0" * 30, True, "gzip file is"),
        ("a,b\n".encode("utf-16"), False, "UTF-16"),
        (b"\xfe\xff\0a", False, "UTF-16"),
        ("user_prompt,label\n".encode("utf-16-le"), False, "UTF-16LE"),
        ("user_prompt,label\n".encode("utf-16-be"), False, "UTF-16BE"),
        (b"PAR1xxxxPAR1", False, "Parquet"),
        (b"PK\x03\x04xx", False, "zip archive or an Excel"),
    ],
)
def test_a_file_that_is_something_else_is_named(
    tmp_path: Path, content: bytes, gzipped: bool, found: str
) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(Unreadable) as caught:
        read(path, gzipped=gzipped)
    assert found in caught.value.found


def test_a_line_beyond_the_bound_is_refused_with_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset_file, "LONGEST_ROW_BYTES", 10)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"short\n" + b"x" * 11)
    with pytest.raises(Unreadable) as caught:
        read(path)
    assert caught.value.line == 2


def test_only_a_regular_file_is_opened(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound) as missing:
        check_regular(tmp_path / "nothing.jsonl", Problems("nothing.jsonl"))
    assert missing.value.code == "NOT_FOUND"
    with pytest.raises(DatasetError, match="is a folder"):
        check_regular(tmp_path, Problems("x"))
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(DatasetError, match="not a regular file"):
        check_regular(tmp_path / "pipe.jsonl", Problems("x"))
    with pytest.raises(DatasetError, match="cannot be opened"):
        check_regular(tmp_path / ("n" * 300), Problems("x"))
