"""The gate of one call for embeddings: the same as every gate, but for what must stand in the body."""

from __future__ import annotations

from typing import Final

import httpx

from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.native.embeddings.families import Embeds
from osmosis_bridge.native.embeddings.settle import settle_texts
from osmosis_bridge.native.gate import Gate, Mode
from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.outgoing import FieldRow
from osmosis_bridge.native.plan import Plan


class EmbeddingGate(Gate):
    """Holds what LiteLLM makes for one text, and sends the client's texts in its place.

    Where a signature covers the body, LiteLLM is given the client's own texts, and nothing is put in.
    """

    def __init__(self, mode: Mode, texts: list[str], plan: Plan, embeds: Embeds) -> None:
        super().__init__(mode, plan, embeds.dialect, [])
        self._asked: Final = (texts, plan, embeds)

    def settled(self, body: dict[str, Json], *, signed: bool) -> list[FieldRow]:
        """See `settle_texts`."""
        texts, plan, embeds = self._asked
        if signed and not embeds.signed:
            raise BridgeError("the request is signed, which was not looked for", code="unsupported_provider")
        return settle_texts(body, texts, plan, embeds)

    def foreign(self, request: httpx.Request) -> BridgeError:
        """LiteLLM reaches this model's embeddings in a way that is not known here."""
        return Refused(
            f"embeddings of this model are not translated (LiteLLM would ask {request.url.path} for them)",
            code="dialect_not_translated",
        )
