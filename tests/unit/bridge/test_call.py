"""The nouns of a call: what usage counts as."""

from __future__ import annotations

import json

import msgspec

from osmosis_bridge.call import Record, Usage


def test_all_tokens_of_a_call_are_the_providers_total_where_it_gave_one() -> None:
    assert Usage(prompt_tokens=10, completion_tokens=5, total_tokens=40).total == 40
    assert Usage(prompt_tokens=10, completion_tokens=5, total_tokens=0).total == 0


def test_all_tokens_of_a_call_are_prompt_and_completion_where_there_is_no_total() -> None:
    assert Usage(prompt_tokens=10, completion_tokens=5).total == 15
    assert Usage(completion_tokens=5).total == 5


def test_the_context_is_prompt_and_completion_or_the_total_where_that_is_larger() -> None:
    assert Usage(prompt_tokens=10, completion_tokens=5, total_tokens=12).context == 15
    assert Usage(prompt_tokens=10, completion_tokens=5, total_tokens=40).context == 40
    assert Usage().context == 0


def test_absent_values_are_left_out_of_a_record() -> None:
    record = Record(
        call_id="c", rollout_id="r", seq=1, started_at="t", duration_ms=1.5, status="ok", dialect="chat", lane="wire",
        model="m", provider="p", usage=Usage(total_tokens=3),
    )  # fmt: skip
    assert json.loads(msgspec.json.encode(record)) == {
        "call_id": "c", "rollout_id": "r", "seq": 1, "started_at": "t", "duration_ms": 1.5, "status": "ok",
        "dialect": "chat", "lane": "wire", "model": "m", "provider": "p", "usage": {"total_tokens": 3},
    }  # fmt: skip
