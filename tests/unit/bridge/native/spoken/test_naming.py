"""The words in which a client is told of its own request."""

from __future__ import annotations

import pytest

from osmosis_bridge.errors import Refused, UpstreamFailed
from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.outgoing import FieldRow
from osmosis_bridge.native.plan import Unsupported
from osmosis_bridge.native.spoken.naming import client_place, client_rows, in_words_of
from spoken_plainly import Plainly

SOURCES = {"messages": "input", "messages[0].content": "system", "max_tokens": "max_output_tokens"}


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("max_tokens", "max_output_tokens"),
        ("messages[0].content", "system"),
        ("messages[0].content[2].text", "system[2].text"),
        ("messages[0].name", "input[0].name"),
        ("messages[10].content", "input[10].content"),
        ("temperature", "temperature"),
        ("max_tokens_of_mine", "max_tokens_of_mine"),
        ("", ""),
    ],
)
def test_a_place_is_told_by_the_longest_name_that_fits(place: str, told: str):
    assert client_place(place, SOURCES) == told


def test_a_refusal_names_the_client_s_field_in_its_param_and_its_message():
    with pytest.raises(Refused) as caught, in_words_of(Plainly({"limit": 3})):
        raise Refused("max_tokens cannot be sent: no", code="c", status=422, param="max_tokens")
    told = caught.value
    assert (told.message, told.param, told.code, told.status) == (
        "limit cannot be sent: no", "limit", "c", 422,
    )  # fmt: skip


def test_a_refusal_of_several_fields_names_each_as_the_client_does():
    fields = {"max_tokens": "too many", "messages[0].name": "no place", "seed": "none"}
    with pytest.raises(Unsupported) as caught, in_words_of(Plainly({"limit": 3})):
        raise Unsupported(fields, ANTHROPIC)
    told = caught.value
    assert next(iter(told.fields)) == told.param == "limit"
    assert list(told.fields.values()) == list(fields.values())
    assert "anthropic dialect" in told.message
    assert "max_tokens" not in told.message


def test_a_message_that_does_not_begin_with_the_field_is_left_as_it_is():
    with pytest.raises(Refused) as caught, in_words_of(Plainly({})):
        raise Refused("there is no max_tokens here", param="max_tokens")
    assert (caught.value.message, caught.value.param) == ("there is no max_tokens here", "limit")


@pytest.mark.parametrize(
    "error", [Refused("no field"), UpstreamFailed("m", param="max_tokens"), KeyError("max_tokens")]
)
def test_what_is_no_refusal_of_a_field_passes_as_it_is(error: Exception):
    with pytest.raises(type(error)) as caught, in_words_of(Plainly({})):
        raise error
    assert caught.value is error


def test_chat_s_own_refusals_pass_as_they_are():
    with pytest.raises(Refused) as caught, in_words_of(None):
        raise Refused("max_tokens cannot be sent", param="max_tokens")
    assert caught.value.param == "max_tokens"


def test_rows_have_the_client_s_names_and_every_field_of_the_conversation_has_one():
    fields = {"words": "w", "rules": "r", "limit": 3, "mood": None, "stream": True, "model": "m"}
    rows = [
        FieldRow("stream_options", "left out"),
        FieldRow("max_tokens", "moved to", "config.limit"),
        FieldRow("messages", "value changed", "contents"),
    ]
    told = {row.field: row for row in client_rows(rows, Plainly(fields), fields)}
    assert told.keys() == {"limit", "words", "rules", "mood"}
    assert told["limit"].at == "config.limit"
    assert (told["rules"].became, told["rules"].why) == ("moved to", "it is said within the conversation")
    assert (told["mood"].became, told["mood"].why) == ("left out", "it says nothing")


def test_stream_options_that_the_client_wrote_keep_their_row():
    fields = {"words": "w", "stream_options": {}}
    rows = client_rows([FieldRow("stream_options", "left out")], Plainly(fields), fields)
    assert "stream_options" in {row.field for row in rows}
