"""Who may call: the run's bearer, and bearers that are good for one rollout each.

A rollout's bearer is derived from the run's by HMAC-SHA-256 and carries its rollout id, so that nothing has to be
registered before a call, and no rollout can speak for another. Comparison takes constant time. Does no I/O.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from functools import lru_cache
from typing import Literal

import msgspec

ROLLOUT_ID_RULE = (
    "one path segment of letters, digits, '.', '_' and '-', a letter or digit first, at most 128"
)
_PREFIX = "orb-"
_ROLLOUT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Caller(msgspec.Struct, frozen=True):
    """Who a bearer speaks for: `run` may do everything, `rollout` may call in the name of `rollout_id` only."""

    kind: Literal["run", "rollout"]
    rollout_id: str | None = None


RUN = Caller("run")


def valid_rollout_id(rollout_id: str) -> bool:
    """Whether a rollout id is one safe path segment.

    That is letters, digits, `.`, `_` and `-`, at most 128, a letter or digit first.
    """
    return _ROLLOUT_ID.fullmatch(rollout_id) is not None


def rollout_bearer(token: str, rollout_id: str) -> str:
    """The bearer that is good for one rollout; `token` is the run's. Raises ValueError for an unsafe id."""
    if not valid_rollout_id(rollout_id):
        raise ValueError(f"not a rollout id: {rollout_id!r}")
    return f"{_PREFIX}{rollout_id}.{_signature(token, rollout_id)}"


def identify(authorization: bytes | None, token: str) -> Caller | None:
    """Who an `Authorization` header speaks for, None where it proves nothing; `token` is the run's bearer."""
    if authorization is None or authorization[:7].lower() != b"bearer ":
        return None
    given = authorization[7:].strip()
    if hmac.compare_digest(given, token.encode()):
        return RUN
    try:
        text = given.decode("ascii")
    except UnicodeDecodeError:
        return None
    rollout_id, _, signature = text.removeprefix(_PREFIX).rpartition(".")
    if not text.startswith(_PREFIX) or not valid_rollout_id(rollout_id):
        return None
    expected, caller = _of_rollout(token, rollout_id)
    return caller if hmac.compare_digest(signature.encode(), expected) else None


# A rollout calls many times; what its bearer must be does not change.
@lru_cache(maxsize=4096)
def _of_rollout(token: str, rollout_id: str) -> tuple[bytes, Caller]:
    return _signature(token, rollout_id).encode(), Caller("rollout", rollout_id)


def _signature(token: str, rollout_id: str) -> str:
    signature = hmac.new(token.encode(), b"osmosis-rollout:" + rollout_id.encode(), hashlib.sha256)
    return signature.hexdigest()[:40]
