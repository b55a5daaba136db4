"""What can go wrong with a call, by whose doing.

    BridgeError                 status, code, body()
      Refused                   the caller's doing; 4xx; never sent to a provider
        Unrecordable            ours: no record could be kept, so nothing is sent; 503
      UpstreamFailed            the provider's doing, or the way to it; its status, or 502/503/504
      LedgerFailed              ours: a record could not be kept, so the call may not count; 500

Knows nothing of HTTP servers, sockets or providers. Text made by others is sanitised before it gets here
(`redact.py`); whatever a caller wrote into a name is bounded here.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from osmosis_bridge.redact import one_line

Origin = Literal["bridge", "upstream"]
_NAME_LIMIT = 200


class BridgeError(Exception):
    """A failure with a status and a body in OpenAI's shape.

    `status` is the HTTP status; `code`, `type` and `param` go into the body; `headers` are extra reply headers
    (lower-case names); `origin` says whose failure it is.
    """

    status: int = 500
    origin: Origin = "bridge"
    type: str = "server_error"

    def __init__(
        self,
        message: str,
        *,
        code: str | int | None = None,
        status: int | None = None,
        param: str | None = None,
        type: str | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param
        self.headers = headers
        if status is not None:
            self.status = status
        if type is not None:
            self.type = type

    def body(self) -> bytes:
        """The error as one JSON object: `{"error": {"message", "type", "param", "code"}}`."""
        return encode_error(self.message, self.type, self.param, self.code)


class Refused(BridgeError):
    """The caller's doing; nothing was sent to a provider."""

    status = 400
    type = "invalid_request_error"


class Unrecordable(Refused):
    """No record can be kept at present, so nothing is sent; the same call may be sent again shortly."""

    status = 503
    type = "server_error"


class UpstreamFailed(BridgeError):
    """The provider refused, failed, could not be reached or broke off."""

    status = 502
    origin = "upstream"
    type = "upstream_error"


class LedgerFailed(BridgeError):
    """The record of a call could not be written; the call is not reported as a success."""

    status = 500


def encode_error(message: str, type: str, param: str | None, code: str | int | None) -> bytes:
    """The bytes of OpenAI's error object; its texts on one line each, and bounded."""
    error = {
        "message": one_line(message),
        "type": type,
        "param": None if param is None else one_line(param, _NAME_LIMIT),
        "code": one_line(code, _NAME_LIMIT) if isinstance(code, str) else code,
    }
    return msgspec.json.encode({"error": error})
