"""One call for embeddings through LiteLLM, from the request's fields to OpenAI's reply.

LiteLLM says where the call goes and what authorises it, by a call for one text up to the gate; texts and vectors do not
pass through it, unless a signature must cover the texts. What it said is kept for a while. Knows no HTTP server.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Final

import httpx
import msgspec

from osmosis_bridge.errors import BridgeError, Refused, UpstreamFailed
from osmosis_bridge.native.embeddings.families import Embeds, embeds_of
from osmosis_bridge.native.embeddings.gate import EmbeddingGate
from osmosis_bridge.native.embeddings.texts import Asked as Request
from osmosis_bridge.native.embeddings.texts import read_request
from osmosis_bridge.native.embeddings.vectors import openai_reply
from osmosis_bridge.native.gate import Explained, Gate, Pattern, Withheld
from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.litellm_library import LiteLLM
from osmosis_bridge.native.plan import make_plan
from osmosis_bridge.native.rule import Asked

ROUTE: Final = "/embeddings"
_PATTERN_S: Final = 30.0
"""For how long a request's address and credentials are taken to be what LiteLLM last made them."""
_OF_THE_BODY: Final = frozenset({"content-length", "content-type", "content-encoding", "transfer-encoding"})


class Embeddings:
    """Calls for embeddings of one model; `failure` says what went wrong with one."""

    def __init__(self, failure: Callable[[Exception, Gate], BridgeError]) -> None:
        self.failure: Final = failure
        self._pattern: tuple[float, Pattern] | None = None

    def prepare(
        self, loaded: LiteLLM, fields: Mapping[str, Json], common: Mapping[str, Json], *, explain: bool
    ) -> EmbeddingCall:
        """A call that is ready to be sent. Raises `Refused` for a model or a request that cannot be."""
        embeds = embeds_of(loaded.provider, loaded.model)
        if embeds is None:
            raise Refused(
                f"there are no embeddings of {loaded.provider}/{loaded.model} to be had by this lane; name a model "
                "that embeds",
                code="dialect_not_translated",
            )
        request = read_request(fields)
        if embeds.one and len(request.texts) > 1:
            raise Refused(
                f"input holds {len(request.texts)} texts; this model takes one a call",
                code="invalid_input",
                param="input",
            )
        plan = make_plan(
            request.fields,
            embeds.dialect,
            Asked(request.fields, loaded.model, loaded.provider, reserved=loaded.reserved),
        )
        gate = EmbeddingGate("explain" if explain else "relay", request.texts, plan, embeds)
        texts = request.texts if embeds.signed else ["x"]
        given = {**plan.kwargs, "input": texts, **_reached(loaded.provider, common)}
        return EmbeddingCall(self, loaded, gate, _Sending(request, embeds, given))

    def pattern(self) -> Pattern | None:
        """How a call is sent, where LiteLLM has lately said so."""
        made_at, pattern = self._pattern or (0.0, None)
        return pattern if time.monotonic() - made_at < _PATTERN_S else None

    def learn(self, gate: Gate) -> None:
        """Keep how this call was sent."""
        pattern = gate.pattern()
        if pattern is not None:
            self._pattern = (time.monotonic(), pattern)


class _Sending(msgspec.Struct, frozen=True):
    request: Request
    embeds: Embeds
    given: dict[str, Json]


class EmbeddingCall:
    """One call that has been sent, or is about to be."""

    translation = None
    stream = False

    def __init__(self, calls: Embeddings, loaded: LiteLLM, gate: EmbeddingGate, sending: _Sending) -> None:
        self._calls = calls
        self._loaded = loaded
        self.gate: Final = gate
        self._sending = sending
        self._reply: httpx.Response | None = None

    async def explain(self) -> Explained:
        """What would be sent. Raises `BridgeError`, which names all that is refused."""
        await self._ask()
        if self.gate.outgoing is None:
            raise BridgeError("no request was made", code="internal_error")
        return Explained(tuple(self.gate.rows), self.gate.outgoing, self.gate.outgoing_body)

    async def open(self) -> None:
        """Send it; afterwards `relayed` is there. Raises `BridgeError`."""
        await self._ask()
        reply = self.gate.reply
        if reply is None:
            raise BridgeError("LiteLLM answered without a request that was seen", code="unsupported_provider")
        if not reply.is_success:
            self._reply = reply
            return
        try:
            body = await reply.aread()
        except httpx.TransportError:
            raise UpstreamFailed("the provider's reply was cut", code="upstream_cut") from None
        self._reply = httpx.Response(
            200, headers=_head(reply), stream=httpx.ByteStream(msgspec.json.encode(self._openai(body, reply)))
        )

    async def _ask(self) -> None:
        """Let LiteLLM make the request, or make it as it lately was."""
        gate, sending = self.gate, self._sending
        pattern = None if sending.embeds.signed or gate.mode == "explain" else self._calls.pattern()
        if pattern is not None:
            await gate.send_like(pattern)
        else:
            try:
                await self._loaded.embed(gate, sending.given)
            except Exception as error:
                told = gate.reply is not None or (gate.mode == "explain" and gate.outgoing is not None)
                if gate.failure is not None or not told:
                    raise self._calls.failure(error, gate) from error
            if not sending.embeds.signed and gate.mode != "explain":
                self._calls.learn(gate)
        if gate.failure is not None:
            raise self._calls.failure(Withheld(), gate)

    def _openai(self, body: bytes, reply: httpx.Response) -> dict[str, Json]:
        sending = self._sending
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise UpstreamFailed("the provider's reply is no JSON", code="invalid_upstream_reply") from None
        vectors = sending.embeds.read(found, reply.headers)
        texts = len(sending.request.texts)
        return openai_reply(vectors, self._loaded.model, texts, as_base64=sending.request.base64)

    @property
    def relayed(self) -> httpx.Response:
        """The reply: OpenAI's, or the provider's own where that is no success; its body is still to be read."""
        if self._reply is None:
            raise RuntimeError("a call is sent before its reply is read")
        return self._reply

    async def close(self) -> None:
        """Let go of the provider's connection."""
        if self.gate.head is not None:
            await self.gate.head.aclose()


def _head(reply: httpx.Response) -> list[tuple[str, str]]:
    kept = [(name, value) for name, value in reply.headers.multi_items() if name not in _OF_THE_BODY]
    return [*kept, ("content-type", "application/json")]


def _reached(provider: str, common: Mapping[str, Json]) -> dict[str, Json]:
    """What every call says to LiteLLM, with the address and the name by which embeddings are reached."""
    given = dict(common)
    if provider == "ollama_chat":
        given["model"] = str(given["model"]).replace("ollama_chat/", "ollama/", 1)
    base = given.get("api_base")
    if provider in ("cohere", "cohere_chat") and isinstance(base, str):
        # LiteLLM takes Cohere's address whole, and that of its chat is what an operator gives.
        given["api_base"] = base.removesuffix("/chat") + "/embed" if base.endswith("/chat") else base
    return given
