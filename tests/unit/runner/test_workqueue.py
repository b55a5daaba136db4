from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from osmosis_runner.plan import WorkItem
from osmosis_runner.workqueue import WorkQueue


def items(count: int) -> list[WorkItem]:
    return [WorkItem(number, 0) for number in range(count)]


def queue(count: int) -> WorkQueue:
    return WorkQueue(iter(items(count)))


def take_all(work: WorkQueue) -> list[WorkItem]:
    taken: list[WorkItem] = []
    while (item := work.take()) is not None:
        taken.append(item)
    return taken


def test_items_come_in_order_and_the_end_is_known() -> None:
    work = queue(3)
    assert work.waiting
    assert take_all(work) == items(3)
    assert not work.waiting
    assert work.in_flight == set(items(3))


def test_an_item_put_back_comes_again() -> None:
    work = queue(1)
    item = work.take()
    assert item is not None
    assert work.take() is None
    work.put_back(item)
    assert work.waiting
    assert work.take() == item


def test_one_item_alone_is_guilty_at_its_second_death() -> None:
    work = queue(2)
    first = work.take()
    assert work.server_died() is None
    assert work.take() == first
    assert work.server_died() == first
    assert work.take() == WorkItem(1, 0)


def test_suspects_run_in_groups_with_nothing_beside_them() -> None:
    work = queue(6)
    in_flight = [work.take() for _ in range(4)]
    assert work.server_died() is None
    first = take_all(work)
    assert first == in_flight[:2]
    assert work.take() is None
    for item in first:
        work.done(item)
    second = take_all(work)
    assert second == in_flight[2:]
    for item in second:
        work.done(item)
    assert take_all(work) == items(6)[4:]


def test_a_group_that_kills_the_server_again_is_halved() -> None:
    work = queue(4)
    take_all(work)
    work.server_died()
    assert len(take_all(work)) == 2
    work.server_died()
    assert take_all(work) == [WorkItem(0, 0)]
    assert work.server_died() == WorkItem(0, 0)
    assert take_all(work) == [WorkItem(1, 0)]


@given(
    count=st.integers(1, 40),
    killers=st.sets(st.integers(0, 39), max_size=4),
    places=st.integers(1, 16),
)
def test_killers_are_condemned_and_everything_else_ends_exactly_once(
    count: int, killers: set[int], places: int
) -> None:
    work, done, guilty = queue(count), list[WorkItem](), list[WorkItem]()
    for _ in range(100_000):
        while len(work.in_flight) < places and work.take() is not None:
            pass
        if not work.in_flight:
            break
        if any(item.row_index in killers for item in work.in_flight):
            condemned = work.server_died()
            if condemned is not None:
                guilty.append(condemned)
            continue
        item = min(work.in_flight)
        work.done(item)
        done.append(item)
    assert not work.waiting
    assert sorted(item.row_index for item in guilty) == sorted(killers & set(range(count)))
    assert sorted(done + guilty) == items(count)
