"""What makes a wire format: its route, its envelope, its replies, its streams, its errors.

A dialect decides and does no I/O; the one that serves asks it and knows none of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from osmosis_bridge.call import Admitted, Outcome
from osmosis_bridge.client_headers import PASSED
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.policy import Envelope
from osmosis_bridge.redact import Redactor
from osmosis_bridge.sse import encode_event

Headers = tuple[tuple[bytes, bytes], ...]


class AnswerFailed(UpstreamFailed):
    """A reply that came whole and tells of a failure; `outcome` is what it says of the call beside that: its usage."""

    def __init__(self, failure: UpstreamFailed, outcome: Outcome) -> None:
        super().__init__(
            failure.message,
            code=failure.code,
            status=failure.status,
            param=failure.param,
            type=failure.type,
            headers=failure.headers,
        )
        self.outcome = outcome


class Dialect(ABC):
    """One wire format; `path` is what stands behind a base URL, on the bridge and at the provider alike.

    `served_at` are the paths behind a prefix under which the bridge serves it, the longest first: more than `path`
    where clients add more than that to their base URL.
    """

    passed: frozenset[bytes] = PASSED
    """Names of the client's headers that go out, in lower case."""
    passed_natively: frozenset[bytes] = frozenset()
    """Those that the native lane's process makes use of, where it sends a call of this dialect as it came."""

    def __init__(self, name: str, path: str, envelope: Envelope, also_at: tuple[str, ...] = ()) -> None:
        self.name = name
        self.path = path
        self.path_bytes = path.encode()
        self.envelope = envelope
        self.served_at = (*also_at, path)

    @abstractmethod
    def read_reply(self, body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
        """A plain reply that came with HTTP 2xx: what is passed on, and how the call ended.

        Raises `UpstreamFailed` where the body is an error or no answer at all, an `AnswerFailed` where it can be read.
        """

    @abstractmethod
    def open_stream(self, admitted: Admitted, redactor: Redactor) -> Stream:
        """A stream that begins."""

    def error_body(self, error: BridgeError) -> bytes:
        """An error as a reply of its own."""
        return error.body()

    def error_event(self, error: BridgeError) -> bytes:
        """An error as the last event of a stream."""
        return encode_event(error.body())

    def headers(self, key: str | None, client: Mapping[bytes, bytes]) -> Headers:
        """What goes out beside the usual headers and those of the client that pass; `client` are all of its own."""
        return ()

    def outgoing(self, usual: Headers, host: str) -> Headers:
        """Those of the usual headers that may go to `host` in this dialect."""
        return usual
