"""The latest call of each open rollout: kept within bounds, read when asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fakes import a_call
from osmosis_bridge.call import Call
from osmosis_bridge.transcripts import Told, Transcripts, shortened


def call(rollout_id: str = "r-1", text: str = "q", **fields: Any) -> Call:
    body = json.dumps({"messages": [{"role": "user", "content": text}], **fields}).encode()
    return a_call(body, rollout_id=rollout_id)


def reply(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


def said(told: Told) -> list[str]:
    return [message["content"] for message in told.messages]


def test_the_latest_call_takes_the_place_of_the_one_before() -> None:
    kept = Transcripts()
    for text in ("one", "two"):
        transcript = kept.begin(call(text=text), stream=False)
        kept.add("r-1", transcript, reply(f"to {text}"))
        transcript.ended_well = True
    assert said(kept.tell("r-1")) == ["two", "to two"]
    assert kept.tell("r-1").complete
    assert len(kept) == 1


def test_a_call_without_an_answer_is_not_complete() -> None:
    kept = Transcripts()
    kept.begin(call(), stream=False)
    assert kept.tell("r-1") == Told([{"role": "user", "content": "q"}], complete=False)
    assert kept.tell("never seen") == Told([], complete=False)


def test_a_reply_of_an_earlier_call_is_passed_over() -> None:
    kept = Transcripts()
    earlier = kept.begin(call(text="one"), stream=False)
    kept.begin(call(text="two"), stream=False)
    kept.add("r-1", earlier, reply("to one"))
    assert said(kept.tell("r-1")) == ["two"]


def test_a_closed_rollout_is_forgotten() -> None:
    kept = Transcripts()
    transcript = kept.begin(call(), stream=False)
    kept.forget("r-1")
    kept.forget("r-1")
    kept.add("r-1", transcript, reply("late"))
    assert kept.tell("r-1").messages == []
    assert (len(kept), kept._bytes) == (0, 0)


def test_a_reply_beyond_the_bound_is_cut_and_not_complete() -> None:
    kept = Transcripts(largest=1000)
    transcript = kept.begin(call(), stream=True)
    for text in ("a", "b" * 2000, "c"):
        piece = b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"
        kept.add("r-1", transcript, piece)
    transcript.ended_well = True
    assert said(kept.tell("r-1")) == ["q", "a"]
    assert not kept.tell("r-1").complete


def test_a_long_conversation_keeps_its_first_and_its_last_messages() -> None:
    messages = [{"role": "user", "content": f"{number} " + "x" * 90} for number in range(40)]
    body = json.dumps({"messages": messages, "tools": ["t" * 500]}).encode()
    kept = Transcripts(largest=1000)
    kept.begin(a_call(body, rollout_id="r-1"), stream=False).ended_well = True
    told = kept.tell("r-1")
    numbers = [int(text.split()[0]) for text in said(told)]
    assert numbers[0] == 0
    assert numbers[1:] == list(range(40 - len(numbers) + 1, 40))
    assert len(numbers) > 3
    assert not told.complete
    assert kept._bytes <= 1000


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"messages":7}', b'{"messages":"x"}', b'{"messages":[' + b"[" * 5000]
)
def test_a_body_that_cannot_be_shortened_is_kept_as_nothing(body: bytes) -> None:
    assert shortened("chat", body, 10) == b"{}"


def test_the_lists_of_other_dialects_are_shortened_under_their_names() -> None:
    body = json.dumps({"input": [{"role": "user", "content": "x" * 50}, {"role": "user", "content": "y"}]})
    assert json.loads(shortened("responses", body.encode(), 80)) == {
        "input": [{"role": "user", "content": "y"}]
    }


def test_the_rollout_that_called_least_recently_goes_first() -> None:
    size = len(call("r-0").body)
    kept = Transcripts(keep=3 * size)
    for name in ("r-0", "r-1", "r-2", "r-0", "r-3"):
        kept.begin(call(name), stream=False)
    assert [name for name in ("r-0", "r-1", "r-2", "r-3") if kept.tell(name).messages] == [
        "r-0",
        "r-2",
        "r-3",
    ]
    kept.add("r-3", kept.begin(call("r-3"), stream=False), b"x" * size)
    assert [name for name in ("r-0", "r-2", "r-3") if kept.tell(name).messages] == ["r-0", "r-3"]
    assert kept._bytes == sum(transcript.size for transcript in kept._kept.values())
