"""The response object: its envelope, its end, its usage."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response

from osmosis_bridge.native.spoken.responses_reply import ending_of, name_of, response_of, usage_of

ENVELOPE = {
    "id": "chatcmpl-7",
    "created": 5,
    "model": "m",
    "object": "chat.completion",
    "vendor": {"kept": True},
}
USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 1},
}


def test_a_response_is_what_openai_s_types_want():
    asked = {
        "tools": [],
        "tool_choice": "auto",
        "metadata": {"a": "b"},
        "instructions": "be",
        "temperature": 0.5,
    }
    found = response_of(ENVELOPE | {"usage": USAGE}, asked, [], ending_of("stop"))
    read = Response.model_validate(found, strict=True)
    assert (read.id, read.status, read.model) == ("resp_7", "completed", "m")
    assert (read.metadata, read.instructions, read.temperature) == ({"a": "b"}, "be", 0.5)
    assert found["vendor"] == {"kept": True}
    assert found["store"] is False


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("pause_turn", "incomplete", "pause_turn"),
        (None, "incomplete", None),
    ],
)
def test_how_a_response_ends(finish: Any, status: str, reason: Any):
    ending = ending_of(finish)
    assert ending.status == status
    assert (ending.details or {}).get("reason") == reason


def test_usage_has_responses_names_and_what_was_not_counted_is_null():
    assert usage_of(USAGE | {"cost": 0.5}) == {
        "input_tokens": 3,
        "output_tokens": 4,
        "total_tokens": 7,
        "cost": 0.5,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    found = usage_of({"prompt_tokens": 3})
    assert found == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": None, "cache_write_tokens": None},
        "output_tokens_details": {"reasoning_tokens": None},
    }
    assert usage_of(None) is None
    assert usage_of({}) is None


def test_ids_are_made_of_the_completion_s_own_and_are_never_null():
    assert name_of({"id": "chatcmpl-7"}) == "7"
    assert name_of({"id": "", "created": 5}) == "5"
    assert name_of({"id": None}) == "unnamed"


def test_the_provider_s_service_tier_stands_in_place_of_the_one_asked_for():
    asked = {"service_tier": "auto"}
    assert (
        response_of(ENVELOPE | {"service_tier": "flex"}, asked, [], ending_of("stop"))["service_tier"]
        == "flex"
    )
    assert response_of(ENVELOPE, asked, [], ending_of("stop"))["service_tier"] == "auto"
