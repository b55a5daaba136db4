"""A dialect without a table: found again, or refused."""

from __future__ import annotations

from osmosis_bridge.native.families.other import OTHER
from osmosis_bridge.native.rule import Asked

ASKED = Asked({}, supported=frozenset({"temperature"}), reserved=frozenset({"tags"}))


def test_what_litellm_translates_is_looked_for_and_the_rest_refused() -> None:
    assert OTHER.rule("temperature", 1, ASKED).act == "translate"
    assert OTHER.rule("seed", 1, ASKED).act == "refuse"
    assert OTHER.rule("tags", ["a"], ASKED).act == "refuse"
    assert OTHER.rule("x_new", ["a"], ASKED).check == "words"
    assert OTHER.rule("n", 1, ASKED).act == "absent"
    assert OTHER.rule("n", 2, ASKED).act == "refuse"
