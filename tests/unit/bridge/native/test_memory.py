"""Reasoning that is kept for a rollout and put back into its turns."""

from __future__ import annotations

from osmosis_bridge.native.memory import ReasoningMemory

BLOCKS = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_what_a_framework_dropped_is_put_back_by_the_ids_of_the_calls() -> None:
    memory = ReasoningMemory()
    memory.keep("r", {"content": None, "tool_calls": [CALL], "thinking_blocks": BLOCKS})
    turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [CALL]}]
    assert memory.restore("r", turns)[1]["thinking_blocks"] == BLOCKS
    assert "thinking_blocks" not in turns[1]


def test_a_turn_of_words_is_known_by_its_words() -> None:
    memory = ReasoningMemory()
    memory.keep("r", {"content": " yes ", "thinking_blocks": BLOCKS})
    parts = [{"type": "text", "text": "y"}, {"type": "text", "text": "es"}]
    for content in ("yes", parts):
        assert (
            memory.restore("r", [{"role": "assistant", "content": content}])[0]["thinking_blocks"] == BLOCKS
        )
    assert memory.restore("r", [{"role": "assistant", "content": "no"}]) == [
        {"role": "assistant", "content": "no"}
    ]
    assert memory.restore("r", [{"role": "user", "content": "yes"}]) == [{"role": "user", "content": "yes"}]


def test_a_call_s_own_signature_is_put_back_on_the_call() -> None:
    memory = ReasoningMemory()
    memory.keep("r", {"tool_calls": [CALL | {"provider_specific_fields": {"thought_signature": "s"}}]})
    restored = memory.restore("r", [{"role": "assistant", "tool_calls": [CALL]}])[0]
    assert restored["tool_calls"][0]["provider_specific_fields"] == {"thought_signature": "s"}


def test_what_the_client_sent_itself_stands() -> None:
    memory = ReasoningMemory()
    memory.keep("r", {"content": "a", "thinking_blocks": BLOCKS})
    mine = [{"type": "thinking", "thinking": "mine", "signature": "t"}]
    turn = {"role": "assistant", "content": "a", "thinking_blocks": mine}
    assert memory.restore("r", [turn]) == [turn]


def test_rollouts_do_not_share_and_the_oldest_is_forgotten_first() -> None:
    memory = ReasoningMemory(rollouts=2, turns=1)
    for rollout in ("a", "b"):
        memory.keep(rollout, {"content": rollout, "thinking_blocks": BLOCKS})
    memory.restore("a", [])
    memory.keep("c", {"content": "c", "thinking_blocks": BLOCKS})
    asked = {
        rollout: memory.restore(rollout, [{"role": "assistant", "content": rollout}]) for rollout in "abc"
    }
    assert ["thinking_blocks" in turns[0] for turns in asked.values()] == [True, False, True]
    memory.keep("a", {"content": "a2", "thinking_blocks": BLOCKS})
    assert "thinking_blocks" not in memory.restore("a", [{"role": "assistant", "content": "a"}])[0]
    memory.forget("a")
    assert "thinking_blocks" not in memory.restore("a", [{"role": "assistant", "content": "a2"}])[0]


def test_a_reply_that_carries_nothing_is_not_kept() -> None:
    memory = ReasoningMemory()
    memory.keep("r", {"content": "a"})
    memory.keep("r", {"content": "", "thinking_blocks": BLOCKS})
    messages: list[object] = []
    assert memory.restore("r", messages) is messages
    assert memory.restore("r", "odd") == "odd"
