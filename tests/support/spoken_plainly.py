"""A translation that says next to nothing, so that what is around translations can be tested without a dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.spoken.translation import Translation


class Plainly(Translation):
    """The client's `words` are the messages, its `limit` is `max_tokens`; it is answered in lines of text.

    A usage line tells `total_tokens`; the stream's end is `END`.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        stream = fields.get("stream") is True
        rest = {
            name: value for name, value in fields.items() if name not in ("words", "limit", "rules", "mood")
        }
        turns = [{"role": "user", "content": fields.get("words", "hi")}]
        if "rules" in fields:
            turns.insert(0, {"role": "system", "content": fields["rules"]})
        self.request = {**rest, "messages": turns, "stream": stream}
        if "limit" in fields:
            self.request["max_tokens"] = fields["limit"]
        if stream:
            self.request["stream_options"] = {"include_usage": True}
        self.sources = {"messages": "words", "max_tokens": "limit"}
        if "rules" in fields:
            self.sources = {**self.sources, "messages[0].content": "rules"}
        if "mood" in fields:
            self.left_out = {"mood": "it says nothing"}
        self._finished = False

    def reply(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        said = completion["choices"][0]["message"]["content"]
        return {"said": said} | ({"usage": completion["usage"]} if "usage" in completion else {})

    def chunk(self, chunk: Mapping[str, Any]) -> bytes:
        out = b""
        for choice in chunk["choices"]:
            self._finished = self._finished or bool(choice.get("finish_reason"))
            if choice["delta"].get("content"):
                out += line(choice["delta"]["content"])
        if chunk.get("usage"):
            out += line(chunk["usage"]["total_tokens"])
        return out

    def end(self) -> bytes:
        if not self._finished:
            raise UpstreamFailed("unfinished", code="upstream_truncated")
        return line("END")


def line(said: Any) -> bytes:
    """One event."""
    return b"data: " + msgspec.json.encode(said) + b"\n\n"
