"""What a supervisor asks for with `POST /rollout`: the body as one checked value.

Knows the fields and their limits (the rollout protocol, fingerprint 0.4), and nothing of HTTP or of running.
"""

from __future__ import annotations

from typing import Any

import msgspec

MAX_ID_LENGTH = 200


class Refused(Exception):
    """The body is not a rollout request; the text says where and why."""


class RolloutRequest(msgspec.Struct, frozen=True, gc=False):
    """One rollout to run. Unknown fields of the body are ignored.

    Time-outs are seconds: None is unbounded, zero or less has already expired.
    """

    rollout_id: str
    initial_messages: list[dict[str, Any]]
    chat_completions_url: str
    llm_api_key: str | None = None
    label: str | None = None
    metadata: dict[str, Any] | None = None
    grade: bool = True
    agent_timeout_sec: float | None = None
    grader_timeout_sec: float | None = None
    extra_fields: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(RolloutRequest)


def read_request(body: bytes) -> RolloutRequest:
    """Decode and check a body; raises `Refused`."""
    try:
        request = _decoder.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Refused(str(error)) from None
    if not is_path_segment(request.rollout_id):
        raise Refused("rollout_id must be a single path segment of 1 to 200 printable characters")
    if request.llm_api_key == "":
        raise Refused("llm_api_key must be omitted or a non-empty string")
    return request


def is_path_segment(text: str) -> bool:
    """Whether the text may name one folder: no separators, no control characters, not `.` or `..`."""
    if not 0 < len(text) <= MAX_ID_LENGTH or text in (".", ".."):
        return False
    return text.isprintable() and "/" not in text and "\\" not in text
