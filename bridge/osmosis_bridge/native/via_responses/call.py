"""One chat call that goes to Responses: sent as a call of Responses is, its answer read as one.

Rules for whoever edits this file: what the dialect of Responses takes for an error or for unfinished is one here too,
and never becomes a complete answer. Knows no HTTP server.
"""

from __future__ import annotations

from typing import Final

import httpx
import msgspec

from osmosis_bridge.call import Outcome
from osmosis_bridge.dialects.responses import RESPONSES_DIALECT
from osmosis_bridge.native.direct import DirectCall
from osmosis_bridge.native.gate import Explained
from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.spoken.answer import Answer, parsed
from osmosis_bridge.native.spoken.naming import client_rows
from osmosis_bridge.native.via_responses.request import ViaResponses
from osmosis_bridge.native.written import Written


class ViaCall:
    """One call: `translation` is between its client and chat completions, `via` between these and Responses."""

    def __init__(self, direct: DirectCall, via: ViaResponses, written: Written) -> None:
        self._direct = direct
        self._written = written
        self.via: Final = via
        self.translation: Final = written.translation
        self.stream = direct.stream

    async def explain(self) -> Explained:
        """What would be sent. Raises `BridgeError`."""
        explained = await self._direct.explain()
        rows = self.via.rows(self._written.fields)
        if self.translation is not None:
            rows = tuple(client_rows(rows, self.translation, self._written.by_client))
        return msgspec.structs.replace(explained, rows=rows)

    async def open(self) -> None:
        """Send it; afterwards `relayed` is there. Raises `BridgeError`."""
        await self._direct.open()

    @property
    def relayed(self) -> httpx.Response:
        """The provider's reply; its body is still to be read."""
        return self._direct.relayed

    async def close(self) -> None:
        """Let go of the provider's connection."""
        await self._direct.close()


class ResponsesAnswer(Answer):
    """The answer of a call that went to Responses, on its way to chat completions."""

    dialect = RESPONSES_DIALECT

    def _completion(self, found: dict[str, Json], outcome: Outcome) -> dict[str, Json]:
        return found

    def _chunk(self, data: bytes) -> bytes:
        return self._translation.chunk(parsed(data))

    def _ending(self) -> bytes:
        """The event that ends a response is its last word, and holds the usage."""
        last = self._stream.last
        return b"".join(self._chunk(event.data) for event in self._events.feed(last) if event.data)
