"""One request of another dialect, said as chat completions; and its answer, said back.

Rules for whoever writes one:

- every field of the request is said in the chat request, or refused by name (`cannot_say`); none is lost;
- a field nobody knows keeps its name, so that the provider's own table decides on it;
- the way back loses nothing either: text, refusals, reasoning, tool calls, usage, finish reasons;
- a stream's end is said only where the chat stream came to its own.

Pure: no I/O, no clock, no randomness; identifiers are made from the completion's own.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping

import msgspec

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.plan import CODE

_encode = msgspec.json.Encoder().encode


class Translation(ABC):
    """One request on its way.

    `request` is the chat request with its envelope (`model`, `messages`, `stream`, `stream_options`); `sources` says
    for a place of it by which name the client wrote it, where that is another: `{"messages": "input"}`, or as close as
    `{"messages[0].content": "system"}`; `left_out` says why a field of the client's needs no word in it.
    """

    request: dict[str, Json]
    sources: Mapping[str, str]
    left_out: Mapping[str, str] = {}

    @abstractmethod
    def reply(self, completion: Mapping[str, Json]) -> dict[str, Json]:
        """A whole completion as a reply of the client's dialect. Raises `UpstreamFailed` where it cannot be said.

        Its `usage`, where there is one, has OpenAI's names, whichever the provider used.
        """

    @abstractmethod
    def chunk(self, chunk: Mapping[str, Json]) -> bytes:
        """The events, as bytes, that one chunk of the completion becomes; none, where it says nothing new.

        What is given is a completion's: errors, `[DONE]` and comments are seen to before. Usage as in `reply`.
        """

    @abstractmethod
    def end(self) -> bytes:
        """The events that end the stream, once its end came. Raises `UpstreamFailed` where it is unfinished."""


def cannot_say(field: str, why: str) -> Refused:
    """The refusal of a field that has no equal in chat completions."""
    return Refused(f"{field} cannot be sent to this model: {why}", code=CODE, param=field)


def encode_json(value: Json) -> bytes:
    """JSON text of what a provider said, whatever that was: half a surrogate pair, too, stays what it is."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, OverflowError, ValueError):
        return json.dumps(value).encode()
