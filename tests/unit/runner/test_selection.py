from __future__ import annotations

import pytest

from osmosis_runner.errors import SelectionError
from osmosis_runner.selection import LARGEST_OFFSET, Selection, check_within, parse_rows


@pytest.mark.parametrize(
    ("text", "offsets", "compact"),
    [
        ("0", [0], "0"),
        ("0-3", [0, 1, 2, 3], "0-3"),
        ("5,1,3-4", [1, 3, 4, 5], "1,3-5"),
        ("2-4,3-6,4", [2, 3, 4, 5, 6], "2-6"),
        ("7,7,7", [7], "7"),
        ("0-1,2-3", [0, 1, 2, 3], "0-3"),
        ("  3 ", [3], "3"),
        ("007", [7], "7"),
    ],
)
def test_a_selector_is_read_merged_and_written_compactly(text: str, offsets: list[int], compact: str) -> None:
    selection = parse_rows(text)
    assert list(selection) == offsets
    assert len(selection) == len(offsets)
    assert selection.compact() == compact
    assert parse_rows(selection.compact()) == selection


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("1,,2", "empty item"),
        ("1,", "empty item"),
        ("1, 2", "write '2'"),
        ("1 - 2", "write '1-2'"),
        ("9-3", "write 3-9"),
        ("-3", "negative"),
        ("a", "is not a row"),
        ("1-2-3", "is not a row"),
        ("1.5", "is not a row"),
        ("٣", "is not a row"),
        ("9" * 5000, "beyond any dataset"),
        (str(LARGEST_OFFSET + 1), "beyond any dataset"),
    ],
)
def test_a_selector_that_cannot_be_read_says_how_to_write_it(text: str, says: str) -> None:
    with pytest.raises(SelectionError) as caught:
        parse_rows(text)
    assert says in str(caught.value)
    assert caught.value.code == "VALIDATION"
    assert len(str(caught.value)) < 400


def test_rows_beyond_the_dataset_are_listed_with_the_valid_range() -> None:
    with pytest.raises(SelectionError) as caught:
        check_within(parse_rows("0-2,9-12,20"), 10)
    assert "10-12,20" in str(caught.value)
    assert "0-9" in str(caught.value)
    assert caught.value.details == {"rows": "0-2,9-12,20", "missing": "10-12,20", "total_rows": 10}
    check_within(parse_rows("0-9"), 10)


def test_a_huge_range_costs_no_memory() -> None:
    selection = parse_rows("0-999999999")
    assert len(selection) == 1_000_000_000
    assert 999_999_999 in selection
    assert 1_000_000_000 not in selection
    assert selection.outside(10).compact() == "10-999999999"


def test_membership_and_the_last_row_follow_the_ranges() -> None:
    selection = Selection.of([9, 2, 3, 3])
    assert [offset for offset in range(12) if offset in selection] == [2, 3, 9]
    assert selection.last == 9
    assert Selection.first(0) == Selection(())
    assert Selection(()).last == -1
    assert Selection.first(3).compact() == "0-2"


def test_ranges_that_touch_or_run_backwards_are_refused() -> None:
    with pytest.raises(ValueError, match="touch"):
        Selection(((0, 2), (2, 3)))
    with pytest.raises(ValueError, match="not a range"):
        Selection(((3, 3),))
