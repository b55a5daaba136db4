"""How an attempt failed, in words for people: what broke, and the kind of error where that says more. Pure."""

from __future__ import annotations

PLACES = {
    "launch": "the start",
    "admission": "admission by the rollout server",
    "agent": "agent",
    "grader": "grader",
    "result": "the result",
    "server": "rollout server",
    "provider": "model call",
}
"""What `error_phase` means."""

RAISED = "agent_error"
"""The protocol's word for an exception of the author's code, in whichever phase it was raised."""

_VERBS = {"timeout": "timed out", "cancelled": "was cancelled"}


def failure_words(error_type: str | None, error_phase: str | None) -> str:
    """Return words such as `grader failed`, `agent timed out` or `grader failed (validation_error)`.

    Without a phase that is the type.
    """
    place = PLACES.get(error_phase or "")
    if place is None:
        return error_type or "failed"
    if error_type in _VERBS:
        return f"{place} {_VERBS[error_type]}"
    tells_more = error_type not in (None, RAISED, f"{error_phase}_error")
    return f"{place} failed" + (f" ({error_type})" if tells_more else "")
