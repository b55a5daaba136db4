"""How many rollouts are in flight at a time: what the user asks for, within what the rollout server takes. Pure."""

from __future__ import annotations

RAISES = "--max-in-flight N or evaluation.batch_size"


def places(asked: int | None, capacity: int | None) -> int:
    """Rollouts at a time; one where neither the user nor the server names a number."""
    return max(1, min(asked or capacity or 1, capacity or asked or 1))


def told(pending: int, asked: int | None, capacity: int | None) -> str:
    """The stage line that says so, and why it is fewer than one might expect."""
    number = places(asked, capacity)
    text = f"running {pending} work items, up to {number} in flight"
    if asked is not None and number < asked:
        return f"{text} ({asked} asked for, the rollout server takes {number} at a time)"
    if asked is None and capacity is None and pending > 1:
        return f"{text} (the rollout server names no number; {RAISES} runs more at once)"
    return text
