from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmosis_runner.errors import SelectionError
from osmosis_runner.selection import Selection, parse_rows

offsets = st.sets(st.integers(0, 200), min_size=1, max_size=60)


@given(offsets)
def test_the_compact_text_of_any_rows_reads_back_as_these_rows(rows: set[int]) -> None:
    selection = Selection.of(rows)
    assert list(selection) == sorted(rows)
    assert parse_rows(selection.compact()) == selection
    assert len(selection) == len(rows)
    assert all((row in selection) == (row in rows) for row in range(202))


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 20)), min_size=1, max_size=20))
def test_any_list_of_items_selects_the_union_of_its_ranges(items: list[tuple[int, int]]) -> None:
    text = ",".join(f"{start}-{start + length}" for start, length in items)
    wanted = {row for start, length in items for row in range(start, start + length + 1)}
    assert set(parse_rows(text)) == wanted


@given(offsets, st.integers(0, 210))
def test_inside_and_outside_of_a_dataset_make_the_whole(rows: set[int], count: int) -> None:
    outside = Selection.of(rows).outside(count)
    assert set(outside) == {row for row in rows if row >= count}


@given(st.text(alphabet="0123456789-, x\t٣", max_size=30))
def test_any_text_is_a_selection_or_a_clear_error(text: str) -> None:
    try:
        selection, said = parse_rows(text), ""
    except SelectionError as error:
        selection, said = None, str(error)
    assert said.startswith("--rows") if selection is None else selection.last >= 0
