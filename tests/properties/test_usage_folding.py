"""A tally of chunks is the tally of the whole, and totals are sums whatever the order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fakes import admitted
from osmosis_bridge.accounts import Totals
from osmosis_bridge.call import Outcome, Usage
from osmosis_bridge.dialects.chat import ChatStream, read_reply
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import encode_event
from osmosis_bridge.usage import read_usage

COUNTS = st.none() | st.integers(0, 2**40)
USAGE_OBJECTS = st.fixed_dictionaries(
    {"prompt_tokens": COUNTS, "completion_tokens": COUNTS},
    optional={
        "total_tokens": COUNTS,
        "cost": st.none() | st.floats(0, 1000),
        "prompt_tokens_details": st.none() | st.fixed_dictionaries({"cached_tokens": COUNTS}),
        "completion_tokens_details": st.none() | st.fixed_dictionaries({"reasoning_tokens": COUNTS}),
        "odd": st.text(max_size=3),
    },
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


@given(USAGE_OBJECTS, st.lists(USAGE_OBJECTS, max_size=4), st.integers(1, 3))
def test_a_tally_of_chunks_equals_the_tally_of_the_whole(
    usage: dict[str, Any], earlier: list[dict[str, Any]], choices: int
) -> None:
    model = admitted()
    finished = [{"index": i, "finish_reason": "stop"} for i in range(choices)]
    stream = ChatStream(model, Redactor())
    for number, chunk_usage in enumerate([*earlier, None]):
        chunk = {"choices": [{"index": number % choices, "delta": {}}], "usage": chunk_usage}
        stream.feed(encode_event(json.dumps(chunk).encode()))
    for choice in finished:
        stream.feed(encode_event(json.dumps({"choices": [choice]}).encode()))
    stream.feed(encode_event(json.dumps({"choices": [], "usage": usage}).encode()) + b"data: [DONE]\n\n")
    whole = json.dumps(
        {"choices": [{**choice, "message": {}} for choice in finished], "usage": usage}
    ).encode()
    assert stream.reading.outcome("ok", 200) == read_reply(whole, model, Redactor())[1]


@given(JSON_VALUES)
def test_any_json_is_read_as_whole_counts_or_as_nothing(value: object) -> None:
    usage, cost = read_usage(json.dumps(value).encode())
    assert cost is None or 0 <= cost < 1e9
    if usage is not None:
        counts = (getattr(usage, name) for name in usage.__struct_fields__)
        assert all(count is None or (type(count) is int and 0 <= count <= 2**54) for count in counts)
        assert usage.context >= (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_without_an_error(raw: bytes) -> None:
    read_usage(raw)


OUTCOMES = st.builds(
    lambda usage, source: Outcome(status="ok", usage=usage, usage_source="provider" if usage else source),
    st.none() | st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS),
    st.sampled_from(["missing", "estimated", None]),
)


@given(st.lists(OUTCOMES, max_size=12).flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_totals_are_sums_and_maxima_in_whatever_order_calls_end(
    orders: tuple[list[Outcome], list[Outcome]],
) -> None:
    totals, shuffled = Totals(), Totals()
    for outcome, other in zip(*orders, strict=True):
        totals.add(outcome)
        shuffled.add(other)
    assert totals == shuffled
    used = [outcome.usage for outcome in orders[0] if outcome.usage]
    assert totals.calls == len(orders[0])
    assert totals.tokens == (sum(usage.total for usage in used) if used else None)
    assert totals.max_context_tokens == (max(usage.context for usage in used) if used else None)
    prompts = [usage.prompt_tokens for usage in used if usage.prompt_tokens is not None]
    assert totals.prompt_tokens == (sum(prompts) if prompts else None)
