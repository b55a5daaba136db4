"""Cohere's events in the form that LiteLLM reads."""

from __future__ import annotations

import json

from osmosis_bridge.native.restate import CohereLines

EVENTS = (
    b'event: content-delta\ndata: {"type":"content-delta","delta":{"message":{"content":{"text":"a"}}}}\n\n'
    b": ping\n\n"
    b'event: message-end\ndata: {"type":"message-end","delta":{"finish_reason":"COMPLETE"}}'
)


def test_each_event_becomes_a_line_with_what_litellm_looks_for() -> None:
    for size in (1, 5, len(EVENTS)):
        again = CohereLines()
        out = b"".join(again.feed(EVENTS[n : n + size]) for n in range(0, len(EVENTS), size)) + again.end()
        lines = [json.loads(line) for line in out.splitlines()]
        assert [line["event"] for line in lines] == ["content-delta", "message-end"]
        assert lines[1]["data"]["delta"]["finish_reason"] == "COMPLETE"
        assert lines[0]["delta"]["message"]["content"]["text"] == "a"


def test_what_is_no_object_is_passed_over() -> None:
    again = CohereLines()
    assert again.feed(b"data: [1]\n\ndata: oops\n\n") == b""
    assert again.end() == b""
