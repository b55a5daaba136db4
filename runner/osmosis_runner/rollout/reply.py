"""The terminal reply of `GET /rollout/{id}/result`, as bytes. Pure.

`err_phase`, `err_traceback`, `timed_out`, `blocked_ms` and `blocked_at` are ours; other supervisors ignore them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from osmosis_runner.rollout.jsonable import json_ready

if TYPE_CHECKING:
    from osmosis_runner.rollout.agent import Message, Sample
    from osmosis_runner.rollout.execution import Conclusion

_encoder = msgspec.json.Encoder()


def encode_reply(rollout_id: str, conclusion: Conclusion) -> bytes:
    """The reply as it is sent. Values that JSON cannot say are left out; the reward always arrives."""
    failure = conclusion.failure
    reply: dict[str, Any] = {
        "rollout_id": rollout_id,
        "status": conclusion.status.value,
        "sample": None if conclusion.sample is None else _sample(conclusion.sample, conclusion),
        "err_message": json_ready(failure.message) if failure else None,
        "err_category": failure.category if failure else None,
    }
    if failure is not None:
        reply["err_phase"] = failure.phase
        reply["err_traceback"] = json_ready(failure.traceback)
    if conclusion.overrun is not None:
        reply["timed_out"] = True
    return _encoder.encode(reply)


def _sample(sample: Sample, conclusion: Conclusion) -> dict[str, Any]:
    return {
        "messages": _messages(sample.messages),
        "label": conclusion.label,
        "reward": conclusion.reward,
        "remove_sample": bool(sample.remove_sample),
        "metrics": json_ready(sample.metrics),
        "extra_fields": json_ready(sample.info),
    }


def _messages(messages: list[Message]) -> msgspec.Raw:
    try:
        return msgspec.Raw(_encoder.encode(messages))
    except (TypeError, ValueError, RecursionError):
        # Rare: something in there is no JSON. Walking long transcripts in Python is kept for this case.
        return msgspec.Raw(_encoder.encode(json_ready(messages)))
