"""Totals: sums, the largest call, and what is unknown."""

from __future__ import annotations

from osmosis_bridge.accounts import Accounts, Totals
from osmosis_bridge.call import Outcome, Usage


def ended(
    prompt: int | None = None, completion: int | None = None, total: int | None = None, **fields
) -> Outcome:
    usage = Usage(prompt, completion, total, fields.pop("cached", None))
    return Outcome(status="ok", usage=usage, usage_source="provider", **fields)


MISSING = Outcome(status="ok", usage_source="missing")


def test_tokens_are_the_sum_over_calls_and_the_context_is_the_largest_single_call() -> None:
    totals = Totals()
    for outcome in (ended(10, 5, 15), ended(100, 1, 101), ended(20, 5)):
        totals.add(outcome)
    assert totals.as_dict() == {
        "calls": 3, "tokens": 141, "max_context_tokens": 101, "prompt_tokens": 130, "completion_tokens": 11,
        "calls_without_usage": 0,
    }  # fmt: skip


def test_the_providers_total_counts_as_tokens_and_as_context_only_where_it_is_larger() -> None:
    totals = Totals()
    totals.add(ended(10, 5, 40))
    assert (totals.tokens, totals.max_context_tokens) == (40, 40)
    totals.add(ended(60, 5, 50))
    assert (totals.tokens, totals.max_context_tokens) == (90, 65)


def test_what_no_provider_ever_said_is_absent_and_not_zero() -> None:
    assert Totals().as_dict() == {"calls": 0, "calls_without_usage": 0}
    totals = Totals()
    totals.add(MISSING)
    assert totals.as_dict() == {"calls": 1, "calls_without_usage": 1}


def test_zero_that_a_provider_said_is_zero() -> None:
    totals = Totals()
    totals.add(ended(0, 0, 0, cached=0, cost_usd=0.0))
    assert totals.as_dict() == {
        "calls": 1, "tokens": 0, "max_context_tokens": 0, "prompt_tokens": 0, "completion_tokens": 0,
        "cached_tokens": 0,
        "cost_usd": 0.0, "calls_without_usage": 0,
    }  # fmt: skip


def test_a_count_that_one_call_lacks_does_not_erase_the_others() -> None:
    totals = Totals()
    for outcome in (ended(10, 5, cached=4), ended(10, 5), MISSING):
        totals.add(outcome)
    assert (totals.cached_tokens, totals.tokens, totals.calls, totals.calls_without_usage) == (4, 30, 3, 1)


def test_estimates_enter_neither_figure() -> None:
    totals = Totals()
    totals.add(Outcome(status="ok", usage=Usage(10, 5, 15), usage_source="estimated"))
    assert totals.as_dict() == {"calls": 1, "calls_without_usage": 0}


def test_costs_are_summed_even_without_counts() -> None:
    totals = Totals()
    totals.add(Outcome(status="ok", cost_usd=0.25, usage_source="missing"))
    totals.add(ended(1, 1, cost_usd=0.5))
    assert totals.cost_usd == 0.75


def test_a_failed_call_counts_with_the_usage_it_had() -> None:
    accounts = Accounts()
    accounts.add("r", Outcome(status="truncated", usage=Usage(3, 4, 7), usage_source="provider"))
    accounts.add("r", Outcome(status="refused"))
    assert accounts.totals("r").as_dict()["tokens"] == 7
    assert (accounts.whole.calls, accounts.by_status) == (2, {"truncated": 1, "refused": 1})


def test_rollouts_are_counted_apart_and_together() -> None:
    accounts = Accounts()
    for rollout_id, size in (("a", 1), ("b", 10), ("a", 2)):
        accounts.add(rollout_id, ended(size, 0))
    assert [accounts.totals(name).tokens for name in "ab"] == [3, 10]
    assert (accounts.whole.tokens, accounts.whole.max_context_tokens, len(accounts)) == (13, 10, 2)


def test_a_rollout_never_seen_has_no_calls_and_leaves_no_trace() -> None:
    accounts = Accounts()
    assert accounts.totals("x").as_dict() == {"calls": 0, "calls_without_usage": 0}
    assert len(accounts) == 0


def test_calls_of_a_rollout_are_numbered_from_one() -> None:
    accounts = Accounts()
    assert [accounts.next_seq(name) for name in ("a", "a", "b", "a")] == [1, 2, 1, 3]


def test_calls_are_in_flight_from_their_number_to_their_end() -> None:
    accounts = Accounts()
    assert accounts.in_flight("a") == 0
    accounts.next_seq("a")
    accounts.next_seq("a")
    accounts.next_seq("b")
    accounts.add("a", MISSING)
    assert (accounts.in_flight("a"), accounts.in_flight("b")) == (1, 1)
    accounts.drop("a")
    assert (accounts.in_flight("a"), accounts.totals("a").calls) == (0, 1)
    accounts.add("a", MISSING)
    assert accounts.in_flight("a") == 0


def test_a_closed_rollout_takes_no_calls_and_keeps_its_totals() -> None:
    accounts = Accounts()
    accounts.add("a", ended(3, 4))
    assert not accounts.is_closed("a")
    assert accounts.close("a").tokens == 7
    assert accounts.is_closed("a")
    assert (accounts.close("a").tokens, accounts.totals("a").tokens, len(accounts)) == (7, 7, 1)


def test_a_rollout_without_calls_can_be_closed() -> None:
    accounts = Accounts()
    assert accounts.close("a").as_dict() == {"calls": 0, "calls_without_usage": 0}
    assert accounts.is_closed("a")


def test_a_straggler_of_a_closed_rollout_still_counts() -> None:
    accounts = Accounts()
    accounts.add("a", ended(3, 4))
    accounts.close("a")
    accounts.add("a", ended(1, 1))
    assert (accounts.totals("a").tokens, accounts.whole.tokens, len(accounts)) == (9, 9, 1)


def test_of_rollouts_closed_long_ago_only_that_they_are_closed_is_kept() -> None:
    accounts = Accounts(keep=2)
    for name in "abcd":
        accounts.add(name, ended(1, 1))
        accounts.close(name)
    assert all(accounts.is_closed(name) for name in "abcd")
    assert [accounts.totals(name).calls for name in "abcd"] == [0, 0, 1, 1]
    assert (len(accounts), accounts.is_closed("e")) == (4, False)
    assert accounts.close("a").calls == 0


def test_a_straggler_of_a_rollout_closed_long_ago_counts_for_the_whole_and_opens_nothing() -> None:
    accounts = Accounts(keep=0)
    accounts.close("a")
    accounts.add("a", ended(1, 1))
    assert (accounts.whole.calls, accounts.totals("a").calls, len(accounts)) == (1, 0, 1)


def test_a_call_without_a_record_is_over_and_does_not_count() -> None:
    accounts = Accounts()
    accounts.next_seq("a")
    accounts.drop("a")
    assert (accounts.in_flight("a"), accounts.totals("a").calls, accounts.whole.calls) == (0, 0, 0)
