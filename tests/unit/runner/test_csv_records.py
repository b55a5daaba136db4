from __future__ import annotations

import csv
import io

import pytest

from osmosis_runner import csv_records
from osmosis_runner.csv_records import read_records
from osmosis_runner.dataset_file import Line
from osmosis_runner.dataset_problems import Unreadable


def lines_of(content: bytes) -> list[Line]:
    found: list[Line] = []
    offset = 0
    for number, piece in enumerate(io.BytesIO(content).readlines(), start=1):
        found.append(Line(number, offset, piece))
        offset += len(piece)
    return found


def cells(text: str | bytes) -> list[list[str]]:
    content = text if isinstance(text, bytes) else text.encode()
    return [record.cells for record in read_records(lines_of(content))]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a,b\nc,d\n", [["a", "b"], ["c", "d"]]),
        ("a,b\r\nc,d\r\n", [["a", "b"], ["c", "d"]]),
        ("a,b\rc,d\r", [["a", "b"], ["c", "d"]]),
        ("a,b\n\r\n\nc,d", [["a", "b"], ["c", "d"]]),
        ("a,\n,b\n,\n", [["a", ""], ["", "b"], ["", ""]]),
        ('"a,1","b\nc"\n', [["a,1", "b\nc"]]),
        ('"b\r\nc\rd\n",x\n', [["b\r\nc\rd\n", "x"]]),
        ('"he said ""hi""",4\n', [['he said "hi"', "4"]]),
        ('"",""\n', [["", ""]]),
        ('"a"\n', [["a"]]),
        ('"a",\n', [["a", ""]]),
        ('"""",x\n', [['"', "x"]]),
        (" a , b\n", [[" a ", " b"]]),
        ('5" pipe,x\n', [['5" pipe', "x"]]),
        ('q,{"a":1},x\n', [["q", '{"a":1}', "x"]]),
        ("a\0b,1\n", [["a\0b", "1"]]),
        ("a\u2028b,c\n", [["a\u2028b", "c"]]),
        ('"last","no newline"', [["last", "no newline"]]),
    ],
)
def test_cells_are_read_exactly(text: str, wanted: list[list[str]]) -> None:
    assert cells(text) == wanted


def test_the_standard_reader_agrees_on_well_formed_text() -> None:
    rows = [["a", 'q"q', "x,y"], ["", "line\nline", "ü😀"], ["\r\n", " ", '""']]
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    assert cells(written.getvalue()) == rows


def test_records_know_their_first_line() -> None:
    text = 'h,h\n\n"a\nb",c\r\nd,e\rf,g\n'
    assert [record.line for record in read_records(lines_of(text.encode()))] == [1, 3, 5, 6]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"abc"def,x\ny,z\n', "'def' after the closing quote at character 5"),
        ('a, "b"\ny,z\n', "a space before the quote at character 3"),
        ('"a" ,b\ny,z\n', "' ' after the closing quote"),
        (b"caf\xe9,x\ny,z\n", "byte 0xE9 at byte 3 of the file"),
        (b'"caf\xe9\n",x\ny,z\n', "byte 0xE9 at byte 4 of the file"),
    ],
)
def test_a_bad_record_is_told_and_the_next_one_read(text: str | bytes, found: str) -> None:
    content = text if isinstance(text, bytes) else text.encode()
    bad, good = read_records(lines_of(content))
    assert bad.problem is not None
    assert found in bad.problem.found
    assert bad.cells == []
    assert good.cells == ["y", "z"]


def test_a_quote_that_stays_open_is_told_where_it_opened() -> None:
    with pytest.raises(Unreadable) as caught:
        cells('a,b\nx,"never closed\nnext,5\nlast,6\n')
    assert caught.value.line == 2
    assert "character 3 is never closed" in caught.value.found


def test_an_open_quote_does_not_take_the_whole_file_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "LONGEST_ROW_BYTES", 100)
    with pytest.raises(Unreadable, match="never closed"):
        cells('"' + "x\n" * 1000)


def test_a_quoted_cell_over_many_lines_takes_linear_time() -> None:
    text = '"' + "line\n" * 200_000 + '",x\n'
    [record] = cells(text)
    assert len(record[0]) == 1_000_000
