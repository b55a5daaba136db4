"""A stream of chat chunks as the events of an Anthropic message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.spoken.messages_events import MessageEvents, gather


def events_in(raw: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for event in raw.split(b"\n\n")[:-1]:
        name, _, data = event.partition(b"\ndata: ")
        found.append(json.loads(data))
        assert name == b"event: " + found[-1]["type"].encode()
    return found


def chunk(finish: str | None = None, usage: Any = None, choice: Any = None, **delta: Any) -> dict[str, Any]:
    made = {"index": 0, "delta": delta, "finish_reason": finish, **(choice or {})}
    return {"id": "c-1", "model": "m", "choices": [made], **({"usage": usage} if usage else {})}


def call(index: int | None, arguments: str = "", name: str | None = None, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"index": index, "function": function, **more}


def told(*chunks: dict[str, Any], stops: Any = ()) -> list[dict[str, Any]]:
    made = MessageEvents(stops)
    raw = b"".join([*(made.chunk(piece) for piece in chunks), made.end()])
    events = events_in(raw)
    check_form(events)
    return events


def check_form(events: list[dict[str, Any]]) -> None:
    """Blocks follow one another, each with one start and one stop."""
    kinds = [event["type"] for event in events]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    shown, is_open = 0, False
    for event in events[1:-2]:
        assert event["index"] == shown
        if event["type"] == "content_block_start":
            assert not is_open
            is_open = True
        elif event["type"] == "content_block_stop":
            assert is_open
            shown, is_open = shown + 1, False
        else:
            assert event["type"] == "content_block_delta"
            assert is_open
    assert not is_open


def blocks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks as a client puts them together."""
    made: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            made.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "input_json_delta":
                made[-1]["json"] = made[-1].get("json", "") + delta["partial_json"]
            else:
                (name,) = delta.keys() - {"type"}
                made[-1][name] = made[-1][name] + delta[name]
    return made


def test_text_is_a_block_of_deltas() -> None:
    events = told(chunk(role="assistant"), chunk(content="he"), chunk(content="llo"), chunk("stop"))
    assert events[0]["message"] == {
        "id": "c-1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    assert [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"] == [
        "he",
        "llo",
    ]
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


def test_the_first_chunk_with_a_choice_begins_the_message() -> None:
    made = MessageEvents(())
    assert made.chunk({"choices": [], "prompt_filter_results": []}) == b""
    assert [event["type"] for event in events_in(made.chunk(chunk(role="assistant")))] == ["message_start"]


def test_thoughts_come_in_a_block_with_their_signature() -> None:
    signed = told(
        chunk(reasoning_content="h", thinking_blocks=[{"type": "thinking", "thinking": "h", "index": 0}]),
        chunk(thinking_blocks=[{"thinking": "m"}]),
        chunk(thinking_blocks=[{"type": "thinking", "thinking": "", "signature": "sig"}]),
        chunk(thinking_blocks=[{"type": "redacted_thinking", "data": "d", "index": 1}]),
        chunk(thinking_blocks=[{"type": "thinking", "thinking": "again", "signature": "s2"}]),
        chunk("stop", content="a"),
    )
    assert blocks(signed) == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "thinking", "thinking": "again", "signature": "s2"},
        {"type": "text", "text": "a"},
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_thought_without_a_signature_says_where_it_came_from(field: str) -> None:
    events = told(chunk(**{field: "h"}), chunk(**{field: "m"}), chunk("stop", content="a"))
    assert blocks(events) == [
        {"type": "thinking", "thinking": "hm", "signature": f"unsigned:{field}"},
        {"type": "text", "text": "a"},
    ]


def test_content_in_parts_is_said_too() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}
    events = told(
        chunk(content=[thought]),
        chunk(content=[thought]),
        chunk("stop", content=[{"type": "text", "text": "a"}]),
    )
    assert [block.get("thinking") or block["text"] for block in blocks(events)] == ["hh", "a"]


def test_a_refusal_is_text_and_a_stop_reason() -> None:
    events = told(chunk(refusal="I "), chunk(refusal="will not"), chunk("content_filter"))
    assert blocks(events) == [{"type": "text", "text": "I will not"}]
    assert events[-2]["delta"]["stop_reason"] == "refusal"


def test_a_call_s_arguments_come_as_they_are_made() -> None:
    made = MessageEvents(())
    first = events_in(made.chunk(chunk(tool_calls=[call(0, name="add", id="u1", type="function")])))
    assert first[-1]["content_block"] == {"type": "tool_use", "id": "u1", "name": "add", "input": {}}
    for piece in ('{"a"', ": 1}"):
        (event,) = events_in(made.chunk(chunk(tool_calls=[call(0, piece)])))
        assert event["delta"] == {"type": "input_json_delta", "partial_json": piece}


def test_calls_that_follow_one_another_are_told_at_once() -> None:
    made = MessageEvents(())
    made.chunk(chunk(tool_calls=[call(0, '{"a": 1}', name="add", id="u1")]))
    kinds = [
        event["type"]
        for event in events_in(made.chunk(chunk(tool_calls=[call(1, "{", name="sub", id="u2")])))
    ]
    assert kinds == ["content_block_stop", "content_block_start", "content_block_delta"]


def test_calls_whose_fragments_are_mixed_come_out_one_after_the_other() -> None:
    events = told(
        chunk(content="look"),
        chunk(tool_calls=[call(0, '{"a', name="add", id="u1"), call(1, '{"b', name="sub", id="u2")]),
        chunk(tool_calls=[call(1, '": 2}'), call(2, name="now", id="u3")]),
        chunk(tool_calls=[call(0, '": 1}')]),
        chunk(content="done"),
        chunk("tool_calls"),
    )
    assert [(block.get("id"), block.get("json")) for block in blocks(events)] == [
        (None, None),
        ("u1", '{"a": 1}'),
        ("u2", '{"b": 2}'),
        ("u3", None),
        (None, None),
    ]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"


def test_what_follows_an_unfinished_call_waits_and_is_told_at_the_end() -> None:
    made = MessageEvents(())
    made.chunk(chunk(tool_calls=[call(0, '{"a": "}', name="add", id="u1")]))
    assert made.chunk(chunk(tool_calls=[call(1, "{}", name="sub", id="u2")])) == b""
    made.chunk(chunk("length"))
    events = events_in(made.end())
    assert [event["type"] for event in events[:3]] == [
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
    ]
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"


def test_new_calls_under_an_old_index_are_new_calls() -> None:
    events = told(
        chunk(tool_calls=[call(0, '{"a": 1}', name="add", id="u1")]),
        chunk(tool_calls=[call(0, '{"a": 2}', name="add", id="u2")]),
        chunk("tool_calls"),
    )
    assert [(block["id"], block["json"]) for block in blocks(events)] == [
        ("u1", '{"a": 1}'),
        ("u2", '{"a": 2}'),
    ]


def test_a_call_without_an_id_gets_one_and_its_name_is_waited_for() -> None:
    made = MessageEvents(())
    made.chunk(chunk(content="x"))
    assert [event["type"] for event in events_in(made.chunk(chunk(tool_calls=[call(None, "{")])))] == [
        "content_block_stop"
    ]
    events = events_in(made.chunk(chunk(tool_calls=[call(None, "}", name="add")])))
    assert events[0]["content_block"] == {"type": "tool_use", "id": "c-1-1", "name": "add", "input": {}}
    assert [event["delta"]["partial_json"] for event in events[1:]] == ["{", "}"]


def test_arguments_that_go_on_after_their_end_are_an_error() -> None:
    made = MessageEvents(())
    made.chunk(chunk(tool_calls=[call(0, "{}", name="add", id="u1"), call(1, "{", name="sub", id="u2")]))
    assert made.chunk(chunk(tool_calls=[call(0, " \n")])) == b""
    with pytest.raises(UpstreamFailed) as caught:
        made.chunk(chunk(tool_calls=[call(0, "more")]))
    assert caught.value.code == "invalid_upstream_reply"


def test_arguments_that_are_a_value_are_told_as_its_text() -> None:
    piece: dict[str, Any] = {"index": 0, "id": "u1", "function": {"name": "add", "arguments": {"a": 1}}}
    assert json.loads(blocks(told(chunk(tool_calls=[piece]), chunk("tool_calls")))[0]["json"]) == {"a": 1}


def test_usage_comes_with_the_stop_reason_and_is_null_where_there_is_none() -> None:
    counts = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    for last in (chunk("stop", usage=counts), {"choices": [], "usage": counts}):
        events = told(chunk(content="a", finish="stop"), last)
        assert events[-2]["usage"] == {"input_tokens": 5, "output_tokens": 2}
    assert told(chunk("stop"))[-2]["usage"] == {"input_tokens": None, "output_tokens": None}


def test_a_stop_sequence_is_told_where_the_server_tells_it() -> None:
    events = told(chunk("stop", choice={"stop_reason": "END"}), stops={"END"})
    assert events[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}


def test_an_end_without_a_finish_is_no_end() -> None:
    made = MessageEvents(())
    made.chunk(chunk(content="a"))
    with pytest.raises(UpstreamFailed) as caught:
        made.end()
    assert caught.value.code == "upstream_truncated"


def test_a_second_answer_is_an_error() -> None:
    with pytest.raises(UpstreamFailed):
        MessageEvents(()).chunk(chunk(choice={"index": 1}))


def test_what_has_no_place_in_a_block_comes_with_the_stop_reason() -> None:
    events = told(
        chunk(content="a", annotations=[1], audio={"data": [1]}, choice={"logprobs": {"content": [1]}}),
        chunk("stop", annotations=[2], audio={"data": [2], "id": "x"}, choice={"logprobs": {"content": [2]}}),
    )
    delta = events[-2]["delta"]
    assert (delta["annotations"], delta["audio"]) == ([1, 2], {"data": [1, 2], "id": "x"})
    assert delta["logprobs"] == {"content": [1, 2]}


def test_gathering_changes_nothing_that_was_given() -> None:
    one: dict[str, Any] = {"a": {"b": [1]}}
    into: dict[str, Any] = {}
    gather(into, one)
    gather(into, {"a": {"b": [2]}, "c": 1})
    gather(into, {"c": 2})
    assert into == {"a": {"b": [1, 2]}, "c": 2}
    assert one == {"a": {"b": [1]}}
