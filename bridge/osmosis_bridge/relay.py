"""One stream on its way to the client, as far as that needs no waiting. Knows no transport and no event loop."""

from __future__ import annotations

from collections.abc import Callable

from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.entry import Entry
from osmosis_bridge.reply import Reply


class Relay:
    """What comes of a stream's bytes: read, kept, sent; `touch` is called with every sending.

    `held` is what could not be sent at once; whoever waits sends it before anything else.
    """

    __slots__ = ("_clock", "_entry", "_reply", "_stream", "_touch", "held")

    def __init__(
        self,
        entry: Entry,
        stream: Stream,
        reply: Reply,
        touch: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._entry = entry
        self._stream = stream
        self._reply = reply
        self._touch = touch
        self._clock = clock
        self.held = b""

    def take(self, piece: bytes) -> bool:
        """Pass on what the client may have of a piece; False where it ends, or where something is to be waited for."""
        return self.pass_on(self._stream.feed(piece))

    def pass_on(self, out: bytes) -> bool:
        """Send what a stream gave out; the same."""
        stream, reply, entry = self._stream, self._reply, self._entry
        if stream.started and entry.ttft is None:
            entry.ttft = self._clock() - entry.call.received
        if out:
            self._touch()
            entry.keep(out)
            if not (reply.started and reply.push(out)):
                self.held = out
                return False
        return not stream.ended and (reply.started or not stream.started)
