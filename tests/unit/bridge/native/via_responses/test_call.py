"""A chat call that goes to Responses, and its answer on the way back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.direct import DirectCall
from osmosis_bridge.native.gate import Pattern
from osmosis_bridge.native.spoken.answer import BrokenOff
from osmosis_bridge.native.via_responses.call import ResponsesAnswer, ViaCall
from osmosis_bridge.native.via_responses.request import ViaResponses, say_as_responses
from osmosis_bridge.native.written import Written
from osmosis_bridge.redact import Redactor
from spoken_plainly import Plainly
from typed_events import event, response, responses_stream, text_events

FIELDS: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}


def via(**fields: Any) -> ViaResponses:
    return say_as_responses(FIELDS | fields, "gpt-5.6", "because")


def answer() -> ResponsesAnswer:
    return ResponsesAnswer(via(stream=True, stream_options={"include_usage": True}), Redactor([]))


def chunks(said: bytes) -> list[Any]:
    blocks = [block.removeprefix(b"data: ") for block in said.split(b"\n\n") if block]
    return [None if block == b"[DONE]" else json.loads(block) for block in blocks]


def test_a_stream_of_events_becomes_chunks_with_their_usage_and_end():
    answering = answer()
    said = b"".join(answering.feed(piece) for piece in responses_stream(*text_events("he", "llo")))
    found = chunks(said + answering.finish())
    assert found[-1] is None
    deltas = [choice["delta"] for chunk in found[:-1] for choice in chunk["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "hello"
    assert found[-2]["choices"] == []
    assert found[-2]["usage"]["prompt_tokens"] > 0
    assert answering.ended


@pytest.mark.parametrize("kept", [1, 3])
def test_a_stream_that_stops_before_its_end_is_broken_off(kept: int):
    answering = answer()
    for piece in responses_stream(*text_events("he", "llo"))[:kept]:
        answering.feed(piece)
    with pytest.raises(BrokenOff) as broken:
        answering.finish()
    assert broken.value.failure.code == "upstream_truncated"
    assert b"[DONE]" not in broken.value.said


def test_a_response_that_failed_is_broken_off_with_its_reason():
    answering = answer()
    error = {"code": "rate_limit_exceeded", "message": "too many"}
    begun = responses_stream(*text_events("he"))[:3]
    with pytest.raises(BrokenOff) as broken:
        for piece in (
            *begun,
            event("response.failed", response=response("failed", error=error), sequence_number=3),
        ):
            answering.feed(piece)
    assert broken.value.failure.status == 429


def test_a_whole_response_becomes_a_completion_and_a_failed_one_an_error():
    whole = json.loads(responses_stream(*text_events("hello"))[-1].partition(b"data: ")[2])["response"]
    completion = json.loads(answer().whole(json.dumps(whole).encode()))
    assert completion["choices"][0]["message"]["content"] == "hello"
    assert completion["usage"]["completion_tokens"] == whole["usage"]["output_tokens"]
    with pytest.raises(UpstreamFailed):
        answer().whole(
            json.dumps(response("failed", error={"code": "server_error", "message": "x"})).encode()
        )
    with pytest.raises(UpstreamFailed):
        answer().whole(b'{"choices":[]}')


def made(written: Written, translation: ViaResponses) -> ViaCall:
    async def send(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=json.loads(request.content))

    async def address(*, stream: bool, explain: bool = False) -> Pattern:
        return Pattern("POST", "https://api.example/v1/responses", [], {"model": "there"}, send)

    def unreachable(error: httpx.TransportError) -> UpstreamFailed:
        return UpstreamFailed(str(error))

    return ViaCall(
        DirectCall(address, unreachable, json.dumps(translation.request).encode(), {}), translation, written
    )


def test_a_call_sends_what_was_said_to_the_model_s_name_there():
    async def main() -> Any:
        call = made(Written(FIELDS, FIELDS, "r"), via())
        await call.open()
        found = json.loads(await call.relayed.aread())
        await call.close()
        return found

    sent = asyncio.run(main())
    assert (sent["model"], sent["max_output_tokens"], sent["input"][0]["content"]) == ("there", 9, "hi")


def test_an_explanation_says_why_and_names_the_client_s_fields():
    explained = asyncio.run(made(Written(FIELDS, FIELDS, "r"), via()).explain())
    rows = {row.field: row for row in explained.rows}
    assert (rows["messages"].at, rows["messages"].why) == ("input", "because")
    assert rows["max_tokens"].at == "max_output_tokens"
    by_client = {"model": "m", "words": "hi", "limit": 9}
    plainly = Plainly(by_client)
    written = Written(by_client, plainly.request, "r", plainly)
    explained = asyncio.run(made(written, say_as_responses(plainly.request, "gpt-5.6", "because")).explain())
    rows = {row.field: row for row in explained.rows}
    assert (rows["words"].at, rows["limit"].at) == ("input", "max_output_tokens")
