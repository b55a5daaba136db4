"""Replies said again in the form that LiteLLM reads, where it does not read the provider's own.

LiteLLM takes each line of Cohere's stream of events for one JSON object, and looks for what it says under the names of
a form that Cohere does not send. The events are the provider's; only their frame changes. Pure.
"""

from __future__ import annotations

import json
from typing import Final, cast

from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.sse import Event, EventSplitter


class CohereLines:
    """Cohere's events as lines of JSON, with the copies under `event` and `data` that LiteLLM wants."""

    def __init__(self) -> None:
        self._events: Final = EventSplitter()

    def feed(self, piece: bytes) -> bytes:
        """The lines that `piece` completes."""
        return b"".join(map(_line, self._events.feed(piece)))

    def end(self) -> bytes:
        """The line that the end of the stream completes."""
        last = self._events.finish()
        return b"" if last is None else _line(last)


def _line(event: Event) -> bytes:
    try:
        found: Json = json.loads(event.data or b"")
    except ValueError:
        return b""
    if not isinstance(found, dict):
        return b""
    said = cast("dict[str, Json]", found)
    return json.dumps(said | {"event": said.get("type", ""), "data": said}).encode() + b"\n"
