"""What is said of a path or a method that is not served: in the shape that the client reads, and what to do instead.

Pure. Knows the dialects' paths and no route that is not a call.
"""

from __future__ import annotations

from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.errors import Refused

_PREFIX = "/v1"
_ROLLOUTS = "/v1/rollouts/"
_SERVED_AT = tuple((at, dialect) for dialect in DIALECTS.values() for at in dialect.served_at)
_PATHS = tuple(at for at, _ in _SERVED_AT)
_CALLS = ", ".join(f"{_PREFIX}{dialect.path}" for dialect in DIALECTS.values())
_INSTEAD = {
    "/messages/count_tokens": "tokens are not counted ahead of a call: read `usage` in a reply, which one with"
    " max_tokens 1 has too, or count with a tokenizer of your own",
    "/messages/batches": "there are no batches; send each of the requests to /v1/messages",
    "/responses": "responses are not kept here, so none can be fetched, counted or cancelled; send each call its whole"
    " input, and read its reply",
    "/chat/completions": "completions are not kept here; read the reply of the call",
}
"""What to do instead of what lies behind these paths; the first that fits is said."""


def dialect_near(path: str) -> Dialect | None:
    """The dialect whose clients ask for a path at or behind the one of its calls, None for any other path."""
    rest = _behind_prefix(path)
    if rest is None:
        return None
    return next((dialect for at, dialect in _SERVED_AT if rest == at or rest.startswith(f"{at}/")), None)


def no_route(path: str, shown: str) -> Refused:
    """A 404 for a path that is none; `shown` is what of it may be shown."""
    return Refused(
        f"no route {shown!r}; {_instead_of(path)}", status=404, type="not_found_error", code="not_found"
    )


def wrong_method(method: str, allowed: str) -> Refused:
    """A 405; `allowed` are the methods that the path does have, comma separated."""
    headers = ((b"allow", allowed.encode()),)
    message = f"{method} is not for this route; send {allowed.replace(', ', ' or ')}"
    return Refused(message, status=405, code="method_not_allowed", headers=headers)


def _instead_of(path: str) -> str:
    rest = _behind_prefix(path) or ""
    if rest.endswith("/") and rest[:-1] in _PATHS:
        return "leave out the slash at its end"
    if path.endswith(_PATHS) and rest not in _PATHS:
        return (
            "it looks as if a client's base URL is wrong: OpenAI's clients want the bridge's address and /v1,"
            " Anthropic's the address alone; or both want it with /v1/rollouts/ROLLOUT_ID"
        )
    for behind, instead in _INSTEAD.items():
        if f"{rest.removeprefix(_PREFIX)}/".startswith(f"{behind}/"):
            return instead
    return f"calls go to {_CALLS}"


def _behind_prefix(path: str) -> str | None:
    """What of a path stands behind `/v1` or a rollout's prefix, None where it has neither."""
    if path.startswith(_ROLLOUTS):
        _, slash, rest = path[len(_ROLLOUTS) :].partition("/")
        return slash + rest
    return path[len(_PREFIX) :] if path.startswith(f"{_PREFIX}/") else None
