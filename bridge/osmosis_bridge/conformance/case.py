"""What a case is: a request, what the upstream does, and what must then be seen.

A case is data where it can be (`exchange`), and a small coroutine over a `Stage` where several requests or a
client that leaves are needed. Opens no socket itself.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from osmosis_bridge.conformance.exact import Exact, parsed_or_none
from osmosis_bridge.conformance.reply import Reply
from osmosis_bridge.conformance.script import Header, Script
from osmosis_bridge.conformance.upstream import Received

if TYPE_CHECKING:
    from osmosis_bridge.conformance.stage import Stage

Kind: TypeAlias = Literal["F", "U", "S", "T", "E", "C"]
KINDS: dict[Kind, str] = {
    "F": "fields reach the provider",
    "U": "usage is counted, and shown only when asked",
    "S": "streams: framing, errors, endings",
    "T": "tools, reasoning and content survive",
    "E": "errors, statuses and secrets",
    "C": "cancellation, limits and transport",
}
Scope: TypeAlias = Literal["portable", "ours"]
"""portable: any OpenAI-compatible proxy; ours: needs a surface that only this bridge has."""

CASE = "$CASE"
"""Stands in a request for the token that chooses the script."""
MODEL = "$MODEL"
"""Stands in a raw body for the name by which the target calls its model."""


ASKED_TO_STREAM = "the provider is asked to stream"
"""What is wanted of every streamed call."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A case that failed: what was wanted and what was seen."""

    expected: str
    seen: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of the client; JSON parts are text, so that they go out as written.

    `fields` are extra members (`"seed":1,"user":"x"`), `messages` the whole list, `raw` a whole body in place of
    all; `model` is JSON text, the target's alias where None. `auth` None sends the target's bearer, `""` none, else
    this value. `path` holds `{rollout}` where the rollout id stands; the target's own where None.
    """

    fields: str = ""
    messages: str | None = None
    raw: bytes | None = None
    model: str | None = None
    stream: bool = False
    headers: tuple[Header, ...] = ()
    method: str = "POST"
    path: str | None = None
    auth: str | None = None
    transfer: Literal["length", "chunked"] = "length"

    def body(self, token: str, alias: str) -> bytes:
        """The bytes of the body, with the token in place."""
        if self.raw is not None:
            body = self.raw.replace(CASE.encode(), f"case:{token}".encode())
            return body.replace(MODEL.encode(), alias.encode())
        messages = self.messages or f'[{{"role":"user","content":"{CASE}"}}]'
        model = self.model if self.model is not None else json.dumps(alias)
        parts = [f'"model":{model}', f'"messages":{messages}']
        if self.fields:
            parts.append(self.fields)
        if self.stream:
            parts.append('"stream":true')
        text = "{" + ",".join(parts) + "}"
        return text.replace(CASE, f"case:{token}").encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that one exchange left behind."""

    reply: Reply
    calls: tuple[Received, ...]
    """What the upstream received for the case."""
    sent: bytes
    """The body that the client sent."""
    ours: bool
    records: tuple[Exact, ...] = ()
    """The ledger's lines of the case's rollout; empty where no ledger can be read."""
    readable: bool = False
    """Whether a ledger can be read."""
    secrets: tuple[str, ...] = ()
    """Values that the proxy must keep to itself."""
    upstream_model: str = ""
    """The name by which the proxy's configured model is asked for at the upstream; empty where it is not known."""

    @property
    def sent_json(self) -> Exact:
        """The body that the client sent, as exact JSON."""
        return parsed_or_none(self.sent)

    @property
    def upstream_json(self) -> Exact:
        """The body of the first request that the upstream received."""
        return self.calls[0].json() if self.calls else None


Check: TypeAlias = Callable[[Seen], "Fault | None"]
Play: TypeAlias = "Callable[[Stage], Awaitable[Fault | None]]"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing a proxy must get right."""

    id: str
    """Kind, number of the report where there is one, and a word: `S4-reset`."""
    title: str
    """What must happen, as a sentence."""
    play: Play
    scope: Scope = "portable"
    alone: bool = False
    """Whether no other case may run meanwhile."""
    needs: str = ""
    """A knob of the target that the case needs, by its name in `Knobs`."""
    wants_bearer: bool = False
    """Whether the target must ask for a bearer: without one there is nothing to refuse."""

    @property
    def kind(self) -> Kind:
        """The kind, from the id."""
        return next(kind for kind in KINDS if kind == self.id[0])


def exchange(
    case_id: str,
    title: str,
    ask: Ask,
    script: Script,
    *checks: Check,
    scope: Scope = "portable",
) -> Case:
    """A case of one request: every check must hold."""

    async def play(stage: Stage) -> Fault | None:
        stage.play(script)
        seen = await stage.exchange(ask)
        return first_fault(seen, asked_to_stream, *checks)

    return Case(case_id, title, play, scope)


def asked_to_stream(seen: Seen) -> Fault | None:
    """Where the upstream would stream, it was asked to."""
    if any(call.unstreamed for call in seen.calls):
        return Fault(ASKED_TO_STREAM, "it was asked for a plain reply")
    return None


def first_fault(seen: Seen, *checks: Check) -> Fault | None:
    """The first check that does not hold."""
    return next((fault for check in checks if (fault := check(seen))), None)


def alone(case: Case) -> Case:
    """The same case, run by itself."""
    return replace(case, alone=True)


def with_bearer(case: Case) -> Case:
    """The same case, skipped where the suite was given no bearer."""
    return replace(case, wants_bearer=True)


def needing(case: Case, knob: str) -> Case:
    """The same case, skipped where the target does not have this knob."""
    return replace(case, needs=knob)
