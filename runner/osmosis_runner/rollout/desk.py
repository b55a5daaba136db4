"""The server's thread: admits rollouts, answers polls, keeps leases and time limits.

Never runs a line of the author's code, so it answers in time whatever that code does. A rollout's clock stands
still while another rollout blocks the author's loop.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from osmosis_runner.rollout.admission import Refused, RolloutRequest, read_request
from osmosis_runner.rollout.execution import Conclusion, Failure, Job, Verdict
from osmosis_runner.rollout.registry import LEASE_S, RESULT_WAIT_S, Entry, Registry, Status, Taken
from osmosis_runner.rollout.reply import encode_reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from osmosis_runner.rollout.author import AuthorLoop
    from osmosis_runner.rollout.execution import Phase
    from osmosis_runner.rollout.watch import Blockage, Watch

PROTOCOL = "0.4"
MOST_ACTIVE = 10_000
CONDEMN_AFTER_S = 0.5
"""How long cancelled code may take before it is broken into, should it block the loop."""
CLEANUP_S = 20.0
"""How long cancelled code may take before its result is published without it."""
SWEEP_S = 1.0
RETRY_AFTER_S = 5

Reply: TypeAlias = tuple[int, bytes, tuple[tuple[bytes, bytes], ...]]
"""Status, JSON body, further headers."""


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What the supervisor tells the host through its environment."""

    port: int
    artifact_root: Path
    instance_id: str | None = None
    api_key: str | None = field(default=None, repr=False)
    max_concurrent: int | None = None


class CancelRequest(msgspec.Struct):
    """Body of `POST /rollout/cancel`; exactly one field is used."""

    ids: list[str] | None = None
    prefix: str | None = None
    all: bool = False


class Seat(msgspec.Struct, eq=False):
    """One admitted rollout, as the desk sees it."""

    entry: Entry
    job: Job
    started_at: float = 0.0
    lost_before: float = 0.0
    """Seconds that others had blocked the loop for when the phase began."""
    blocked_s: float = 0.0
    blocked_at: str | None = None
    timer: asyncio.TimerHandle | None = None


class Desk:
    """The protocol's state and rules. One loop only, but for `entered` and `concluded`."""

    def __init__(
        self, settings: HostSettings, author: AuthorLoop, watch: Watch, log: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._author = author
        self._watch = watch
        self._log = log
        self._registry = Registry()
        self._seats: dict[str, Seat] = {}
        self._process_id = secrets.token_hex(16)
        self._accepting = True
        self._loop = asyncio.get_running_loop()

    @property
    def active(self) -> int:
        """Rollouts whose code may still run."""
        return self._registry.active

    def health(self) -> Reply:
        """Identity, capacity and load."""
        queued, running = self._registry.counts()
        body = {
            "status": "ok",
            "protocol_version": PROTOCOL,
            "instance_id": self._settings.instance_id or self._process_id,
            "process_id": self._process_id,
            "concurrency": {
                "max_concurrent": self._settings.max_concurrent,
                "queued": queued,
                "running": running,
            },
            "lifecycle": {"accepting_rollouts": self._accepting, "active_rollouts": self.active},
        }
        return _json(200, body)

    def admit(self, body: bytes) -> Reply:
        """`POST /rollout`."""
        if not self._accepting:
            return _detail(503, "the rollout server is shutting down")
        try:
            request = read_request(body)
        except Refused as refusal:
            return _detail(422, str(refusal))
        limit = self._settings.max_concurrent
        if self.active >= (MOST_ACTIVE if limit is None else 2 * limit):
            status, text, _ = _detail(429, "no room for another rollout")
            return status, text, ((b"retry-after", b"%d" % RETRY_AFTER_S),)
        return self._take(request)

    async def result(self, rollout_id: str, lease: str | None, *, until_end: bool) -> Reply:
        """`GET /rollout/{id}/result`: the status once it is another than the one told last, or after the agreed wait.

        With `until_end` (ours: `?wait=terminal`) steps before the last are not told.
        """
        if lease is None:
            return _detail(422, "header X-Osmosis-Rollout-Lease is missing")
        entry = self._registry.find(rollout_id)
        if entry is None:
            return _detail(404, "no rollout of this id")
        if not secrets.compare_digest(lease.encode(), entry.lease_token.encode()):
            return _detail(403, "wrong lease")
        self._registry.renew(entry, self._loop.time())
        await self._changed(entry, until_end=until_end)
        entry.told = entry.status
        if not entry.status.terminal:
            return _json(200, {"rollout_id": rollout_id, "status": entry.status.value})
        if entry.result is None:
            return _detail(404, "the result of this rollout is no longer kept")
        reply = entry.result
        self._registry.delivered(entry)
        return 200, reply, ()

    def cancel(self, body: bytes) -> Reply:
        """`POST /rollout/cancel`."""
        try:
            wanted = msgspec.json.decode(body, type=CancelRequest)
        except (msgspec.DecodeError, ValueError) as error:
            return _detail(422, str(error))
        if sum((wanted.ids is not None, wanted.prefix is not None, wanted.all)) != 1:
            return _detail(422, "give exactly one of ids, prefix and all")
        dispositions = dict.fromkeys(wanted.ids or (), "not_found")
        for entry in self._registry.select(wanted.ids, wanted.prefix):
            queued = entry.status is Status.QUEUED
            dispositions[entry.rollout_id] = "cancelled_queued" if queued else "cancelled_running"
            self._end(self._seats[entry.rollout_id], Verdict(Status.CANCELLED))
        return _json(200, {"dispositions": dispositions})

    def fence(self) -> None:
        """Admit nothing more."""
        self._accepting = False

    def cancel_all(self) -> None:
        """Cancel whatever runs."""
        for entry in self._registry.select(None, None):
            self._end(self._seats[entry.rollout_id], Verdict(Status.CANCELLED))

    async def sweep(self) -> None:
        """End rollouts whose lease lapsed and free old ids, for ever."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = self._loop.time()
            for entry in self._registry.lapsed(now):
                text = f"nobody asked for the result for {LEASE_S:g} s"
                failure = Failure("lease_expired", text, _phase(entry.status))
                self._end(self._seats[entry.rollout_id], Verdict(Status.FAILURE, failure))
            self._registry.forget(now)

    def entered(self, job: Job, status: Status) -> None:
        """A phase of the job began. Called on the author's thread."""
        self._post(self._entered, job, status)

    def concluded(self, job: Job, status: Status, reply: bytes) -> None:
        """The job is over. Called on the author's thread."""
        self._post(self._concluded, job, status, reply)

    def noticed(self, blockage: Blockage) -> None:
        """A rollout blocks the author's loop."""
        self._log(f"{_named(blockage)} blocks the event loop at {blockage.where}; other rollouts wait for it")

    def unblocked(self, blockage: Blockage, length: float) -> None:
        """It no longer does."""
        seat = self._seat_of(blockage)
        if seat is not None:
            seat.blocked_s += length
            seat.blocked_at = blockage.where
        self._log(f"{_named(blockage)} blocked the event loop for {length:.1f} s at {blockage.where}")

    def _take(self, request: RolloutRequest) -> Reply:
        try:
            entry = self._registry.admit(request, secrets.token_hex(16), self._loop.time())
        except Taken:
            return _detail(409, "this rollout id is active or its result is still kept")
        job = Job(request, self._settings.artifact_root / request.rollout_id, self)
        self._seats[entry.rollout_id] = Seat(entry, job)
        self._author.submit(job)
        return _json(
            202,
            {
                "rollout_id": entry.rollout_id,
                "status": entry.status.value,
                "polling_lease_token": entry.lease_token,
                "result_wait_timeout_sec": RESULT_WAIT_S,
                "polling_lease_timeout_sec": LEASE_S,
            },
        )

    async def _changed(self, entry: Entry, *, until_end: bool) -> None:
        deadline = self._loop.time() + RESULT_WAIT_S
        while not entry.status.terminal and (until_end or entry.status is entry.told):
            change = self._loop.create_future()
            entry.waiters.append(partial(_set, change))
            timer = self._loop.call_at(deadline, _set, change)
            await change
            timer.cancel()
            if self._loop.time() >= deadline:
                return

    def _entered(self, job: Job, status: Status) -> None:
        seat = self._seats.get(job.request.rollout_id)
        if seat is None:
            return
        self._registry.advance(seat.entry, status)
        if job.passed_over is not None and job.verdict is job.passed_over:
            job.verdict, job.condemned = None, False
        request = job.request
        limit = request.agent_timeout_sec if status is Status.RUNNING else request.grader_timeout_sec
        _disarm(seat)
        if limit is not None and job.verdict is None:
            now = self._loop.time()
            seat.started_at, seat.lost_before = now, self._watch.lost(now) - seat.blocked_s
            seat.timer = self._loop.call_later(max(limit, 0.0), self._time_up, seat, limit)

    def _time_up(self, seat: Seat, limit: float) -> None:
        left = limit - self._used(seat)
        if left > 0.001:
            seat.timer = self._loop.call_later(left, self._time_up, seat, limit)
            return
        phase = _phase(seat.entry.status)
        blockage = self._watch.culprit()
        text = f"the {phase} did not finish within {limit:g} s"
        if blockage is not None and blockage.job is seat.job:
            text += f"; it blocked the event loop at {blockage.where}"
        self._end(seat, Verdict(Status.FAILURE, Failure("timeout", text, phase)))

    def _used(self, seat: Seat) -> float:
        """Seconds of its time limit that a phase has used: not those another rollout took from it."""
        now = self._loop.time()
        blockage = self._watch.culprit()
        own_now = now - blockage.since if blockage is not None and blockage.job is seat.job else 0.0
        taken = self._watch.lost(now) - seat.blocked_s - own_now - seat.lost_before
        return now - seat.started_at - taken

    def _end(self, seat: Seat, verdict: Verdict) -> None:
        if seat.job.verdict is not None:
            return
        seat.job.verdict = verdict
        self._author.cancel(seat.job)
        _disarm(seat)
        seat.timer = self._loop.call_later(CONDEMN_AFTER_S, self._condemn, seat)

    def _condemn(self, seat: Seat) -> None:
        seat.job.condemned = True
        seat.timer = self._loop.call_later(CLEANUP_S - CONDEMN_AFTER_S, self._publish_without, seat)

    def _publish_without(self, seat: Seat) -> None:
        verdict = seat.job.verdict or Verdict(Status.CANCELLED)
        conclusion = Conclusion(verdict.status, label=seat.job.request.label, failure=verdict.failure)
        reply = encode_reply(seat.entry.rollout_id, conclusion)
        self._registry.conclude(seat.entry, verdict.status, reply, self._loop.time())
        self._log(f"rollout {seat.entry.rollout_id} does not stop; its result is published without it")

    def _concluded(self, job: Job, status: Status, reply: bytes) -> None:
        seat = self._seats.pop(job.request.rollout_id, None)
        if seat is None:
            return
        _disarm(seat)
        blockage = self._watch.culprit()
        if blockage is not None and blockage.job is job:
            # It has just let go of the loop; the watch will notice in a moment.
            seat.blocked_s += self._loop.time() - blockage.since
            seat.blocked_at = blockage.where
        if seat.blocked_at is not None:
            mark = {"blocked_ms": round(seat.blocked_s * 1000), "blocked_at": seat.blocked_at}
            reply = reply[:-1] + b"," + msgspec.json.encode(mark)[1:]
        self._registry.conclude(seat.entry, status, reply, self._loop.time())
        self._registry.ended(seat.entry)

    def _seat_of(self, blockage: Blockage) -> Seat | None:
        return self._seats.get(blockage.job.request.rollout_id) if blockage.job else None

    def _post(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)


def _named(blockage: Blockage) -> str:
    return f"rollout {blockage.job.request.rollout_id}" if blockage.job else "a rollout"


def _phase(status: Status) -> Phase:
    return "grader" if status is Status.GRADING else "workflow"


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _disarm(seat: Seat) -> None:
    if seat.timer is not None:
        seat.timer.cancel()
        seat.timer = None


def _json(status: int, body: object) -> Reply:
    return status, msgspec.json.encode(body), ()


def _detail(status: int, text: str) -> Reply:
    return _json(status, {"detail": text})
