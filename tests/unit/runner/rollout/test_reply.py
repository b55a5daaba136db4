from __future__ import annotations

import json

from osmosis_runner.rollout.agent import Sample
from osmosis_runner.rollout.execution import Conclusion, Failure
from osmosis_runner.rollout.registry import Status
from osmosis_runner.rollout.reply import encode_reply


def test_a_success_carries_its_sample_and_no_error() -> None:
    sample = Sample([{"role": "user", "content": "hi"}], metrics={"x": 1.5}, info={"k": [1]})
    reply = json.loads(encode_reply("r1", Conclusion(Status.SUCCESS, sample, "7", 0.5)))
    assert reply == {
        "rollout_id": "r1",
        "status": "success",
        "sample": {
            "messages": [{"role": "user", "content": "hi"}],
            "label": "7",
            "reward": 0.5,
            "remove_sample": False,
            "metrics": {"x": 1.5},
            "extra_fields": {"k": [1]},
        },
        "err_message": None,
        "err_category": None,
    }


def test_a_failure_says_where_and_why() -> None:
    failure = Failure("agent_error", "RuntimeError: x", "grader", "Traceback ...")
    reply = json.loads(encode_reply("r1", Conclusion(Status.FAILURE, None, None, failure=failure)))
    assert reply["sample"] is None
    assert (reply["err_category"], reply["err_message"]) == ("agent_error", "RuntimeError: x")
    assert (reply["err_phase"], reply["err_traceback"]) == ("grader", "Traceback ...")


def test_values_that_are_no_json_never_cost_the_reward() -> None:
    sample = Sample(
        [{"role": "user", "content": "half \ud800", "object": object()}],
        metrics={"nan": float("nan"), "good": 1},
        info={"set": {1, 2}, "object": object()},
    )
    reply = json.loads(encode_reply("r1", Conclusion(Status.SUCCESS, sample, None, 1.0)))
    assert reply["sample"]["reward"] == 1.0
    assert reply["sample"]["metrics"] == {"good": 1}
    assert reply["sample"]["messages"] == [{"role": "user", "content": "half \ufffd"}]
