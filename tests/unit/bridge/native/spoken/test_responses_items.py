"""Items in the making: what they show, and the events that tell of them."""

from __future__ import annotations

from osmosis_bridge.native.spoken.responses_items import (
    CallItem,
    ImageItem,
    MessageItem,
    ReasoningItem,
    arguments_text,
    flat_annotation,
    full_logprobs,
)


def test_a_message_opens_a_part_for_each_kind_of_text_and_closes_it():
    item = MessageItem(0, "msg")
    said = [*item.opened(), *item.add_text("a", []), *item.add_text("b", []), *item.add_refusal("no", [])]
    said += item.closed("completed")
    assert [kind.removeprefix("response.") for kind, _ in said] == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "content_part.added",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
        "output_item.done",
    ]
    assert said[1][1]["part"] == {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    assert said[4][1]["text"] == "ab"
    assert item.shown("completed")["content"] == [
        {"type": "output_text", "text": "ab", "annotations": [], "logprobs": []},
        {"type": "refusal", "refusal": "no"},
    ]


def test_the_part_that_was_told_of_first_does_not_change_afterwards():
    item = MessageItem(0, "msg")
    token = {"token": "a", "logprob": -1.0, "bytes": [], "top_logprobs": []}
    said = [*item.add_text("a", [token]), *item.annotate({"type": "url_citation", "url": "u"})]
    assert said[0][1]["part"]["logprobs"] == []
    assert said[0][1]["part"]["annotations"] == []
    assert [fields["annotation_index"] for kind, fields in said if "annotation.added" in kind] == [0]
    part = item.shown("completed")["content"][0]
    assert part["logprobs"] == [token]
    assert part["annotations"] == [{"type": "url_citation", "url": "u"}]


def test_what_nobody_knows_of_a_message_stands_on_its_item_and_never_over_its_own_members():
    item = MessageItem(0, "msg")
    item.rest = {"vendor": 1, "id": "theirs"}
    assert item.shown("completed")["vendor"] == 1
    assert item.shown("completed")["id"] == "msg"


def test_reasoning_shows_a_summary_and_carries_what_makes_it_valid():
    item = ReasoningItem(0, "rs")
    said = [*item.opened(), *item.add("a"), *item.add("b"), *item.closed("completed")]
    assert [kind.removeprefix("response.") for kind, _ in said] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    assert said[-1][1]["item"]["summary"] == [{"type": "summary_text", "text": "ab"}]
    assert "encrypted_content" not in said[-1][1]["item"]
    item.turn["thinking_blocks"] = [{"type": "redacted_thinking", "data": "x"}]
    assert item.shown("completed")["encrypted_content"].startswith("osmosis.1.")


def test_a_call_shows_its_arguments_once_they_are_whole():
    item = CallItem(1, "fc", "c1", "f", custom=False)
    said = [*item.opened(), *item.add("{"), *item.add("}"), *item.closed("completed")]
    assert [kind.removeprefix("response.") for kind, _ in said] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert said[0][1]["item"]["arguments"] == ""
    assert said[3][1] == {"item_id": "fc", "output_index": 1, "name": "f", "arguments": "{}"}
    assert said[-1][1]["item"]["arguments"] == "{}"


def test_a_custom_call_has_an_input():
    item = CallItem(1, "ctc", "c1", "f", custom=True)
    said = [*item.add("select"), *item.closed("completed")]
    assert [kind for kind, _ in said][:2] == [
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
    ]
    assert said[-1][1]["item"]["input"] == "select"


def test_an_image_is_its_data():
    item = ImageItem(0, "ig", {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAA"}})
    assert item.shown("in_progress")["result"] is None
    assert item.shown("completed")["result"] == "AAA"


def test_notes_and_log_probabilities_have_responses_shapes():
    nested = {"type": "url_citation", "url_citation": {"url": "u", "start_index": 0}}
    assert flat_annotation(nested) == {"type": "url_citation", "url": "u", "start_index": 0}
    assert flat_annotation({"type": "x", "y": 1}) == {"type": "x", "y": 1}
    assert full_logprobs([{"token": "a", "logprob": -1, "bytes": None}]) == [
        {"token": "a", "logprob": -1, "bytes": [], "top_logprobs": []}
    ]


def test_arguments_are_text_whatever_a_provider_made_of_them():
    assert arguments_text(None) == ""
    assert arguments_text("{}") == "{}"
    assert arguments_text({"a": 1}) == '{"a": 1}'
