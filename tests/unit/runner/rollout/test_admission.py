from __future__ import annotations

import json
from typing import Any

import pytest

from osmosis_runner.rollout.admission import Refused, is_path_segment, read_request

GOOD: dict[str, Any] = {
    "rollout_id": "a1",
    "initial_messages": [{"role": "user", "content": "hi"}],
    "chat_completions_url": "http://127.0.0.1:1/v1",
}


def test_only_three_fields_are_needed_and_unknown_ones_are_ignored() -> None:
    request = read_request(json.dumps({**GOOD, "future": 1}).encode())
    assert request.rollout_id == "a1"
    assert request.grade is True
    assert request.agent_timeout_sec is None


def test_big_integers_of_metadata_arrive_exactly() -> None:
    request = read_request(json.dumps({**GOOD, "metadata": {"id": 12345678901234567890123}}).encode())
    assert request.metadata == {"id": 12345678901234567890123}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"rollout_id": "../x"}, "rollout_id"),
        ({"rollout_id": ""}, "rollout_id"),
        ({"rollout_id": 5}, "rollout_id"),
        ({"initial_messages": "hi"}, "initial_messages"),
        ({"initial_messages": ["hi"]}, "initial_messages"),
        ({"llm_api_key": ""}, "llm_api_key"),
        ({"agent_timeout_sec": "soon"}, "agent_timeout_sec"),
        ({"grade": 1}, "grade"),
    ],
)
def test_a_wrong_field_is_refused_by_name(change: dict[str, Any], names: str) -> None:
    with pytest.raises(Refused, match=names):
        read_request(json.dumps({**GOOD, **change}).encode())


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"rollout_id":"a"}', b'{"a": NaN}', b"\xff"])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        read_request(body)


@pytest.mark.parametrize("text", ["a", "A-1_b.c", "ü", "x" * 200])
def test_a_segment_may_name_a_folder(text: str) -> None:
    assert is_path_segment(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a\\b", "a\nb", "a\0", "x" * 201])
def test_what_could_leave_its_folder_is_no_segment(text: str) -> None:
    assert not is_path_segment(text)
