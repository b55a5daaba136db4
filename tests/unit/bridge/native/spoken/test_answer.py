"""An answer on its way back through a translation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.native.spoken.answer import Answer, BrokenOff
from osmosis_bridge.redact import Redactor
from spoken_plainly import Plainly, line

DONE = b"data: [DONE]\n\n"


def answer(**fields: Any) -> Answer:
    return Answer(Plainly({"model": "m", **fields}), Redactor(["a-secret"]))


def chunk(content: str | None = None, finish: str | None = None, **more: Any) -> bytes:
    delta = {} if content is None else {"content": content}
    return line({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


def usage(**counts: Any) -> bytes:
    return line({"model": "m", "choices": [], "usage": counts})


def reply(content: str = "hi", finish: str = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    return json.dumps({"model": "m", "choices": [choice], **more}).encode()


def said(events: bytes) -> list[Any]:
    return [json.loads(event.removeprefix(b"data: ")) for event in events.split(b"\n\n") if event]


def broken(*pieces: bytes, finish: bool = False) -> BrokenOff:
    made = answer(stream=True)
    with pytest.raises(BrokenOff) as caught:
        for piece in pieces:
            made.feed(piece)
        if finish:
            made.finish()
    return caught.value


def test_a_plain_reply_is_said() -> None:
    assert json.loads(answer().whole(reply("hello"))) == {"said": "hello"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<html>oops</html>", "invalid_upstream_reply"),
        (b"", "invalid_upstream_reply"),
        (b'{"hello": 1}', "invalid_upstream_reply"),
        (b'{"error": {"message": "m", "code": "theirs"}}', "theirs"),
        (reply(finish="error"), "finish_reason_error"),
    ],
)
def test_a_plain_reply_that_is_no_answer_is_an_error(body: bytes, code: str) -> None:
    with pytest.raises(UpstreamFailed) as caught:
        answer().whole(body)
    assert caught.value.code == code


def test_an_error_keeps_the_status_it_tells_of() -> None:
    with pytest.raises(BridgeError) as caught:
        answer().whole(b'{"error": {"message": "m", "type": "rate_limit_error"}}')
    assert caught.value.status == 429


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 4, "odd": 1}, {"total_tokens": 7, "odd": 1}),
        ({"prompt_tokens": 3, "prompt_cache_hit_tokens": 2}, {"prompt_tokens_details": {"cached_tokens": 2}}),
        (
            {"prompt_tokens": 3, "prompt_tokens_details": {"audio_tokens": 1}, "cached_tokens": 2},
            {"prompt_tokens_details": {"audio_tokens": 1, "cached_tokens": 2}},
        ),
        (
            {"completion_tokens": 3, "reasoning_tokens": 2},
            {"completion_tokens_details": {"reasoning_tokens": 2}},
        ),
    ],
)
def test_usage_comes_under_openai_s_names(given: dict[str, Any], told: dict[str, Any]) -> None:
    found = json.loads(answer().whole(reply(usage=given)))["usage"]
    assert found | told == found


def test_usage_that_says_no_count_is_passed_as_it_is() -> None:
    assert json.loads(answer().whole(reply(usage={"cost": 2})))["usage"] == {"cost": 2}


def test_usage_of_a_choice_is_the_reply_s() -> None:
    body = json.loads(reply())
    body["choices"][0]["usage"] = {"prompt_tokens": 1, "completion_tokens": 2}
    assert json.loads(answer().whole(json.dumps(body).encode()))["usage"]["total_tokens"] == 3


def test_a_stream_is_said_piece_by_piece_and_ends_after_its_finish() -> None:
    made = answer(stream=True)
    pieces = chunk("he") + b": a comment\n\n" + chunk("llo"), chunk(finish="stop"), DONE
    assert [said(made.feed(piece)) for piece in pieces] == [["he", "llo"], [], ["END"]]
    assert made.ended
    assert made.feed(chunk("late")) == made.finish() == b""


def test_a_stream_s_usage_comes_before_its_end_wherever_it_stood() -> None:
    counts = {"prompt_tokens": 1, "completion_tokens": 2}
    for last in (usage(**counts), line({"choices": [], "x_groq": {"usage": counts}})):
        out = answer(stream=True).feed(chunk("a", "stop") + last + DONE)
        assert said(out) == ["a", 3, "END"]


def test_a_stream_that_ends_after_its_finish_without_done_is_complete() -> None:
    made = answer(stream=True)
    assert said(made.feed(chunk("a", "stop")) + made.finish()) == ["a", "END"]


def test_a_stream_that_ends_before_its_finish_is_no_answer() -> None:
    for pieces, finish in (([chunk("a")], True), ([chunk("a"), DONE], False), ([DONE], False), ([b""], True)):
        assert broken(*pieces, finish=finish).failure.code == "upstream_truncated"


def test_what_was_said_before_an_error_in_the_same_piece_is_not_lost() -> None:
    error = broken(chunk("a") + line({"error": {"message": "busy, a-secret", "code": "theirs"}}) + chunk("b"))
    assert said(error.said) == ["a"]
    assert error.failure.code == "theirs"
    assert "a-secret" not in error.failure.message


def test_a_choice_that_ends_in_an_error_is_one() -> None:
    assert broken(chunk("a"), chunk(finish="error")).failure.code == "finish_reason_error"


def test_a_translation_that_finds_no_end_has_the_last_word() -> None:
    made = answer(stream=True)
    made._translation.end = broken_end
    with pytest.raises(BrokenOff) as caught:
        made.feed(chunk("a", "stop") + DONE)
    assert said(caught.value.said) == ["a"]


def broken_end() -> bytes:
    raise UpstreamFailed("unfinished", code="upstream_truncated")


def test_half_a_surrogate_pair_is_passed_on() -> None:
    assert json.loads(answer().whole(reply("\ud800"))) == {"said": "\ud800"}
