"""One call through LiteLLM, from the request's bytes to a reply: whole, as a stream, or relayed as it came.

Knows no HTTP server. What it raises is a `BridgeError`, said in our words or the provider's.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import httpx
import msgspec

from osmosis_bridge.errors import BridgeError, Refused, UpstreamFailed
from osmosis_bridge.native.gate import Gate, Mode, Pattern, Withheld
from osmosis_bridge.native.jsontree import Json, as_object
from osmosis_bridge.native.litellm_library import LiteLLM, load, rehearse
from osmosis_bridge.native.memory import ReasoningMemory
from osmosis_bridge.native.outgoing import FieldRow
from osmosis_bridge.native.plan import CODE, Plan, make_plan
from osmosis_bridge.native.replies import StreamWriter, completion, ended_in_error
from osmosis_bridge.native.rule import Asked
from osmosis_bridge.native.turns import prepare
from osmosis_bridge.redact import Redactor

_NAMES: Final = re.compile(r"\['([^\]]*)'\]")
_PREFIX: Final = re.compile(r"^(?:litellm\.)?\w*(?:Error|Exception): (?:litellm\.\w+: )?")
_NO_KEY: Final = re.compile(r"(?i)\bmissing [\w ]*(?:key|credentials|token|jwt)\b")
_NO_GOOGLE: Final = re.compile(r"No module named 'google'|Google Cloud SDK not found")
_ADVICE: Final = re.compile(r"(?i)[^.;\n]*(?:drop_params|allowed_openai_params|modify_params)[^.;\n]*[.;]?")
_PATTERN_S: Final = 30.0
"""For how long a request's address and credentials are taken to be what LiteLLM last made them."""


class Settings(msgspec.Struct, frozen=True):
    """What the operator decided: the model path, the endpoint and the key, where they are not the provider's usual."""

    model: str
    api_base: str | None = None
    api_key: str | None = None


class Whole(msgspec.Struct, frozen=True):
    """A complete reply, and the provider's own headers."""

    reply: dict[str, Json]
    headers: httpx.Headers


class Explained(msgspec.Struct, frozen=True):
    """What would be sent."""

    rows: tuple[FieldRow, ...]
    request: httpx.Request
    body: Json


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
            fault = f"LiteLLM cannot serve {self._settings.model!r}: {_clean(str(error))}"
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

    async def explain(self, body: bytes, rollout_id: str) -> Explained:
        """What would be sent for this request; nothing is."""
        call = await self._prepare(body, rollout_id, explain=True)
        await call.open()
        request = call.gate.outgoing
        if request is None:
            raise BridgeError("no request was made", code="internal_error")
        return Explained(tuple(call.rows()), request, call.gate.outgoing_body)

    async def open(self, body: bytes, rollout_id: str) -> NativeCall:
        """Send a call; its reply is read from what is returned, which must be closed."""
        call = await self._prepare(body, rollout_id, explain=False)
        try:
            await call.open()
        except BaseException:
            await call.close()
            raise
        return call

    async def _prepare(self, body: bytes, rollout_id: str, *, explain: bool) -> NativeCall:
        try:
            fields = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Refused(f"the request body is not a JSON object ({error})", code="invalid_json") from None
        await self.loaded()
        loaded = self._loaded
        if loaded is None:
            raise BridgeError(
                self._redactor.message(self._fault or "LiteLLM is not there"),
                status=503,
                code="native_lane_failed",
            )
        asked = Asked(fields, loaded.model, loaded.provider, loaded.supported, loaded.reserved)
        plan = make_plan(fields, loaded.family, asked)
        prepared = prepare(self._memory.restore(rollout_id, fields.get("messages")), loaded.family)
        mode: Mode = "explain" if explain else "relay" if loaded.family.relayed else "translate"
        plan.left_out.update(prepared.left_out)
        gate = Gate(mode, plan, loaded.family, prepared.messages, stream=fields.get("stream") is True)
        return NativeCall(self, loaded, gate, plan, fields, rollout_id)

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
            return _transport_failure(gate.failure, self._redactor)
        text = self._redactor.message(_clean(str(error)))
        if gate.outgoing is None:
            return self._not_translated(error, text)
        return UpstreamFailed(
            f"the provider's reply could not be read: {text}", code="invalid_upstream_reply"
        )

    def _not_translated(self, error: Exception, text: str) -> BridgeError:
        loaded = self._loaded
        if loaded is not None and isinstance(error, loaded.refusals):
            names = _NAMES.search(str(error))
            param = names.group(1).partition("'")[0] if names else None
            return Refused(
                f"{param or 'a field'} cannot be sent to this model: LiteLLM has no translation for it",
                code=CODE,
                param=param,
            )
        if _NO_GOOGLE.search(str(error)):
            hint = "Vertex AI needs Google's own library to authorise calls: pip install google-auth requests"
            return BridgeError(hint, status=501, code="google_auth_missing")
        status = getattr(error, "status_code", 400)
        if status == 401 or _NO_KEY.search(str(error)):
            return BridgeError(
                f"no call was made: {text}", status=401, type="authentication_error", code="no_credentials"
            )
        if isinstance(status, int) and 400 <= status < 500:
            return Refused(f"LiteLLM cannot translate this request: {text}", code="not_translatable")
        return BridgeError(
            f"LiteLLM failed on this request, nothing was sent: {text}", code="native_lane_failed"
        )


class NativeCall:
    """One call that has been sent, or is about to be."""

    def __init__(
        self, lane: Lane, loaded: LiteLLM, gate: Gate, plan: Plan, fields: Mapping[str, Json], rollout_id: str
    ) -> None:
        self._lane = lane
        self._loaded = loaded
        self.gate = gate
        self._plan = plan
        self._fields = fields
        self._rollout_id = rollout_id
        self._made: Json = None
        self._first: Json = None
        self.stream = fields.get("stream") is True

    def rows(self) -> list[FieldRow]:
        """What became of each field."""
        return self.gate.rows

    async def open(self) -> None:
        """Send it. Afterwards either `relayed` is there, or `whole` and `events` can be read. Raises `BridgeError`."""
        gate = self.gate
        pattern = self._lane.pattern(stream=self.stream) if gate.mode == "relay" else None
        if pattern is not None:
            await gate.send_like(pattern)
            if gate.failure is not None:
                raise self._lane.failure(Withheld(), gate)
            return
        try:
            self._made = await self._loaded.complete(
                gate, self._lane.kwargs(self._plan, gate, stream=self.stream)
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
            self._lane.remember(self._rollout_id, choice["message"])
        return Whole(reply, self._head())

    def _head(self) -> httpx.Headers:
        return httpx.Headers() if self.gate.head is None else self.gate.head.headers

    @property
    def headers(self) -> httpx.Headers:
        """The provider's headers."""
        return self._head()

    async def events(self) -> AsyncGenerator[bytes]:
        """The reply as OpenAI's events; raises `BridgeError` where it does not end well."""
        options = self._fields.get("stream_options")
        usage_asked = as_object(options).get("include_usage") is True
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
            self._lane.remember(self._rollout_id, message)
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


def _clean(text: str) -> str:
    """LiteLLM's words without its own names in front and its advice to drop parameters."""
    first = text.split("\nTraceback", 1)[0]
    return _ADVICE.sub("", _PREFIX.sub("", first)).strip() or "it gave no reason"


def _transport_failure(error: httpx.TransportError, redactor: Redactor) -> UpstreamFailed:
    late = isinstance(error, httpx.TimeoutException)
    detail = redactor.message(str(error) or type(error).__name__)
    return UpstreamFailed(
        f"the provider could not be reached: {detail}",
        status=504 if late else 502,
        code="upstream_timeout" if late else "upstream_unreachable",
    )
