"""Answers as items and events, held to the types of OpenAI's client and to its assembler."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.spoken.carried import unpack
from osmosis_bridge.native.spoken.responses_events import ResponseWriter, encode_events

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


def piece(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish} | more
    return {
        "id": "chatcmpl-7",
        "object": "chat.completion.chunk",
        "created": 5,
        "model": "m",
        "choices": [choice],
    }


def call(index: int | None, name: str | None = None, arguments: str = "", **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    found: dict[str, Any] = {"function": function, **more}
    return found if index is None else found | {"index": index}


def events_of(*chunks: Any, finish: str = "stop") -> list[dict[str, Any]]:
    """The events of a stream, each read by OpenAI's types, all of them by its assembler."""
    writer = ResponseWriter({})
    events = [event for chunk in chunks for event in writer.take(chunk)]
    usage = {"choices": [], "usage": USAGE}
    events += [*writer.take(piece(finish=finish)), *writer.take(usage), *writer.end()]
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=[], text_format=omit)
    for event in events:
        state.handle_event(EVENT.validate_python(event))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def output_of(*chunks: Any, finish: str = "stop") -> list[dict[str, Any]]:
    return events_of(*chunks, finish=finish)[-1]["response"]["output"]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text_comes_as_openai_s_own_sequence():
    events = events_of(
        piece({"role": "assistant", "content": ""}), piece({"content": "a"}), piece({"content": "b"})
    )
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    response = events[-1]["response"]
    assert response["usage"]["total_tokens"] == 7
    assert response["output"][0]["content"][0]["text"] == "ab"
    assert events[0]["response"]["usage"] is None


def test_pieces_of_parallel_calls_that_are_mixed_go_each_to_its_own():
    events = events_of(
        piece({"tool_calls": [call(0, "f", id="c0", type="function")]}),
        piece({"tool_calls": [call(1, "g", '{"a"', id="c1", type="function")]}),
        piece({"tool_calls": [call(0, None, "{}"), call(1, None, ":1}")]}),
        finish="tool_calls",
    )
    made = events[-1]["response"]["output"]
    assert [(item["call_id"], item["name"], item["arguments"]) for item in made] == [
        ("c0", "f", "{}"),
        ("c1", "g", '{"a":1}'),
    ]
    for item in made:
        deltas = [
            event["delta"] for event in events if event.get("item_id") == item["id"] and "delta" in event
        ]
        assert "".join(deltas) == item["arguments"]
    assert len({item["id"] for item in made}) == 2


def test_calls_without_an_index_are_told_apart_by_their_ids():
    made = output_of(piece({"tool_calls": [call(None, "f", "{}", id="a"), call(None, "g", "{}", id="b")]}))
    assert [(item["name"], item["arguments"]) for item in made] == [("f", "{}"), ("g", "{}")]


def test_a_call_opens_with_its_name_and_loses_nothing_that_came_before():
    made = output_of(
        piece({"tool_calls": [call(0, None, "{", id="c0")]}), piece({"tool_calls": [call(0, "f", "}")]})
    )
    assert [(item["call_id"], item["name"], item["arguments"]) for item in made] == [("c0", "f", "{}")]


def test_a_call_without_an_id_gets_one():
    made = output_of(piece({"tool_calls": [call(0, "f", "{}")]}))
    assert made[0]["call_id"]


def test_a_call_that_never_gets_a_name_is_no_answer():
    writer = ResponseWriter({})
    for _ in writer.take(piece({"tool_calls": [call(0, None, "{}")]}, finish="tool_calls")):
        pass
    with pytest.raises(UpstreamFailed, match="without a name"):
        list(writer.end())


def test_a_custom_call_is_one_to_its_last_piece():
    first = {"index": 0, "id": "c0", "type": "custom", "custom": {"name": "sql", "input": "sel"}}
    made = output_of(
        piece({"tool_calls": [first]}), piece({"tool_calls": [{"index": 0, "custom": {"input": "ect"}}]})
    )
    assert made == [
        {"id": "ctc_7_0", "call_id": "c0", "name": "sql", "type": "custom_tool_call", "input": "select"}
    ]


def test_signed_reasoning_comes_before_the_text_and_carries_its_blocks():
    def thinking(text: str, signature: str = "") -> dict[str, Any]:
        return {"thinking_blocks": [{"type": "thinking", "thinking": text, "signature": signature}]}

    made = output_of(
        piece({"reasoning_content": "a"} | thinking("a")),
        piece({"reasoning_content": "b"} | thinking("b")),
        piece(thinking("", "sig")),
        piece({"content": "ok"}),
    )
    assert [item["type"] for item in made] == ["reasoning", "message"]
    assert made[0]["summary"] == [{"type": "summary_text", "text": "ab"}]
    carried = unpack(made[0]["encrypted_content"])
    assert carried is not None
    assert carried.turn == {"thinking_blocks": [{"type": "thinking", "thinking": "ab", "signature": "sig"}]}


def test_reasoning_that_is_only_in_its_blocks_is_shown_all_the_same():
    made = output_of(piece({"thinking_blocks": [{"type": "thinking", "thinking": "a", "signature": "s"}]}))
    assert made[0]["summary"][0]["text"] == "a"


def test_the_signature_of_a_call_comes_in_an_item_before_it():
    extra = {"google": {"thought_signature": "s"}}
    made = output_of(
        piece({"content": "ok"}), piece({"tool_calls": [call(0, "f", "{}", id="c0", extra_content=extra)]})
    )
    assert [item["type"] for item in made] == ["message", "reasoning", "function_call"]
    carried = unpack(made[1]["encrypted_content"])
    assert carried is not None
    assert carried.calls == {"c0": {"extra_content": extra}}


def test_the_signatures_of_a_text_are_carried():
    fields = {"thought_signatures": ["s"], "other": 1}
    made = output_of(piece({"content": "ok", "provider_specific_fields": fields}))
    assert [item["type"] for item in made] == ["message", "reasoning"]
    carried = unpack(made[1]["encrypted_content"])
    assert carried is not None
    assert carried.turn == {"provider_specific_fields": {"thought_signatures": ["s"]}}


def test_details_of_reasoning_that_come_in_pieces_are_put_together():
    def detail(**fields: Any) -> dict[str, Any]:
        return {
            "reasoning": fields.get("text", ""),
            "reasoning_details": [{"type": "reasoning.text", "index": 0} | fields],
        }

    made = output_of(piece(detail(text="a")), piece(detail(text="b")), piece(detail(signature="s")))
    carried = unpack(made[0]["encrypted_content"])
    assert carried is not None
    whole = {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"}
    assert carried.turn == {"reasoning": "ab", "reasoning_details": [whole]}


def test_thoughts_within_the_content_are_reasoning():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "ok"},
    ]
    made = output_of(piece({"content": parts}))
    assert [item["type"] for item in made] == ["reasoning", "message"]


def test_a_part_that_a_response_cannot_hold_is_no_answer():
    with pytest.raises(UpstreamFailed, match="'video'"):
        events_of(piece({"content": [{"type": "video", "url": "u"}]}))


def test_refusals_notes_log_probabilities_and_images_are_told():
    token = {"token": "a", "logprob": -1.0, "bytes": [97], "top_logprobs": []}
    note = {
        "type": "url_citation",
        "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1},
    }
    made = output_of(
        piece({"content": "a"}, logprobs={"content": [token]}),
        piece({"annotations": [note]}),
        piece({"refusal": "no"}),
        piece({"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}),
    )
    text, refusal = made[0]["content"]
    assert text["logprobs"] == [token]
    assert text["annotations"] == [
        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    ]
    assert refusal == {"type": "refusal", "refusal": "no"}
    assert made[1]["result"] == "AA"


@pytest.mark.parametrize(
    ("finish", "last", "reason"),
    [("length", "incomplete", "max_output_tokens"), ("content_filter", "incomplete", "content_filter")],
)
def test_an_answer_that_was_cut_short_is_incomplete(finish: str, last: str, reason: str):
    events = events_of(piece({"content": "a"}), finish=finish)
    assert kinds(events)[-1] == last
    assert events[-1]["response"]["incomplete_details"] == {"reason": reason}
    assert events[-1]["response"]["output"][0]["status"] == "incomplete"


def test_without_a_finish_reason_there_is_no_end():
    writer = ResponseWriter({})
    list(writer.take(piece({"content": "a"})))
    with pytest.raises(UpstreamFailed) as failure:
        writer.end()
    assert failure.value.code == "upstream_truncated"


def test_a_first_chunk_without_an_answer_begins_nothing():
    writer = ResponseWriter({})
    assert list(writer.take({"id": "", "choices": [], "prompt_filter_results": []})) == []
    events = list(writer.take(piece({"content": "a"})))
    assert events[0]["response"]["id"] == "resp_7"


def test_several_answers_cannot_be_said():
    writer = ResponseWriter({})
    with pytest.raises(UpstreamFailed):
        list(writer.take(piece({"content": "a"}) | {"choices": [{"index": 1, "delta": {"content": "b"}}]}))
    with pytest.raises(UpstreamFailed):
        ResponseWriter({}).whole({"choices": []})


def test_a_whole_answer_without_a_finish_reason_is_incomplete():
    found = ResponseWriter({}).whole({"id": "1", "choices": [{"index": 0, "message": {"content": "a"}}]})
    assert (found["status"], found["incomplete_details"]) == ("incomplete", None)


def test_usage_that_the_provider_did_not_count_is_absent():
    writer = ResponseWriter({})
    list(writer.take(piece({"content": "a"}, finish="stop")))
    assert list(writer.end())[-1]["response"]["usage"] is None


def test_members_nobody_knows_stay_with_the_message_or_else_with_the_response():
    events = events_of(
        piece({"content": "a", "vendor": 1}),
        piece({"tool_calls": [call(0, "f", "{}", id="c")]}),
        piece({"late": 2}),
    )
    assert events[-1]["response"]["output"][0]["vendor"] == 1
    assert events[-1]["response"]["late"] == 2


def test_an_event_is_named_and_is_one_line():
    out = encode_events([{"type": "response.created", "text": "a\nb"}])
    assert out == b'event: response.created\ndata: {"type":"response.created","text":"a\\nb"}\n\n'
    assert json.loads(out.partition(b"data: ")[2])["text"] == "a\nb"
