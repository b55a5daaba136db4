"""Whatever a chat request says is said in the request to Responses, or refused by name.

And what Responses answered goes back to it as it came.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.via_responses.answer import message_of
from osmosis_bridge.native.via_responses.items import input_of
from osmosis_bridge.native.via_responses.request import ViaResponses, say_as_responses

WORDS = st.just("w")
NUMBERS = st.just(1)
VALUES = st.sampled_from(["w", 1, None, False, ["w", 1], {"inner": "w"}, {"inner": {"deep": [1]}}])
NAMES = [
    "cache_control",
    "phase",
    "vendor",
    "detail",
    "prompt_cache_breakpoint",
    "name",
    "content",
    "function",
    "file",
    "image_url",
    "tool_calls",
    "text",
    "format",
]
OF_SHAPE = frozenset({"type", "role", "syntax"})


def with_more(base: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of these members, and half of the time one that nobody expects there."""
    more = st.one_of(
        st.just({}), st.tuples(st.sampled_from(NAMES), VALUES).map(lambda pair: {pair[0]: pair[1]})
    )
    return st.tuples(st.fixed_dictionaries(base), more).map(lambda pair: pair[1] | pair[0])


PARTS = st.lists(
    with_more({"type": st.just("text"), "text": WORDS})
    | with_more({"type": st.just("image_url"), "image_url": with_more({"url": WORDS})})
    | with_more({"type": st.just("file"), "file": with_more({"file_data": WORDS, "filename": WORDS})}),
    min_size=1,
    max_size=3,
)
CALLS = st.lists(
    with_more(
        {"id": WORDS, "type": st.just("function"), "function": with_more({"name": WORDS, "arguments": WORDS})}
    )
    | with_more(
        {"id": WORDS, "type": st.just("custom"), "custom": with_more({"name": WORDS, "input": WORDS})}
    ),
    max_size=2,
)
MESSAGES = st.lists(
    with_more({"role": st.sampled_from(["user", "system", "developer"]), "content": WORDS | PARTS})
    | with_more({"role": st.just("assistant"), "content": WORDS | st.none(), "tool_calls": CALLS})
    | with_more({"role": st.just("assistant"), "content": WORDS, "refusal": WORDS | st.none()})
    | with_more({"role": st.just("tool"), "tool_call_id": WORDS, "content": WORDS | PARTS}),
    min_size=1,
    max_size=4,
)
FIELDS = st.fixed_dictionaries(
    {"messages": MESSAGES},
    optional={
        "tools": st.lists(
            with_more(
                {
                    "type": st.just("function"),
                    "function": with_more({"name": WORDS, "description": WORDS, "parameters": VALUES}),
                }
            ),
            max_size=2,
        ),
        "tool_choice": with_more({"type": st.just("function"), "function": with_more({"name": WORDS})}),
        "max_tokens": NUMBERS,
        "temperature": NUMBERS,
        "reasoning_effort": WORDS,
        "reasoning": st.just({"summary": "w"}),
        "verbosity": WORDS,
        "response_format": with_more(
            {"type": st.just("json_schema"), "json_schema": with_more({"name": WORDS, "schema": VALUES})}
        ),
        "metadata": st.just({"key": "w"}),
        "stop": st.sampled_from([None, [], "w"]),
        "vendor": VALUES,
    },
)


def told_apart(value: Any, leaves: list[Any]) -> Any:
    """The same with every text and number made one of its own; `leaves` gathers them."""
    if isinstance(value, dict):
        return {
            name: inner if name in OF_SHAPE else told_apart(inner, leaves) for name, inner in value.items()
        }
    if isinstance(value, list):
        return [told_apart(inner, leaves) for inner in value]
    if value == "w" or (value == 1 and not isinstance(value, bool)):
        number = 1000 + len(leaves)
        leaves.append(f"w{number}w" if value == "w" else number)
        return leaves[-1]
    return value


def accepted(fields: dict[str, Any]) -> ViaResponses | None:
    """The translation, or None where a field is refused by name."""
    try:
        return say_as_responses(fields, "gpt-5.6", "because")
    except Refused as refusal:
        if refusal.param is None or refusal.status != 400:
            raise
        return None


@settings(max_examples=300)
@given(FIELDS)
def test_no_text_and_no_number_is_lost(fields: dict[str, Any]):
    leaves: list[Any] = []
    asked = told_apart(fields, leaves)
    found = accepted(asked)
    if found is not None:
        said = repr(found.request)
        assert [leaf for leaf in leaves if str(leaf) not in said] == []


@given(FIELDS)
def test_every_field_has_a_row(fields: dict[str, Any]):
    found = accepted(fields)
    if found is not None:
        assert {row.field for row in found.rows(fields)} >= fields.keys()


OUTPUT = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("reasoning"), "id": WORDS, "encrypted_content": WORDS, "summary": st.just([])}
    )
    | st.fixed_dictionaries(
        {
            "type": st.just("message"),
            "id": WORDS,
            "role": st.just("assistant"),
            "content": st.just([{"type": "output_text", "text": "w"}])
            | st.just([{"type": "refusal", "refusal": "w"}]),
        },
        optional={"phase": WORDS},
    )
    | st.fixed_dictionaries(
        {"type": st.just("function_call"), "call_id": WORDS, "name": WORDS, "arguments": WORDS}
    )
    | st.fixed_dictionaries(
        {"type": st.just("custom_tool_call"), "call_id": WORDS, "name": WORDS, "input": WORDS}
    )
    | st.fixed_dictionaries({"type": st.just("web_search_call"), "id": WORDS}),
    min_size=1,
    max_size=4,
)


@given(OUTPUT)
def test_a_turn_of_responses_loses_nothing_on_its_way_through_chat(output: list[dict[str, Any]]):
    leaves: list[Any] = []
    given_back = input_of([message_of(told_apart(output, leaves))])
    ids_apart = [leaf for leaf in leaves if str(leaf) not in repr(given_back)]
    plain = all(item["type"] in ("message", "function_call", "custom_tool_call") for item in output)
    assert not ids_apart or plain
    assert [item["type"] for item in given_back] == [item["type"] for item in output]
