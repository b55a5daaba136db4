"""What a model thought in earlier turns of a rollout, for frameworks that do not send it back.

Some providers want the signed reasoning of a turn again when the turn is sent again, and refuse or answer worse without
it; agent frameworks often keep the OpenAI fields only. So what a reply carried is kept for its rollout, found again by
the turn's tool calls or its text, and put back where it is missing. Bounded; the rollout least recently used goes
first. Pure, and knows no provider.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, cast

from osmosis_bridge.native.jsontree import Json, as_items, as_object

KEPT: Final = ("thinking_blocks", "provider_specific_fields")
_TurnKey = tuple[str, ...]


class ReasoningMemory:
    """Keeps the reasoning of replies by rollout; at most `rollouts` of them, and `turns` of each."""

    def __init__(self, rollouts: int = 2000, turns: int = 256) -> None:
        self._rollouts: OrderedDict[str, OrderedDict[_TurnKey, dict[str, Json]]] = OrderedDict()
        self._most_rollouts = rollouts
        self._most_turns = turns

    def keep(self, rollout_id: str, message: Mapping[str, Json]) -> None:
        """Remember what `message`, the assistant's of a reply, carries beside its text and calls."""
        kept = {name: message[name] for name in KEPT if message.get(name)}
        calls = {
            str(call.get("id")): call["provider_specific_fields"]
            for call in cast("list[dict[str, Json]]", message.get("tool_calls") or [])
            if call.get("provider_specific_fields")
        }
        key = _key(message)
        if key is None or not (kept or calls):
            return
        turns = self._rollouts.setdefault(rollout_id, OrderedDict())
        self._rollouts.move_to_end(rollout_id)
        turns[key] = kept | ({"calls": calls} if calls else {})
        turns.move_to_end(key)
        if len(turns) > self._most_turns:
            turns.popitem(last=False)
        if len(self._rollouts) > self._most_rollouts:
            self._rollouts.popitem(last=False)

    def restore(self, rollout_id: str, messages: Json) -> Json:
        """`messages` with what is missing in the assistant's turns put back; the same object where nothing is."""
        turns = self._rollouts.get(rollout_id)
        if not turns or not isinstance(messages, list):
            return messages
        self._rollouts.move_to_end(rollout_id)
        return [_restored(message, turns) for message in cast("list[Json]", messages)]

    def forget(self, rollout_id: str) -> None:
        """The rollout is over."""
        self._rollouts.pop(rollout_id, None)


def _restored(message: Json, turns: Mapping[_TurnKey, dict[str, Json]]) -> Json:
    turn = as_object(message)
    if turn.get("role") != "assistant":
        return message
    key = _key(turn)
    kept = turns.get(key) if key is not None else None
    if kept is None:
        return turn
    full = turn | {name: kept[name] for name in KEPT if name in kept and not turn.get(name)}
    calls: Mapping[str, Json] = kept.get("calls", {})
    if calls and turn.get("tool_calls"):
        full["tool_calls"] = [
            call
            if call.get("provider_specific_fields") or call.get("id") not in calls
            else call | {"provider_specific_fields": calls[call["id"]]}
            for call in cast("list[dict[str, Json]]", turn["tool_calls"])
        ]
    return full


def _key(message: Mapping[str, Json]) -> _TurnKey | None:
    """What a turn is known by: the ids of its calls, else its text."""
    calls = as_items(message.get("tool_calls"))
    if calls:
        return ("calls", *(str(as_object(call).get("id")) for call in calls))
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(str(as_object(part).get("text", "")) for part in as_items(content))
    return ("text", content.strip()) if isinstance(content, str) and content.strip() else None
