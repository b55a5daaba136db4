"""Whatever stands in an Anthropic Messages request stands in the chat request that says the same, or it is refused.

And whatever a stream's chunks say comes out as well-formed events that say the same, however they were cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.spoken.messages import Messages
from osmosis_bridge.native.spoken.naming import client_place

_names = st.sampled_from(["x_new", "odd", "cache_control", "citations", "title", "name", "strict", "seed"])
_texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
_numbers = st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
_scalars = _texts | _numbers | st.booleans() | st.none()
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=3,
)


def _object(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with these members, and others beside them."""
    return st.builds(
        lambda known, more: more | known,
        st.fixed_dictionaries(members),
        st.dictionaries(_names, _values, max_size=2),
    )


_data = st.fixed_dictionaries(
    {
        "type": st.just("base64"),
        "media_type": st.sampled_from(["image/png", "application/pdf"]),
        "data": _texts,
    }
)
_sources = st.one_of(
    _data,
    st.fixed_dictionaries({"type": st.just("url"), "url": _texts}),
    st.fixed_dictionaries({"type": st.just("text"), "media_type": st.just("text/plain"), "data": _texts}),
    st.fixed_dictionaries({"type": st.just("content"), "content": _texts}),
)
_text = _object(type=st.just("text"), text=_texts)
_seen = st.one_of(
    _text,
    _object(type=st.just("image"), source=_sources),
    _object(type=st.just("document"), source=_sources, context=_texts | st.none()),
    _object(type=st.sampled_from(["search_result", "server_tool_use", "odd"])),
)
_result = _object(
    type=st.just("tool_result"),
    tool_use_id=_texts,
    content=_texts | st.lists(_seen, max_size=3),
    is_error=st.booleans(),
)
_use = _object(
    type=st.just("tool_use"), id=_texts, name=_texts, input=st.dictionaries(_texts, _values, max_size=3)
)
_thought = st.one_of(
    _object(type=st.just("thinking"), thinking=_texts, signature=_texts),
    _object(type=st.just("thinking"), thinking=_texts, signature=st.just("")),
    _object(type=st.just("redacted_thinking"), data=_texts),
)
_turns = st.one_of(
    _object(role=st.just("user"), content=_texts | st.lists(_seen | _result, max_size=4)),
    _object(role=st.just("assistant"), content=_texts | st.lists(_text | _use | _thought, max_size=4)),
)
_tools = _object(name=_texts, description=_texts, input_schema=st.dictionaries(_texts, _values, max_size=3))
_fields = {
    "max_tokens": _values,
    "system": _texts | st.lists(_text, max_size=3),
    "stop_sequences": st.lists(_texts, max_size=3),
    "metadata": st.fixed_dictionaries({"user_id": _texts | st.none()}) | _object(user_id=_texts),
    "tools": st.lists(_tools, max_size=2),
    "tool_choice": _object(
        type=st.sampled_from(["auto", "any", "none", "tool", "odd"]), disable_parallel_tool_use=st.booleans()
    ),
    "thinking": _values,
    "output_config": _object(effort=_texts)
    | st.fixed_dictionaries(
        {"format": _object(type=st.just("json_schema"), schema=st.dictionaries(_texts, _values, max_size=2))}
    ),
    "service_tier": st.sampled_from(["auto", "standard_only", "odd"]),
    "container": _texts,
    "user": _texts,
    "n": st.integers(1, 2),
}
_requests = st.builds(
    lambda known, more, stream: {**more, **known, "model": "m", "stream": stream},
    st.fixed_dictionaries({"messages": st.lists(_turns, max_size=4)}, optional=_fields),
    st.dictionaries(_names, _values, max_size=2),
    st.booleans(),
)
_ROLES = ("user", "assistant")
_KINDS = (
    "text", "image", "document", "content", "tool_result", "tool_use", "thinking", "redacted_thinking", "base64", "url",
)  # fmt: skip


def _leaves(value: Any, *, kinds: bool = False) -> Iterator[str]:
    """Every text and number within, as text; without roles and the kinds of blocks, sources and plain texts."""
    if isinstance(value, dict):
        for name, inner in value.items():
            structural = inner in {"type": _KINDS, "role": _ROLES, "media_type": ("text/plain",)}.get(
                name, ()
            )
            if kinds or not structural:
                yield from _leaves(inner, kinds=kinds)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, kinds=kinds)
    elif isinstance(value, str):
        yield value
    elif value is not None and not isinstance(value, bool):
        yield json.dumps(value)


def _held(request: dict[str, Any]) -> str:
    """Everything a chat request says, the arguments of its calls as the values that they are."""
    said = [*_leaves(request, kinds=True)]
    for turn in request["messages"]:
        for call in turn.get("tool_calls", ()):
            said += _leaves(json.loads(call["function"]["arguments"]), kinds=True)
    return "\0".join(said)


def _translated(fields: dict[str, Any]) -> tuple[Messages | None, str]:
    """The translation; where there is none, the place that is refused."""
    try:
        return Messages(fields), ""
    except Refused as refusal:
        return None, refusal.param or ""


@settings(max_examples=150)
@given(_requests)
def test_no_text_and_no_number_of_a_request_is_lost(fields: dict[str, Any]) -> None:
    translation, named = _translated(fields)
    if translation is None:
        assert named.partition(".")[0].partition("[")[0] in fields
        return
    held = _held(translation.request)
    without = {name: value for name, value in fields.items() if name not in translation.left_out}
    if without.get("service_tier") == "standard_only":
        del without["service_tier"]
    asked = Counter(_leaves({name: value for name, value in without.items() if name != "tool_choice"}))
    for leaf in asked:
        assert leaf in held, f"{leaf!r} is lost"


@settings(max_examples=60)
@given(_requests)
def test_every_place_of_the_chat_request_is_told_in_the_client_s_words(fields: dict[str, Any]) -> None:
    translation, _ = _translated(fields)
    if translation is None:
        return
    for n, turn in enumerate(translation.request["messages"]):
        for name in turn:
            place = client_place(f"messages[{n}].{name}", translation.sources)
            assert place.partition(".")[0].partition("[")[0] in ("system", "messages")
    for name in translation.request:
        assert client_place(name, translation.sources).partition(".")[0] in {*fields, "stream_options"}


_pieces = st.lists(
    st.one_of(
        st.tuples(st.just("text"), _texts),
        st.tuples(st.just("thought"), _texts),
        st.tuples(st.just("call"), st.integers(0, 3), st.integers(1, 6)),
    ),
    max_size=12,
)
_arguments = st.lists(st.dictionaries(_texts, _values, max_size=3), min_size=4, max_size=4)


@settings(max_examples=150)
@given(_pieces, _arguments)
def test_what_a_stream_says_comes_out_in_well_formed_blocks_that_say_the_same(
    pieces: list[Any], arguments: list[dict[str, Any]]
) -> None:
    translation = Messages({"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True})
    texts = [json.dumps(value) for value in arguments]
    sent = [0, 0, 0, 0]
    out = b""

    def send(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return translation.chunk(
            {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        )

    def fragment(index: int, size: int) -> dict[str, Any]:
        start = sent[index]
        sent[index] = min(start + size, len(texts[index]))
        head = {"id": f"u{index}", "type": "function"} if start == 0 else {}
        function = {"arguments": texts[index][start : sent[index]]} | ({"name": f"f{index}"} if head else {})
        return {"tool_calls": [{"index": index, "function": function, **head}]}

    called: list[int] = []
    for piece in pieces:
        if piece[0] == "call":
            called += [piece[1]] if piece[1] not in called else []
            out += send(fragment(piece[1], piece[2]))
        else:
            out += send({"content" if piece[0] == "text" else "reasoning_content": piece[1]})
    for index in called:
        if sent[index] < len(texts[index]):
            out += send(fragment(index, len(texts[index])))
    out += send({}, "tool_calls" if called else "stop") + translation.end()

    blocks = _blocks(out)
    said = {kind: "".join(piece[1] for piece in pieces if piece[0] == kind) for kind in ("text", "thought")}
    assert "".join(block["said"] for block in blocks if block["type"] == "text") == said["text"]
    assert "".join(block["said"] for block in blocks if block["type"] == "thinking") == said["thought"]
    calls = [(block["id"], json.loads(block["said"])) for block in blocks if block["type"] == "tool_use"]
    assert calls == [(f"u{index}", arguments[index]) for index in called]


def _blocks(raw: bytes) -> list[dict[str, Any]]:
    """The blocks of a stream of events; fails where they are not one after the other."""
    events = [json.loads(event.partition(b"\ndata: ")[2]) for event in raw.split(b"\n\n")[:-1]]
    assert [event["type"] for event in events].count("message_start") == 1
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    blocks: list[dict[str, Any]] = []
    open_at: int | None = None
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            assert (open_at, event["index"]) == (None, len(blocks))
            open_at = event["index"]
            blocks.append(event["content_block"] | {"said": ""})
            continue
        assert event["index"] == open_at
        if event["type"] == "content_block_stop":
            open_at = None
        elif event["delta"]["type"] != "signature_delta":
            (name,) = event["delta"].keys() - {"type"}
            blocks[-1]["said"] += event["delta"][name]
    assert open_at is None
    return blocks
