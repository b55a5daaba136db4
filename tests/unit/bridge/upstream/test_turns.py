"""Queues that take turns: nobody is forgotten, nobody is served twice, and none waits for more than a turn of each."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from osmosis_bridge.upstream.turns import Turns


@dataclass(eq=False)
class Somebody:
    """Waits until it is told not to."""

    name: str = ""
    waits: bool = True


def names_taken(turns: Turns[Somebody]) -> list[str]:
    found = []
    while (waiter := turns.take()) is not None:
        found.append(waiter.name)
    return found


def test_queues_take_turns_and_within_one_it_is_first_come_first_served() -> None:
    turns: Turns[Somebody] = Turns()
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        turns.join(name[0], Somebody(name))
    assert names_taken(turns) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_who_was_looked_at_is_who_is_taken() -> None:
    turns: Turns[Somebody] = Turns()
    first, second = Somebody("a"), Somebody("b")
    turns.join("x", first)
    turns.join("y", second)
    assert turns.next() is turns.next() is first
    assert turns.take() is first
    turns.join("x", first)
    assert turns.next() is second


def test_who_left_or_was_served_otherwise_is_passed_over() -> None:
    turns: Turns[Somebody] = Turns()
    people = [Somebody(str(number)) for number in range(4)]
    for person in people:
        turns.join("x", person)
    people[0].waits = False
    turns.leave("x", people[2])
    turns.leave("y", people[3])
    assert [person.name for person in turns] == ["1", "3"]
    assert names_taken(turns) == ["1", "3"]
    assert turns.take() is turns.next() is None


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("join"), st.sampled_from("abc")),
            st.tuples(st.sampled_from(["take", "leave", "cancel"]), st.integers(0, 20)),
        ),
        max_size=60,
    )
)
def test_each_is_served_once_and_no_queue_waits_for_more_than_one_of_each_other(steps: list) -> None:
    turns: Turns[Somebody] = Turns()
    waiting: dict[str, deque[Somebody]] = {name: deque() for name in "abc"}
    passed_by = dict.fromkeys("abc", 0)
    for step, what in steps:
        everyone = [person for queue in waiting.values() for person in queue]
        if step == "join":
            person = Somebody(what)
            turns.join(what, person)
            waiting[what].append(person)
        elif step == "take":
            taken = turns.take()
            assert (taken is None) == (not everyone)
            if taken is not None:
                assert waiting[taken.name].popleft() is taken
                for name, queue in waiting.items():
                    passed_by[name] = passed_by[name] + 1 if queue and name != taken.name else 0
                assert max(passed_by.values()) <= 2
        elif everyone:
            person = everyone[what % len(everyone)]
            waiting[person.name].remove(person)
            if step == "leave":
                turns.leave(person.name, person)
            person.waits = False
            if not waiting[person.name]:
                passed_by[person.name] = 0
    assert len(list(turns)) == sum(map(len, waiting.values()))
