"""Whether a conversation stands in what would be sent."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.arrival import check_sent, turns_row
from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.families.chat import CHAT
from osmosis_bridge.native.families.gemini import GEMINI

HI = {"role": "user", "content": "hi there"}


def call(arguments: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": arguments}}],
    }


def lost(messages: list[dict[str, Any]], body: dict[str, Any]) -> str | None:
    with pytest.raises(Refused) as caught:
        check_sent(messages, body, ANTHROPIC)
    assert caught.value.code == "unsupported_parameter"
    return caught.value.param


def test_a_text_arrives_by_itself_or_within_another() -> None:
    check_sent(
        [HI], {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi there"}]}]}, ANTHROPIC
    )
    check_sent(
        [HI | {"content": "hi there "}], {"messages": [{"role": "user", "content": "hi there"}]}, ANTHROPIC
    )
    assert lost([HI], {"messages": [{"role": "user", "content": "hi"}]}) == "messages[0].content"
    assert lost([HI], {"other": "hi there"}) == "messages[0].content"


def test_a_text_said_twice_arrives_twice() -> None:
    once = {"messages": [{"role": "user", "content": "hi there"}]}
    assert lost([HI, HI], once) == "messages[0].content"
    check_sent([HI, HI], {"messages": [{"role": "user", "content": "hi there\n\nhi there"}]}, ANTHROPIC)


def test_a_sentence_that_nobody_wrote_is_refused() -> None:
    body = {
        "messages": [{"role": "user", "content": "hi there"}, {"role": "user", "content": "Please continue."}]
    }
    assert lost([HI], body) == "messages"
    check_sent([HI], {"messages": [*body["messages"][:1], {"role": "user", "content": " "}]}, ANTHROPIC)


def test_arguments_arrive_as_their_text_or_as_their_value() -> None:
    name = {"role": "assistant", "content": "f"}
    check_sent(
        [call('{"a": 1}')], {"messages": [{"type": "tool_use", "name": "f", "input": {"a": 1}}]}, ANTHROPIC
    )
    check_sent([call('{"a": 1}')], {"messages": [{"name": "f", "arguments": '{"a": 1}'}]}, ANTHROPIC)
    check_sent([call('{"a": 1}')], {"messages": [{"name": "f", "arguments": '{"a":1}'}]}, ANTHROPIC)
    check_sent([call("{}")], {"messages": [{"name": "f"}]}, ANTHROPIC)
    assert name
    assert (
        lost([call('{"a": 1}')], {"messages": [{"name": "f", "input": {"a": 2}}]})
        == "messages[0].tool_calls[0].function.arguments"
    )


def test_a_result_that_is_json_may_arrive_as_its_value() -> None:
    turn = {"role": "tool", "tool_call_id": "c", "content": '{"sky": "blue"}'}
    check_sent([turn], {"contents": [{"response": {"sky": "blue"}}]}, GEMINI)
    with pytest.raises(Refused):
        check_sent([turn], {"contents": [{"response": {"sky": "red"}}]}, GEMINI)


def test_signatures_and_images_arrive() -> None:
    thought = {
        "role": "assistant",
        "content": "a",
        "thinking_blocks": [{"type": "thinking", "thinking": "x", "signature": "SIG"}],
    }
    assert (
        lost([thought], {"messages": [{"role": "assistant", "content": "a"}]})
        == "messages[0].thinking_blocks[0].signature"
    )
    image = {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
    }
    check_sent([image], {"messages": [{"source": {"data": "AAAA"}}]}, ANTHROPIC)
    assert lost([image], {"messages": []}) == "messages[0].content[0].image_url"


def test_every_cache_mark_arrives() -> None:
    marked = {
        "role": "user",
        "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
    }
    check_sent([marked], {"messages": [{"text": "a", "cache_control": {"type": "ephemeral"}}]}, ANTHROPIC)
    assert lost([marked], {"messages": [{"text": "a"}]}) == "messages.cache_control"


def test_openai_s_own_conversation_is_not_looked_at() -> None:
    check_sent([HI], {}, CHAT)


def test_turns_that_are_put_together_are_told() -> None:
    assert turns_row([HI, HI], {"messages": [1]}, ANTHROPIC).why is not None
    assert turns_row([{"role": "system", "content": "s"}, HI], {"messages": [1]}, ANTHROPIC).why is None
    assert turns_row([HI], {"messages": [1]}, CHAT).became == "forwarded"


def test_a_files_name_arrives_or_is_refused_by_name() -> None:
    file = {
        "file_data": "data:application/pdf;base64,QUJD",
        "filename": "report.pdf",
        "format": "application/pdf",
    }
    turn = {"role": "user", "content": [{"type": "file", "file": file}]}
    source = {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}
    sent: dict[str, Any] = {"type": "document", "source": source}
    named = sent | {"title": "report.pdf"}
    check_sent([turn], {"messages": [{"role": "user", "content": [named]}]}, ANTHROPIC)
    body = {"messages": [{"role": "user", "content": [sent]}]}
    assert lost([turn], body) == "messages[0].content[0].file.filename"
