"""A chat completion as an Anthropic message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from osmosis_bridge.call import Usage
from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.spoken.messages_reply import input_of, message_of, stop_of, usage_of
from osmosis_bridge.usage import MessagesUsage


def message(said: dict[str, Any] | None = None, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **(said or {})}, "finish_reason": finish}
    return message_of(
        {"id": "c-1", "object": "o", "created": 1, "model": "m", "choices": [choice], **more}, ()
    )


def call(arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"id": "u1", "type": "function", "function": {"name": "add", "arguments": arguments}, **more}


def test_a_text_is_a_message() -> None:
    assert message({"content": "hi"}) == {
        "id": "c-1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": None, "output_tokens": None},
    }


@pytest.mark.parametrize(
    ("said", "content"),
    [
        ({"content": None}, []),
        ({"content": ""}, []),
        ({"content": "a", "refusal": "no"}, [{"type": "text", "text": "a"}, {"type": "text", "text": "no"}]),
        (
            {"content": "a", "reasoning_content": "hm"},
            [
                {"type": "thinking", "thinking": "hm", "signature": "unsigned:reasoning_content"},
                {"type": "text", "text": "a"},
            ],
        ),
        (
            {"reasoning": "hm"},
            [{"type": "thinking", "thinking": "hm", "signature": "unsigned:reasoning"}],
        ),
        (
            {
                "reasoning_content": "hm",
                "thinking_blocks": [
                    {"type": "thinking", "thinking": "hm", "signature": "s", "index": 0},
                    {"type": "redacted_thinking", "data": "d"},
                ],
            },
            [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
            ],
        ),
        (
            {"thinking_blocks": [{"type": "thinking", "thinking": "hm"}]},
            [{"type": "thinking", "thinking": "hm", "signature": "unsigned:reasoning_content"}],
        ),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    "a",
                    {"type": "odd"},
                ]
            },
            [
                {"type": "thinking", "thinking": "hm", "signature": "unsigned:reasoning_content"},
                {"type": "text", "text": "a"},
                {"type": "odd"},
            ],
        ),
        (
            {
                "tool_calls": [
                    call('{"a": 1}', index=0, provider_specific_fields={"x": 1}, extra_content={"g": 1})
                ]
            },
            [{"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1}, "extra_content": {"g": 1}}],
        ),
        (
            {"tool_calls": [call(id=None), call(id="")]},
            [
                {"type": "tool_use", "id": "c-1-0", "name": "add", "input": {}},
                {"type": "tool_use", "id": "c-1-1", "name": "add", "input": {}},
            ],
        ),
    ],
)
def test_what_was_said_is_content(said: dict[str, Any], content: list[dict[str, Any]]) -> None:
    assert message(said)["content"] == content


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ('{"a": [1, 2.5, "x", null, true]}', {"a": [1, 2.5, "x", None, True]}),
        ("", {}),
        (" ", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ("[1]", [1]),
        ('{"big": 123456789012345678901234567890}', {"big": 123456789012345678901234567890}),
        ('{"a": ', '{"a": '),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1e999}', '{"a": 1e999}'),
        ("words", "words"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_an_input_is_the_value_of_its_text_or_the_text_that_has_none(arguments: Any, value: Any) -> None:
    assert input_of(arguments) == value


@pytest.mark.parametrize(
    ("finish", "by", "calls", "stop"),
    [
        ("stop", None, False, ("end_turn", None)),
        ("stop", None, True, ("tool_use", None)),
        ("stop", "END", False, ("stop_sequence", "END")),
        (None, "END", False, ("stop_sequence", "END")),
        ("stop", "another", False, ("end_turn", None)),
        ("stop", 151645, False, ("end_turn", None)),
        ("length", "END", True, ("max_tokens", None)),
        ("tool_calls", None, True, ("tool_use", None)),
        ("content_filter", None, False, ("refusal", None)),
        ("never_heard_of", None, False, ("never_heard_of", None)),
        (None, None, False, (None, None)),
    ],
)
def test_why_it_stopped_is_said_in_anthropic_s_words(finish: Any, by: Any, calls: bool, stop: Any) -> None:
    assert stop_of(finish, by, {"END"}, calls=calls) == stop


def test_what_has_no_place_keeps_its_name_beside_the_message() -> None:
    made = message(
        {"content": "a", "annotations": [1], "audio": None, "provider_specific_fields": {"x": 1}},
        service_tier="default",
        type="odd",
    )
    assert (made["annotations"], made["service_tier"], made["type"]) == ([1], "default", "message")
    assert made.keys().isdisjoint({"audio", "provider_specific_fields", "object", "created", "choices"})


@pytest.mark.parametrize("choices", [[], [{"message": {}}, {"message": {}}]])
def test_a_message_is_one_answer(choices: list[Any]) -> None:
    with pytest.raises(UpstreamFailed) as caught:
        message_of({"choices": choices}, ())
    assert caught.value.code == "invalid_upstream_reply"


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14},
            {"input_tokens": 10, "output_tokens": 4},
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 4,
                "total_tokens": 14,
                "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
            {
                "input_tokens": 5,
                "output_tokens": 4,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 2,
                "output_tokens_details": {"thinking_tokens": 1},
            },
        ),
        # A provider that counts what it read from its cache apart from the prompt.
        (
            {"prompt_tokens": 1, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}},
            {"input_tokens": 1, "output_tokens": 4},
        ),
        (
            {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 9, "cost": 0.5},
            {"input_tokens": 1, "output_tokens": 4, "total_tokens": 9, "cost": 0.5},
        ),
        ({"completion_tokens": 4, "total_tokens": 4}, {"input_tokens": None, "output_tokens": 4}),
        (None, {"input_tokens": None, "output_tokens": None}),
    ],
)
def test_usage_is_counted_as_anthropic_counts(given: Any, counts: dict[str, Any]) -> None:
    assert usage_of(given) == counts


@pytest.mark.parametrize(
    "counted",
    [
        Usage(10, 4, 14),
        Usage(10, 4, 14, 3, 2, 1),
        Usage(10, 0, 10, 10),
        Usage(1, 4, 9),
        Usage(None, 4, 4),
        Usage(3, None, 3),
    ],
)
def test_the_bridge_counts_from_it_what_the_provider_counted(counted: Usage) -> None:
    given = msgspec.to_builtins(counted)
    details = {name: given.pop(name) for name in ("cached_tokens", "cache_write_tokens") if name in given}
    thought = {"reasoning_tokens": given.pop("reasoning_tokens")} if "reasoning_tokens" in given else {}
    said = usage_of({**given, "prompt_tokens_details": details, "completion_tokens_details": thought})
    reading = MessagesUsage()
    reading.take(msgspec.json.encode({"input_tokens": 0, "output_tokens": 0}))
    reading.take(msgspec.json.encode(said))
    found = reading.read()[0]
    # What a stream begins with stays for what was never counted.
    expected = msgspec.structs.replace(
        counted, prompt_tokens=counted.prompt_tokens or 0, completion_tokens=counted.completion_tokens or 0
    )
    assert found == expected


def test_where_the_provider_counted_nothing_the_bridge_counts_nothing() -> None:
    reading = MessagesUsage()
    for part in ({"input_tokens": 0, "output_tokens": 0}, usage_of(None)):
        reading.take(msgspec.json.encode(part))
    assert reading.read() == (None, None)
