from __future__ import annotations

import gc
from pathlib import Path

import pytest

from osmosis_runner.errors import StorageError
from osmosis_runner.row_store import Row, RowStore


def filled(count: int, memory_bytes: int) -> RowStore:
    store = RowStore(memory_bytes)
    for place in range(count):
        store.add(
            place * 2, [{"role": "user", "content": f"q{place}"}], str(place) if place % 2 else None, None
        )
    return store


@pytest.mark.parametrize("memory_bytes", [0, 50, 10_000])
def test_rows_come_back_as_they_were_put_in_memory_and_in_a_file(memory_bytes: int) -> None:
    store = filled(20, memory_bytes)
    assert len(store) == 20
    assert store[3] == Row(3, 6, [{"role": "user", "content": "q3"}], "3", None)
    assert store[-1].source_row_index == 38
    assert [row.row_index for row in store] == list(range(20))
    assert [row.label for row in store[1:6:2]] == ["1", "3", "5"]


def test_metadata_keeps_every_kind_of_value() -> None:
    store = RowStore()
    metadata = {"i": 2**64 - 1, "n": -(2**63), "f": 1.1, "l": [None, True, {"x": ""}], "u": "a\0\u2028😀"}
    store.add(0, [], None, metadata)
    assert store[0].metadata == metadata


def test_a_row_that_is_not_there_is_an_index_error() -> None:
    store = filled(2, 1000)
    for index in (2, -3):
        with pytest.raises(IndexError):
            _ = store[index]


def test_each_access_gives_a_row_of_its_own() -> None:
    store = filled(1, 1000)
    store[0].messages.append({"role": "user", "content": "changed"})
    assert len(store[0].messages) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted in /proc")
def test_the_temporary_file_has_no_name_and_is_closed_with_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = len(list(Path("/proc/self/fd").iterdir()))
    store = filled(5, 0)
    assert list(tmp_path.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
    del store
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_folder_without_room_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(StorageError, match="TMPDIR"):
        filled(1, 0)
