"""The nouns of one call, a value per stage.

    Call --admit--> Admitted --open, relay--> Outcome --> Record

Each later value holds what it needs of the earlier one, so that a field that means nothing yet cannot be read.
Knows no I/O, no clock and no wire format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Status = Literal["ok", "refused", "upstream_error", "truncated", "cancelled"]
UsageSource = Literal["provider", "estimated", "missing"]
Fields = Mapping[str, msgspec.Raw]

DEFAULT_ALIAS = "osmosis-rollout"
"""The model name a rollout uses when it is told none; every other name is an alias of the same model."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """One request as it came in: who asks, when, and the bytes.

    `started_at` is seconds since the epoch, `received` a monotonic time in seconds, `seq` the number of the call
    within its rollout, from 1. `retry_count` is the SDK's own, None where it does not count;
    `headers` go out beside the usual ones.
    """

    call_id: str
    rollout_id: str
    seq: int
    started_at: float
    received: float
    dialect: str
    body: bytes
    retry_count: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Admitted(msgspec.Struct, frozen=True):
    """A call that may be sent: its fields in the order they go out.

    `alias_json` is the client's `model` as JSON text, echoed in replies. `usage_asked` says whether the client itself
    asked for usage on its stream. `forwarded` names the inference fields that go out, `stripped` the controls that do
    not, in the order met.
    """

    alias: str
    alias_json: bytes
    stream: bool
    usage_asked: bool
    body: bytes
    forwarded: tuple[str, ...]
    stripped: tuple[str, ...]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Token counts of one call as the provider gave them; absent where it gave none."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def total(self) -> int:
        """All tokens of the call: the provider's total, else prompt + completion."""
        if self.total_tokens is not None:
            return self.total_tokens
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)

    @property
    def context(self) -> int:
        """Tokens the context window held: prompt + completion, or the provider's total where that is larger."""
        return max((self.prompt_tokens or 0) + (self.completion_tokens or 0), self.total_tokens or 0)


class Outcome(msgspec.Struct, frozen=True):
    """How a call ended; `served_model` and `system_fingerprint` are the provider's words for what answered."""

    status: Status
    http_status: int | None = None
    error_code: str | None = None
    finish_reasons: tuple[str, ...] = ()
    usage: Usage | None = None
    usage_source: UsageSource | None = None
    cost_usd: float | None = None
    replay_of: str | None = None
    served_model: str | None = None
    system_fingerprint: str | None = None


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one line that is kept of a call, however it ended; holds no prompt, completion or secret."""

    call_id: str
    rollout_id: str
    seq: int
    started_at: str
    duration_ms: float
    status: Status
    dialect: str
    lane: str
    model: str
    provider: str
    endpoint: str | None = None
    served_model: str | None = None
    system_fingerprint: str | None = None
    ttft_ms: float | None = None
    alias: str | None = None
    stream: bool | None = None
    http_status: int | None = None
    error_code: str | None = None
    finish_reasons: tuple[str, ...] = ()
    usage: Usage | None = None
    usage_source: UsageSource | None = None
    cost_usd: float | None = None
    stripped: tuple[str, ...] = ()
    forwarded: tuple[str, ...] = ()
    upstream_request_id: str | None = None
    replay_of: str | None = None
