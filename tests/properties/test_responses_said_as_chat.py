"""Whatever a Responses request says is said in the chat request, or refused by name: no text and no number is lost."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.spoken.carried import pack
from osmosis_bridge.native.spoken.responses import ResponsesTranslation, translate_responses

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
NAMES_IT = frozenset({"id", "status"})
"""Members of an item that name it in a store; they say nothing."""
WORDS_OF_SHAPE = frozenset({"type", "role", "syntax"})


def with_more(base: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of these members, and half of the time one that nobody expects there."""
    more = st.one_of(
        st.just({}), st.tuples(st.sampled_from(NAMES), VALUES).map(lambda pair: {pair[0]: pair[1]})
    )
    return st.tuples(st.fixed_dictionaries(base), more).map(lambda pair: pair[1] | pair[0])


def text_part(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    return with_more({"type": st.just(kind), "text": WORDS})


PARTS = st.lists(
    text_part("input_text")
    | with_more({"type": st.just("input_image"), "image_url": WORDS, "detail": st.just("auto")})
    | with_more({"type": st.just("input_file"), "file_data": WORDS, "filename": WORDS}),
    min_size=1,
    max_size=3,
)
SAID = st.lists(
    text_part("output_text") | with_more({"type": st.just("refusal"), "refusal": WORDS}),
    min_size=1,
    max_size=2,
)
CARRIED_TEXT = str(pack({"thinking_blocks": [{"type": "thinking", "signature": "signed"}]}, {}))
CARRIED = st.just(CARRIED_TEXT)
ITEMS = st.lists(
    with_more({"role": st.sampled_from(["user", "system", "developer"]), "content": WORDS | PARTS})
    | with_more(
        {
            "type": st.just("message"),
            "id": WORDS,
            "status": WORDS,
            "role": st.just("assistant"),
            "content": SAID,
        }
    )
    | with_more(
        {"type": st.just("function_call"), "id": WORDS, "call_id": WORDS, "name": WORDS, "arguments": WORDS}
    )
    | with_more({"type": st.just("custom_tool_call"), "call_id": WORDS, "name": WORDS, "input": WORDS})
    | with_more({"type": st.just("function_call_output"), "call_id": WORDS, "output": WORDS | PARTS})
    | with_more(
        {
            "type": st.just("reasoning"),
            "id": WORDS,
            "summary": st.lists(
                st.fixed_dictionaries({"type": st.just("summary_text"), "text": WORDS}), max_size=2
            ),
            "encrypted_content": st.none() | CARRIED,
        }
    )
    | st.fixed_dictionaries({"type": st.sampled_from(["item_reference", "computer_call"]), "id": WORDS}),
    min_size=1,
    max_size=5,
)
TOOLS = st.lists(
    with_more({"type": st.just("function"), "name": WORDS, "description": WORDS, "parameters": VALUES})
    | with_more(
        {
            "type": st.just("custom"),
            "name": WORDS,
            "format": with_more({"type": st.just("grammar"), "definition": WORDS}),
        }
    )
    | st.fixed_dictionaries({"type": st.just("mcp"), "server_label": WORDS}),
    max_size=2,
)
FIELDS = st.fixed_dictionaries(
    {"input": WORDS | ITEMS},
    optional={
        "instructions": WORDS,
        "tools": TOOLS,
        "tool_choice": with_more({"type": st.sampled_from(["function", "custom"]), "name": WORDS})
        | st.just("required"),
        "max_output_tokens": NUMBERS,
        "temperature": NUMBERS,
        "top_logprobs": NUMBERS,
        "reasoning": with_more({"effort": WORDS}),
        "text": with_more(
            {"format": with_more({"type": st.just("json_schema"), "name": WORDS, "schema": VALUES})}
        ),
        "metadata": st.just({"key": "w"}),
        "store": st.sampled_from([False, None, True]),
        "user": WORDS,
        "service_tier": WORDS,
        "stop": st.lists(WORDS, max_size=2),
        "vendor": VALUES,
    },
)


def told_apart(value: Any, leaves: list[Any], name: str = "") -> Any:
    """The same with every text and number made one of its own; `leaves` gathers those that must arrive."""
    if isinstance(value, dict):
        return {
            key: inner if key in WORDS_OF_SHAPE else told_apart(inner, leaves, key)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [told_apart(inner, leaves, name) for inner in value]
    if value == "w" or (value == 1 and not isinstance(value, bool)):
        number = 1000 + len(leaves)
        leaf = f"w{number}w" if value == "w" else number
        leaves.append(None if name in NAMES_IT else leaf)
        return leaf
    return value


def accepted(fields: dict[str, Any]) -> ResponsesTranslation | None:
    """The translation, or None where a field is refused by name."""
    try:
        return translate_responses(fields)
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
    if found is None:
        return
    said = repr(found.request)
    left_out = repr({name: asked[name] for name in found.left_out if name in asked})
    for leaf in leaves:
        assert leaf is None or str(leaf) in said or str(leaf) in left_out, leaf
    assert said.count("'signed'") == repr(asked).count(CARRIED_TEXT)


@given(FIELDS)
def test_every_place_that_a_source_names_is_one_of_the_client_s(fields: dict[str, Any]):
    found = accepted(fields)
    for place in () if found is None else (*found.sources.values(), *found.left_out):
        assert place.partition(".")[0].partition("[")[0] in fields, place
