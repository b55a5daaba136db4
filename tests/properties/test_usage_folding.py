"""A tally of chunks is the tally of the whole, and totals are sums whatever the order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fakes import admitted
from osmosis_bridge.accounts import Totals
from osmosis_bridge.call import Outcome, Usage
from osmosis_bridge.dialects.chat import ChatStream, is_error, read_reply
from osmosis_bridge.dialects.chat_body import Reading, read_named, usual_outcome
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


ODD = st.none() | st.booleans() | st.just("") | st.just({}) | st.just(0) | st.text(max_size=3)
CHOICES = st.fixed_dictionaries(
    {"finish_reason": st.sampled_from(["stop", "length", "error", "", "naïve\n", "x" * 101]) | st.none()},
    optional={"index": st.integers(-1, 2) | st.none(), "usage": ODD, "error": ODD, "message": ODD},
)
REPLIES = st.fixed_dictionaries(
    {
        "model": st.text(max_size=4) | st.none(),
        "choices": st.lists(CHOICES, max_size=3),
        "usage": USAGE_OBJECTS | st.none(),
        "object": st.sampled_from(["chat.completion", "text_completion", "error", "list"]),
    },
    optional={
        "error": ODD,
        "x_groq": st.none() | st.fixed_dictionaries({"usage": USAGE_OBJECTS}),
        "system_fingerprint": ODD,
    },
)


@given(REPLIES, st.booleans())
def test_the_short_way_of_reading_a_reply_finds_what_the_long_one_does(
    reply: dict[str, Any], ascii_only: bool
) -> None:
    body = json.dumps(reply, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    found = usual_outcome(body)
    if found is None:
        return
    read = read_named(body)
    assert read is not None
    assert not is_error(read)
    reading = Reading()
    reading.take(read)
    reading.name(read)
    assert not reading.erred
    assert json.loads(found[0]) == reply["model"]
    assert found[1] == reading.outcome("ok", 200)


def test_a_reply_as_openai_describes_it_is_read_the_short_way() -> None:
    body = json.dumps(
        {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1760000000, "model": "gpt-5",
            "choices": [
                {
                    "index": 0, "message": {"role": "assistant", "content": "56", "refusal": None},
                    "logprobs": None, "finish_reason": "stop",
                }
            ],
            "usage": {
                "prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11,
                "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 0},
            },
            "service_tier": "default", "system_fingerprint": "fp_1",
        }
    ).encode()  # fmt: skip
    assert usual_outcome(body) == (
        b'"gpt-5"',
        Outcome(
            status="ok",
            http_status=200,
            finish_reasons=("stop",),
            usage=Usage(9, 2, 11, cached_tokens=4, reasoning_tokens=1),
            usage_source="provider",
            served_model="gpt-5",
            system_fingerprint="fp_1",
        ),
    )
