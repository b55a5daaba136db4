"""The latest call of each open rollout, in memory only: what a rollout that fails without a word had said.

Of a rollout its latest request and the reply to it are kept as they came, and read only when somebody asks: keeping
them costs the call next to nothing. Bounded per rollout and in all; the rollout that called least recently goes first.
Knows no HTTP server.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Call
from osmosis_bridge.conversation import Message, answered, asked

LARGEST = 1024 * 1024
"""Bytes kept of one rollout."""
KEEP_BYTES = 64 * 1024 * 1024
"""Bytes kept in all."""

_LISTS = {"responses": "input", "completions": "prompt"}
_split = msgspec.json.Decoder(dict[str, Raw]).decode
_split_list = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode


class Told(msgspec.Struct, frozen=True):
    """What a rollout said so far; `complete` when its last call was answered and nothing had to be left out."""

    messages: list[Message]
    complete: bool


class Transcript:
    """One call: its body, and its reply while it comes."""

    __slots__ = ("body", "dialect", "ended_well", "full", "pieces", "size", "stream", "whole")

    def __init__(self, dialect: str, body: bytes, *, stream: bool, largest: int) -> None:
        self.dialect = dialect
        self.stream = stream
        self.whole = len(body) <= largest
        self.body = body if self.whole else shortened(dialect, body, largest)
        self.size = len(self.body)
        self.pieces: list[bytes] = []
        self.full = False
        self.ended_well = False

    def tell(self) -> Told:
        """Read it."""
        messages = asked(self.dialect, self.body)
        messages += answered(self.dialect, b"".join(self.pieces), stream=self.stream)
        return Told(messages, self.ended_well and self.whole and not self.full)


class Transcripts:
    """The transcripts of a bridge; `largest` bounds one, `keep` all of them, in bytes."""

    def __init__(self, largest: int = LARGEST, keep: int = KEEP_BYTES) -> None:
        self._largest = largest
        self._keep = keep
        self._bytes = 0
        self._kept: OrderedDict[str, Transcript] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, call: Call, *, stream: bool) -> Transcript:
        """A call is sent to the provider: it takes the place of the rollout's earlier one."""
        transcript = Transcript(call.dialect, call.body, stream=stream, largest=self._largest)
        self.forget(call.rollout_id)
        self._kept[call.rollout_id] = transcript
        self._bytes += transcript.size
        self._make_room()
        return transcript

    def add(self, rollout_id: str, transcript: Transcript, piece: bytes) -> None:
        """A piece of the reply; passed over when a later call has taken the place, or when it is too large."""
        if transcript.full or self._kept.get(rollout_id) is not transcript:
            return
        if transcript.size + len(piece) > self._largest:
            transcript.full = True
            return
        transcript.pieces.append(piece)
        transcript.size += len(piece)
        self._bytes += len(piece)
        self._make_room()

    def tell(self, rollout_id: str) -> Told:
        """What a rollout said so far; nothing for one that is closed or never called."""
        transcript = self._kept.get(rollout_id)
        return Told([], complete=False) if transcript is None else transcript.tell()

    def forget(self, rollout_id: str) -> None:
        """Keep nothing of a rollout any more."""
        transcript = self._kept.pop(rollout_id, None)
        if transcript is not None:
            self._bytes -= transcript.size

    def _make_room(self) -> None:
        while self._bytes > self._keep:
            self.forget(next(iter(self._kept)))


def shortened(dialect: str, body: bytes, largest: int) -> bytes:
    """A body whose messages fit into `largest` bytes: the first one, and as many of the last ones as there is room for.

    An empty object where that cannot be done.
    """
    name = _LISTS.get(dialect, "messages")
    try:
        messages = _split_list(_split(body)[name])
    except (msgspec.DecodeError, RecursionError, KeyError):
        return b"{}"
    room = largest - len(name) - 16
    head = [raw for raw in messages[:1] if len(bytes(raw)) <= room // 2]
    tail = _last_that_fit(messages[len(head) :], room - sum(len(bytes(raw)) + 1 for raw in head))
    return _encode({name: [Raw(bytes(raw)) for raw in (*head, *tail)]})


def _last_that_fit(messages: Sequence[Raw], room: int) -> list[Raw]:
    fitting: list[Raw] = []
    for raw in reversed(messages):
        room -= len(bytes(raw)) + 1
        if room < 0:
            break
        fitting.append(raw)
    return fitting[::-1]
