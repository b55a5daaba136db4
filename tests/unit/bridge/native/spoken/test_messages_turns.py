"""The conversation of an Anthropic Messages request as chat messages."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.spoken.messages_turns import Conversation, say_conversation
from osmosis_bridge.native.spoken.naming import client_place

CACHE = {"type": "ephemeral"}
TEXT = {"type": "text", "text": "t"}
USE = {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1}}
CALL = {"id": "u1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}


def turns(*given: dict[str, Any], system: Any = None) -> list[dict[str, Any]]:
    return say_conversation(system, list(given)).turns


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def result(content: Any = "r", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "u1", "content": content, **more}


@pytest.mark.parametrize(
    ("system", "content"),
    [
        ("be brief", "be brief"),
        ([TEXT], "t"),
        ([TEXT, TEXT], [TEXT, TEXT]),
        ([TEXT | {"cache_control": CACHE}], [TEXT | {"cache_control": CACHE}]),
    ],
)
def test_the_system_prompt_is_the_first_message(system: Any, content: Any) -> None:
    first, second = turns({"role": "user", "content": "hi"}, system=system)
    assert first == {"role": "system", "content": content}
    assert second == {"role": "user", "content": "hi"}


def test_without_a_system_prompt_there_is_no_message_for_it() -> None:
    for system in (None, []):
        assert turns({"role": "user", "content": "hi"}, system=system) == [{"role": "user", "content": "hi"}]


def test_results_of_tools_are_messages_of_their_own_in_the_order_they_came() -> None:
    given = user(result("one"), result("two", tool_use_id="u2"), TEXT, result("three"), IMAGE, TEXT)
    roles = [(turn["role"], turn.get("tool_call_id")) for turn in turns(given)]
    assert roles == [("tool", "u1"), ("tool", "u2"), ("user", None), ("tool", "u1"), ("user", None)]
    assert [part["type"] for part in turns(given)[-1]["content"]] == ["image_url", "text"]


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (result("words"), "words"),
        (result(None), ""),
        (result([]), ""),
        (result([TEXT]), "t"),
        (
            result([TEXT, IMAGE]),
            [TEXT, {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}],
        ),
        (result("words", is_error=False), "words"),
        (result("words", is_error=True), "is_error: true\nwords"),
        (result(None, is_error=True), "is_error: true\n"),
        (result([TEXT], is_error=True), "is_error: true\nt"),
        (result([], is_error=True), "is_error: true"),
    ],
)
def test_a_result_is_said_with_whether_it_failed(block: dict[str, Any], content: Any) -> None:
    assert turns(user(block)) == [{"role": "tool", "tool_call_id": "u1", "content": content}]


def test_a_result_that_failed_and_is_an_image_says_so_in_front_of_it() -> None:
    (turn,) = turns(user(result([IMAGE], is_error=True)))
    assert [part.get("text") for part in turn["content"]] == ["is_error: true", None]


def test_what_stands_beside_a_result_stays_beside_it() -> None:
    (turn,) = turns(user(result("r", cache_control=CACHE)))
    assert turn["cache_control"] == CACHE


def test_an_assistant_s_turn_is_one_message_with_its_calls_and_thoughts_beside_its_text() -> None:
    signed = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    hidden = {"type": "redacted_thinking", "data": "QUJD"}
    (turn,) = turns(assistant(signed, hidden, TEXT, USE))
    assert turn == {
        "role": "assistant",
        "thinking_blocks": [signed, hidden],
        "content": "t",
        "tool_calls": [CALL],
    }


@pytest.mark.parametrize(
    ("signature", "field"),
    [
        ("", "reasoning_content"),
        (None, "reasoning_content"),
        ("unsigned:reasoning_content", "reasoning_content"),
        ("unsigned:reasoning", "reasoning"),
        ("unsigned:role", "reasoning_content"),
    ],
)
def test_a_thought_without_a_signature_goes_back_where_it_came_from(signature: Any, field: str) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": signature}
    assert turns(assistant(thought, TEXT)) == [{"role": "assistant", field: "hm", "content": "t"}]
    assert turns(assistant(thought, thought))[0][field] == "hm\nhm"


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({}, "{}"),
        (None, "{}"),
        ({"é": [1, None]}, '{"é": [1, null]}'),
        ("not {json", "not {json"),
        ([1], "[1]"),
    ],
)
def test_the_input_of_a_call_is_its_arguments(given: Any, arguments: str) -> None:
    (turn,) = turns(assistant(USE | {"input": given}))
    assert turn["content"] is None
    assert turn["tool_calls"][0]["function"]["arguments"] == arguments


def test_what_a_reply_put_beside_a_call_goes_back_beside_it() -> None:
    more = {"extra_content": {"google": {"thought_signature": "s"}}, "caller": {"type": "direct"}}
    (turn,) = turns(assistant(USE | more))
    assert turn["tool_calls"] == [CALL | {"extra_content": {"google": {"thought_signature": "s"}}}]


def test_a_turn_s_further_members_are_kept() -> None:
    assert turns({"role": "user", "content": "x", "name": "me"})[0]["name"] == "me"
    assert turns(user(TEXT, TEXT) | {"name": "me"})[0]["name"] == "me"
    assert turns(user(result()) | {"name": "me"})[0]["name"] == "me"
    assert turns(assistant(USE) | {"name": "me", "id": None})[0].keys() == {
        "role",
        "name",
        "content",
        "tool_calls",
    }


def test_an_empty_turn_stays_one() -> None:
    assert turns(user(), assistant()) == [
        {"role": "user", "content": []},
        {"role": "assistant", "content": []},
    ]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("hi", "messages"),
        ([1], "messages[0]"),
        ([{"role": "tool", "content": "x"}], "messages[0].role"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": [1]}], "messages[0].content[0]"),
        ([user({"type": "odd"})], "messages[0].content[0].type"),
        ([user(USE)], "messages[0].content[0].type"),
        ([assistant(result())], "messages[0].content[0].type"),
        ([user(result(is_error="yes"))], "messages[0].content[0].is_error"),
        ([user(result(tool_use_id=None))], "messages[0].content[0].tool_use_id"),
        ([user(result(3))], "messages[0].content[0].content"),
        ([user(result([{"type": "tool_reference"}]))], "messages[0].content[0].content[0].type"),
        ([assistant(USE | {"name": None})], "messages[0].content[0].name"),
        ([assistant(USE | {"caller": {"type": "code_execution"}})], "messages[0].content[0].caller"),
        ([assistant({"type": "thinking", "signature": "s"})], "messages[0].content[0].thinking"),
        ([assistant({"type": "redacted_thinking"})], "messages[0].content[0].data"),
        ([assistant(TEXT) | {"tool_calls": [CALL]}], "messages[0].tool_calls"),
        ([user(result(odd=1)) | {"odd": 2}], "messages[0].odd"),
        (
            [assistant({"type": "thinking", "thinking": "hm", "signature": "", "odd": 1})],
            "messages[0].content[0].odd",
        ),
    ],
)
def test_what_cannot_be_said_is_refused_by_its_place(given: Any, param: str) -> None:
    with pytest.raises(Refused) as caught:
        say_conversation(None, given)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("system", "param"),
    [(3, "system"), ([1], "system[0]"), ([IMAGE], "system[0].type"), ([{}], "system[0].type")],
)
def test_a_system_prompt_is_text(system: Any, param: str) -> None:
    with pytest.raises(Refused) as caught:
        say_conversation(system, [])
    assert caught.value.param == param


def conversation() -> Conversation:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    return say_conversation(
        [TEXT, TEXT],
        [user(TEXT), assistant(thought, TEXT, USE), user(result([TEXT, TEXT]), TEXT, IMAGE)],
    )


@pytest.mark.parametrize(
    ("place", "client"),
    [
        ("messages[0].content[1].cache_control", "system[1].cache_control"),
        ("messages[1].content", "messages[0].content[0]"),
        ("messages[2].thinking_blocks[0].signature", "messages[1].content[0].signature"),
        ("messages[2].content", "messages[1].content[1]"),
        ("messages[2].tool_calls[0].function.name", "messages[1].content[2].name"),
        ("messages[2].tool_calls[0].function.arguments", "messages[1].content[2].input"),
        ("messages[3].content[1]", "messages[2].content[0].content[1]"),
        ("messages[3].tool_call_id", "messages[2].content[0].tool_use_id"),
        ("messages[4].content[1].image_url", "messages[2].content[2].image_url"),
        ("messages[4].name", "messages[2].name"),
    ],
)
def test_every_place_leads_back_to_where_the_client_wrote_it(place: str, client: str) -> None:
    assert client_place(place, conversation().sources) == client
