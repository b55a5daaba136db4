"""Samples are what they say: JSON, and a complete answer."""

from __future__ import annotations

from osmosis_bridge.conformance import samples
from osmosis_bridge.conformance.exact import at, parse
from osmosis_bridge.conformance.reply import Reply, read_events


def test_a_completion_says_hello() -> None:
    reply = Reply(200, (), b"", samples.completion().encode(), "clean")
    assert (reply.content(), reply.finishes()) == ("hello", ["stop"])
    assert at(parse(samples.completion(usage=None)), "usage") is None
    assert at(parse(samples.completion(more=',"x":1')), "x") is not None


def test_the_whole_stream_says_hello_and_ends() -> None:
    body = b"".join(samples.WHOLE)
    reply = Reply(200, (("content-type", "text/event-stream"),), body, body, "clean")
    assert (reply.content(), reply.finishes(), reply.done) == ("hello", ["stop"], True)


def test_usage_comes_with_or_without_choices() -> None:
    assert at(parse(samples.usage_json()), "choices") == []
    assert "choices" not in samples.usage_json(choices=None)
    assert read_events(samples.usage())[0].json == parse(samples.usage_json())
