"""One call through LiteLLM, from the request's bytes to a reply: whole, as a stream, or relayed as it came.

Knows no HTTP server. What it raises is a `BridgeError`, said in our words or the provider's.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import httpx
import msgspec

from osmosis_bridge.errors import BridgeError, Refused, UpstreamFailed
from osmosis_bridge.native.direct import Address, DirectCall, address_of
from osmosis_bridge.native.embeddings.call import ROUTE as EMBEDDINGS_ROUTE
from osmosis_bridge.native.embeddings.call import EmbeddingCall, Embeddings
from osmosis_bridge.native.failures import clean, not_translated, transport_failure
from osmosis_bridge.native.families.chat import RESPONSES
from osmosis_bridge.native.gate import Explained, Gate, Mode, Pattern, Withheld
from osmosis_bridge.native.jsontree import Json, as_object
from osmosis_bridge.native.litellm_library import LiteLLM, load, rehearse
from osmosis_bridge.native.memory import ReasoningMemory
from osmosis_bridge.native.plan import Plan, Unsupported, make_plan
from osmosis_bridge.native.replies import StreamWriter, completion, ended_in_error
from osmosis_bridge.native.rule import Asked
from osmosis_bridge.native.spoken.naming import client_rows, in_words_of
from osmosis_bridge.native.spoken.table import CHAT_ROUTE, RESPONSES_ROUTE, translate
from osmosis_bridge.native.spoken.translation import encode_json
from osmosis_bridge.native.turns import prepare
from osmosis_bridge.native.via_responses.call import ViaCall
from osmosis_bridge.native.via_responses.choice import is_openai_s_own, why_responses
from osmosis_bridge.native.via_responses.request import say_as_responses
from osmosis_bridge.native.written import Written
from osmosis_bridge.redact import Redactor

_PATTERN_S: Final = 30.0
"""For how long a request's address and credentials are taken to be what LiteLLM last made them."""


class Settings(msgspec.Struct, frozen=True):
    """What the operator decided: the model path, the endpoint and the key, where they are not the provider's usual."""

    model: str
    api_base: str | None = None
    api_key: str | None = None


class Spoken(msgspec.Struct, frozen=True):
    """In which dialect a call comes: its route, and the headers of its caller, of which few go on."""

    route: str = CHAT_ROUTE
    headers: Mapping[bytes, bytes] = {}


CHAT: Final = Spoken()


class Whole(msgspec.Struct, frozen=True):
    """A complete reply, and the provider's own headers."""

    reply: dict[str, Json]
    headers: httpx.Headers


class Lane:
    """Calls of one model."""

    def __init__(self, settings: Settings, redactor: Redactor) -> None:
        self._settings = settings
        self._redactor = redactor
        self._memory = ReasoningMemory()
        self._loaded: LiteLLM | None = None
        self._fault: str | None = None
        self._ready = asyncio.Event()
        self._patterns: dict[bool, tuple[float, Pattern]] = {}
        self._embeddings = Embeddings(self.failure)
        self._addresses: dict[tuple[str, bool], tuple[float, Pattern]] = {}

    def start(self) -> None:
        """Begin to load LiteLLM, in a thread; calls wait for it."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._load, args=(loop,), name="litellm", daemon=True).start()

    def _load(self, loop: asyncio.AbstractEventLoop) -> None:
        loaded, fault = None, None
        try:
            loaded = load(self._settings.model, self._settings.api_base)
            rehearse(loaded, self._common() | {"stream": False})
        except Exception as error:  # noqa: BLE001 - told to every call; the process has nothing else to do.
            fault = f"LiteLLM cannot serve {self._settings.model!r}: {clean(str(error))}"
        loop.call_soon_threadsafe(self._take, loaded, fault)

    def _take(self, loaded: LiteLLM | None, fault: str | None) -> None:
        self._loaded, self._fault = loaded, fault
        self._ready.set()

    @property
    def ready(self) -> bool:
        """Whether calls need not wait."""
        return self._ready.is_set()

    async def loaded(self) -> None:
        """Wait until LiteLLM is loaded, or known not to load."""
        await self._ready.wait()

    async def explain(self, body: bytes, rollout_id: str, spoken: Spoken = CHAT) -> Explained:
        """What would be sent for this request; nothing is."""
        call = await self._prepare(body, rollout_id, spoken, explain=True)
        return await call.explain()

    async def open(self, body: bytes, rollout_id: str, spoken: Spoken = CHAT) -> Call:
        """Send a call; its reply is read from what is returned, which must be closed."""
        call = await self._prepare(body, rollout_id, spoken, explain=False)
        try:
            await call.open()
        except BaseException:
            await call.close()
            raise
        return call

    async def _prepare(self, body: bytes, rollout_id: str, spoken: Spoken, *, explain: bool) -> Call:
        try:
            fields = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(f"the request body is not a JSON object ({error})", code="invalid_json") from None
        loaded = await self._library()
        if spoken.route in loaded.speaks:
            return DirectCall(self._address_of(spoken.route), self.unreachable, body, spoken.headers)
        if spoken.route == EMBEDDINGS_ROUTE:
            return self._embeddings.prepare(loaded, fields, self._common(), explain=explain)
        translation = None if spoken.route == CHAT_ROUTE else translate(spoken.route, fields)
        said = fields if translation is None else translation.request
        written = Written(fields, said, rollout_id, translation)
        with in_words_of(translation):
            why = await self._why_responses(loaded, said, explain=explain)
            if why is not None:
                return self._via_responses(loaded, written, why)
            return self._planned(loaded, written, explain=explain)

    async def _library(self) -> LiteLLM:
        await self.loaded()
        if self._loaded is None:
            raise BridgeError(
                self._redactor.message(self._fault or "LiteLLM is not there"),
                status=503,
                code="native_lane_failed",
            )
        return self._loaded

    async def _why_responses(
        self, loaded: LiteLLM, fields: Mapping[str, Json], *, explain: bool
    ) -> str | None:
        backend = loaded.backend
        why = why_responses(backend, fields)
        if why is None or backend.forced or backend.only or backend.provider != "openai":
            return why
        address = await self.address(RESPONSES_ROUTE, stream=False, explain=explain)
        return why if is_openai_s_own(address.url) else None

    def _via_responses(self, loaded: LiteLLM, written: Written, why: str) -> ViaCall:
        messages = self._memory.restore(written.rollout_id, written.fields.get("messages"))
        via = say_as_responses({**written.fields, "messages": messages}, loaded.model, why)
        via.keep = functools.partial(self.remember, written.rollout_id)
        direct = DirectCall(self._address_of(RESPONSES_ROUTE), self.unreachable, encode_json(via.request), {})
        return ViaCall(direct, via, written)

    def _planned(self, loaded: LiteLLM, written: Written, *, explain: bool) -> NativeCall:
        fields = written.fields
        asked = Asked(fields, loaded.model, loaded.provider, loaded.supported, loaded.reserved)
        plan = make_plan(fields, loaded.family, asked)
        try:
            prepared = prepare(
                self._memory.restore(written.rollout_id, fields.get("messages")), loaded.family
            )
        except Unsupported as refusal:
            raise Unsupported(plan.refused | refusal.fields, loaded.family) from None
        mode: Mode = "explain" if explain else "relay" if loaded.family.relayed else "translate"
        plan.left_out.update(prepared.left_out)
        # To explain, the rest is looked at as well: whoever asks wants to know all that would be refused.
        if plan.refused and not explain:
            raise Unsupported(plan.refused, loaded.family)
        gate = Gate(mode, plan, loaded.family, prepared.messages, stream=fields.get("stream") is True)
        return NativeCall(self, loaded, gate, plan, written)

    async def address(self, route: str = CHAT_ROUTE, *, stream: bool, explain: bool = False) -> Pattern:
        """Where calls go that LiteLLM does not make, and with what; asked of it by a call up to the gate.

        Raises `BridgeError` where it makes none. With `explain` nothing at all is sent, nor taken from earlier calls.
        """
        made_at, pattern = self._addresses.get((route, stream), (0.0, None))
        if pattern is not None and not explain and time.monotonic() - made_at < _PATTERN_S:
            return pattern
        loaded = await self._library()
        messages: list[dict[str, Json]] = [{"role": "user", "content": "x"}]
        nothing = Plan({}, (), (), {})
        responses = route == RESPONSES_ROUTE
        family = RESPONSES if responses else loaded.family
        gate = Gate("explain" if explain else "learn", nothing, family, messages)
        try:
            if responses:
                made = await loaded.respond(gate, {"input": "x", "stream": stream} | self._common())
            else:
                made = await loaded.complete(gate, self.kwargs(nothing, gate, stream=stream))
            if stream:
                await anext(aiter(made), None)
        except Exception as error:
            learned = gate.pattern()
            if learned is None:
                raise self.failure(error, gate) from error
            if not explain:
                self._addresses[route, stream] = (time.monotonic(), learned)
            return learned
        raise BridgeError("LiteLLM made no request that could be seen", code="unsupported_provider")

    def _address_of(self, route: str) -> Address:
        return address_of(route, functools.partial(self.address, route))

    def unreachable(self, error: httpx.TransportError) -> UpstreamFailed:
        """A fault on the way to the provider."""
        return transport_failure(error, self._redactor)

    def _common(self) -> dict[str, Json]:
        """What every call says to LiteLLM: the operator's endpoint and key, and that nothing is retried or dropped."""
        given = {"model": self._settings.model, "num_retries": 0, "max_retries": 0, "drop_params": False}
        if self._settings.api_base is not None:
            given["api_base"] = self._settings.api_base
        if self._settings.api_key is not None:
            given["api_key"] = self._settings.api_key
        return given

    def kwargs(self, plan: Plan, gate: Gate, *, stream: bool) -> dict[str, Json]:
        """The arguments of `acompletion`; the operator's last, so that no field stands in their place."""
        given: dict[str, Json] = {**plan.kwargs, "messages": gate.messages, "stream": stream}
        if stream and gate.mode != "relay":
            # Otherwise LiteLLM stops reading before the provider's last words, its usage among them.
            given["stream_options"] = {"include_usage": True}
        return given | self._common()

    def pattern(self, *, stream: bool) -> Pattern | None:
        """How a relayed call is sent, where LiteLLM has lately said so: the rest of such a call is the client's own."""
        made_at, pattern = self._patterns.get(stream, (0.0, None))
        return pattern if time.monotonic() - made_at < _PATTERN_S else None

    def learn(self, gate: Gate, *, stream: bool) -> None:
        """Keep how this call was sent."""
        pattern = gate.pattern()
        if pattern is not None:
            self._patterns[stream] = (time.monotonic(), pattern)

    def remember(self, rollout_id: str, message: Mapping[str, Json]) -> None:
        """Keep what the model thought in this turn."""
        self._memory.keep(rollout_id, message)

    def failure(self, error: Exception, gate: Gate) -> BridgeError:
        """What went wrong, from what the gate saw first, and LiteLLM's words only where it saw nothing."""
        if isinstance(gate.failure, BridgeError):
            return gate.failure
        if isinstance(gate.failure, httpx.TransportError):
            return self.unreachable(gate.failure)
        text = self._redactor.message(clean(str(error)))
        if gate.outgoing is None:
            refusals = () if self._loaded is None else self._loaded.refusals
            return not_translated(error, text, refusals)
        return UpstreamFailed(
            f"the provider's reply could not be read: {text}", code="invalid_upstream_reply"
        )


class NativeCall:
    """One call that has been sent, or is about to be."""

    def __init__(self, lane: Lane, loaded: LiteLLM, gate: Gate, plan: Plan, written: Written) -> None:
        self._lane = lane
        self._loaded = loaded
        self.gate = gate
        self.plan: Final = plan
        self._written = written
        self.translation: Final = written.translation
        self._made: Json = None
        self._first: Json = None
        self.stream = written.fields.get("stream") is True

    async def explain(self) -> Explained:
        """What would be sent. Raises `BridgeError`, which names all that is refused."""
        with in_words_of(self.translation):
            try:
                await self._open()
            except Unsupported:
                raise
            except BridgeError:
                # Without the fields that are refused anyway, LiteLLM may find nothing that it can translate.
                if self.plan.refused:
                    raise Unsupported(self.plan.refused, self.gate.family) from None
                raise
        request = self.gate.outgoing
        if request is None:
            raise BridgeError("no request was made", code="internal_error")
        rows = self.gate.rows
        if self.translation is not None:
            rows = client_rows(rows, self.translation, self._written.by_client)
        return Explained(tuple(rows), request, self.gate.outgoing_body)

    async def open(self) -> None:
        """Send it. Afterwards either `relayed` is there, or `whole` and `events` can be read. Raises `BridgeError`."""
        with in_words_of(self.translation):
            await self._open()

    async def _open(self) -> None:
        gate = self.gate
        pattern = self._lane.pattern(stream=self.stream) if gate.mode == "relay" else None
        if pattern is not None:
            await gate.send_like(pattern)
            if gate.failure is not None:
                raise self._lane.failure(Withheld(), gate)
            return
        try:
            self._made = await self._loaded.complete(
                gate, self._lane.kwargs(self.plan, gate, stream=self.stream)
            )
            if self.stream:
                self._first = await anext(aiter(self._made), None)
        except Exception as error:
            if gate.reply is not None:
                self._lane.learn(gate, stream=self.stream)
                return
            if gate.mode == "explain" and gate.failure is None and gate.outgoing is not None:
                return
            if gate.head is not None and self.stream:
                raise self._stream_failure(error) from error
            raise self._lane.failure(error, gate) from error
        if gate.outgoing is None:
            raise BridgeError(
                "LiteLLM answered without a request that could be checked", code="unsupported_provider"
            )

    @property
    def relayed(self) -> httpx.Response | None:
        """The provider's reply where it is passed on as it came; its body is still to be read."""
        return self.gate.reply

    def whole(self) -> Whole:
        """The complete reply."""
        reply = completion(self._made.model_dump(), self.gate.witness, self._loaded.model)
        for choice in reply["choices"][:1]:
            self._lane.remember(self._written.rollout_id, choice["message"])
        return Whole(reply, self._head())

    def _head(self) -> httpx.Headers:
        return httpx.Headers() if self.gate.head is None else self.gate.head.headers

    @property
    def headers(self) -> httpx.Headers:
        """The provider's headers."""
        return self._head()

    async def events(self) -> AsyncGenerator[bytes]:
        """The reply as OpenAI's events; raises `BridgeError` where it does not end well."""
        options = self._written.fields.get("stream_options")
        usage_asked = self.translation is not None or as_object(options).get("include_usage") is True
        writer = StreamWriter(self.gate.witness, self._loaded.model, usage_asked=usage_asked)
        try:
            if self._first is not None:
                yield writer.chunk(self._first.model_dump(exclude_none=True))
                async for chunk in self._made:
                    yield writer.chunk(chunk.model_dump(exclude_none=True))
        except Exception as error:
            raise self._stream_failure(error) from error
        last = writer.end()
        for message in list(writer.messages.values())[:1]:
            self._lane.remember(self._written.rollout_id, message)
        yield last

    def _stream_failure(self, error: Exception) -> BridgeError:
        """What broke a stream: the provider's own words where it said any."""
        said = ended_in_error(self.gate.witness)
        if said is not None:
            return said
        if self.gate.witness.cut:
            return UpstreamFailed("the provider's stream was cut", code="upstream_cut")
        return self._lane.failure(error, self.gate)

    async def close(self) -> None:
        """Let go of the provider's connection."""
        head = self.gate.head
        if head is not None:
            await head.aclose()


Call = NativeCall | DirectCall | ViaCall | EmbeddingCall
"""A call by whichever way."""
