"""The supervisor's side of the rollout protocol (fingerprint 0.4) over HTTP.

Knows requests, replies and which faults are worth another try; knows nothing of rows, records or processes. Replies
are read leniently, because the server may be anybody's.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal, TypeVar

import msgspec

from osmosis_bridge.upstream import TransportError
from osmosis_runner.web import Answer, Site

TERMINAL = ("success", "failure", "cancelled")

PHASELESS = ("lease_expired", "internal_error")
"""Categories of failures that are neither the workflow's nor the grader's doing."""

CALLBACK_FIELD = "completion_callback_url"
"""What servers required before results were polled."""

ADMIT_WITHIN_S = 60.0
CANCEL_WITHIN_S = 5.0
HEALTH_WITHIN_S = 5.0
WAIT_MARGIN_S = 10.0
TRANSPORT_DELAYS_S = (0.1, 0.5)
GATEWAY_DELAYS_S = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
MOST_ADMISSION_TRIES = 60


class ServerLost(Exception):
    """The server does not answer, or not sensibly; the text says how."""


class AdmissionRefused(Exception):
    """The server will not take this rollout: a fault of the request, not of the server."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"the rollout server answered {status}: {detail}")
        self.status = status


_NOTHING = msgspec.Raw(b"null")


class RolloutInit(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Body of `POST /rollout`; times in seconds."""

    rollout_id: str
    initial_messages: list[Any]
    chat_completions_url: str
    llm_api_key: str
    label: str | None = None
    metadata: Any = None
    agent_timeout_sec: float | None = None
    grader_timeout_sec: float | None = None
    extra_fields: Any = None


class Admission(msgspec.Struct, frozen=True, gc=False):
    """What the server promises about a rollout it took."""

    polling_lease_token: str
    result_wait_timeout_sec: float = 30.0
    polling_lease_timeout_sec: float = 120.0


class SampleReply(msgspec.Struct, frozen=True, gc=False):
    """A sample. What a record does not need stays as it came: it is read only when there is no trajectory file."""

    reward: float | None = None
    remove_sample: bool = False
    messages: msgspec.Raw = _NOTHING
    metrics: msgspec.Raw = _NOTHING
    extra_fields: msgspec.Raw = _NOTHING


class ResultReply(msgspec.Struct, frozen=True, gc=False):
    """A reply to a poll. The last five fields are sent by our own host only."""

    status: str
    sample: SampleReply | None = None
    err_message: str | None = None
    err_category: str | None = None
    err_phase: Literal["workflow", "grader"] | None = None
    err_traceback: str | None = None
    timed_out: bool = False
    """The workflow's time ran out, and what it had left was graded."""
    blocked_ms: int | None = None
    blocked_at: str | None = None


class _Concurrency(msgspec.Struct, frozen=True):
    max_concurrent: int | None = None


class _ChatEndpoint(msgspec.Struct, frozen=True):
    requires_public_url: bool = False


class Health(msgspec.Struct, frozen=True):
    """Who answers and how much it takes at once."""

    instance_id: str | None = None
    max_queue_depth: int | None = None
    concurrency: _Concurrency | None = None
    chat_endpoint: _ChatEndpoint | None = None

    @property
    def capacity(self) -> int | None:
        """Rollouts it runs at once; None when it does not say."""
        if self.max_queue_depth is not None:
            return self.max_queue_depth
        return self.concurrency.max_concurrent if self.concurrency else None

    @property
    def needs_public_url(self) -> bool:
        """Whether its rollouts cannot reach loopback."""
        return self.chat_endpoint is not None and self.chat_endpoint.requires_public_url


_admission = msgspec.json.Decoder(Admission, strict=False)
_result = msgspec.json.Decoder(ResultReply, strict=False)
_health = msgspec.json.Decoder(Health, strict=False)
_encode = msgspec.json.Encoder().encode


class RolloutClient(msgspec.Struct, frozen=True):
    """Speaks to one rollout server."""

    site: Site

    async def health(self) -> Health:
        """Ask who is there; raises `ServerLost`. The instance id may come as a header, as bootstraps send it."""
        answer = await self._once(b"GET", "/health", within_s=HEALTH_WITHIN_S)
        if answer.status != 200:
            raise ServerLost(f"GET /health answered {answer.status}: {_detail(answer)}")
        health = _read(_health, answer)
        named = answer.header(b"x-osmosis-rollout-instance-id")
        return msgspec.structs.replace(health, instance_id=named) if named else health

    async def admit(self, request: RolloutInit) -> Admission:
        """Hand a rollout over. Waits while the server is full; raises `AdmissionRefused` and `ServerLost`."""
        body = _encode(request)
        for _ in range(MOST_ADMISSION_TRIES):
            answer = await self._once(b"POST", "/rollout", body, within_s=ADMIT_WITHIN_S)
            if answer.status == 202:
                return _read(_admission, answer)
            if answer.status != 429:
                break
            await asyncio.sleep(_retry_after(answer))
        else:
            raise ServerLost("the rollout server has had no room for too long")
        if 400 <= answer.status < 500:
            raise AdmissionRefused(answer.status, _detail(answer))
        raise ServerLost(f"POST /rollout answered {answer.status}: {_detail(answer)}")

    async def result(self, rollout_id: str, admission: Admission) -> ResultReply:
        """Poll until the rollout has ended; raises `ServerLost`."""
        path, graded = f"/rollout/{rollout_id}/result?wait=terminal", False
        lease = ((b"x-osmosis-rollout-lease", admission.polling_lease_token.encode("latin-1")),)
        within = admission.result_wait_timeout_sec + WAIT_MARGIN_S
        patience = _Patience(admission.polling_lease_timeout_sec)
        while True:
            asked_at = time.monotonic()
            try:
                answer = await self.site.ask(b"GET", path, within_s=within, headers=lease)
            except TransportError as error:
                await patience.after_transport(error)
                continue
            if answer.status in (502, 503, 504):
                await patience.after_gateway(answer)
                continue
            if answer.status != 200:
                raise ServerLost(f"GET /rollout/ID/result answered {answer.status}: {_detail(answer)}")
            reply = _read(_result, answer)
            if reply.status in TERMINAL:
                return in_phase(reply, graded=graded)
            graded = graded or reply.status == "grading"
            patience = _Patience(admission.polling_lease_timeout_sec, asked_at)

    async def cancel(self, ids: list[str] | None) -> None:
        """Cancel these rollouts, or all. A server that does not answer in time is not waited for."""
        body = _encode({"all": True} if ids is None else {"ids": ids})
        try:
            await self.site.ask(b"POST", "/rollout/cancel", body, within_s=CANCEL_WITHIN_S)
        except TransportError:
            return

    async def _once(self, method: bytes, path: str, body: bytes = b"", *, within_s: float) -> Answer:
        try:
            return await self.site.ask(method, path, body, within_s=within_s)
        except TransportError as error:
            raise ServerLost(f"{method.decode()} {path}: {error}") from None


def in_phase(reply: ResultReply, *, graded: bool) -> ResultReply:
    """A failure with the phase it belongs to, where a server does not name it. Pure.

    A workflow that fails leaves no sample and a grader that fails leaves the workflow's. `graded`: the server was
    seen grading.
    """
    if reply.status != "failure" or reply.err_phase is not None or reply.err_category is None:
        return reply
    if reply.err_category in PHASELESS:
        return reply
    return msgspec.structs.replace(reply, err_phase="grader" if graded or reply.sample else "workflow")


class _Patience:
    """The tries that are left for one poll, within the lease that the last good one confirmed."""

    def __init__(self, lease_s: float, confirmed_at: float | None = None) -> None:
        self._until = (time.monotonic() if confirmed_at is None else confirmed_at) + lease_s
        self._transport = iter(TRANSPORT_DELAYS_S)
        self._gateway = iter(GATEWAY_DELAYS_S)

    async def after_transport(self, error: TransportError) -> None:
        await self._wait(next(self._transport, None), f"polling failed: {error}")

    async def after_gateway(self, answer: Answer) -> None:
        await self._wait(next(self._gateway, None), f"polling answered {answer.status}")

    async def _wait(self, delay: float | None, text: str) -> None:
        if delay is None or time.monotonic() + delay >= self._until:
            raise ServerLost(text)
        await asyncio.sleep(delay)


Reply = TypeVar("Reply")


def _read(decoder: msgspec.json.Decoder[Reply], answer: Answer) -> Reply:
    try:
        return decoder.decode(answer.body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ServerLost(f"an unreadable reply: {error}") from None


class _Wrong(msgspec.Struct):
    """One field that FastAPI found wrong; it repeats the whole request beside it."""

    msg: str
    loc: list[str | int] = msgspec.field(default_factory=list[str | int])


_wrongs = msgspec.json.Decoder(dict[Literal["detail"], list[_Wrong]])
_words = msgspec.json.Decoder(dict[str, object])


def _detail(answer: Answer) -> str:
    """The server's words, or the first of them, on one line."""
    text = answer.body.decode("utf-8", "replace")
    try:
        found = "; ".join(
            f"{'.'.join(map(str, wrong.loc))}: {wrong.msg}" for wrong in _wrongs.decode(text)["detail"]
        )
    except (msgspec.DecodeError, KeyError):
        found = _said(text)
    if CALLBACK_FIELD in found:
        found += " (a server of osmosis-ai before 0.3.3, which reports by callbacks; take a newer osmosis-ai)"
    return " ".join(found.split())[:300]


def _said(text: str) -> str:
    try:
        value = _words.decode(text)
    except msgspec.DecodeError:
        return text
    said = value.get("detail") or value.get("error")
    return said if isinstance(said, str) else text


def _retry_after(answer: Answer) -> float:
    try:
        wanted = float(answer.header(b"retry-after") or 1.0)
    except ValueError:
        wanted = 1.0
    return min(max(wanted, 0.05), 60.0)
