"""A stream on its way to the client: what is sent at once, what is held, and when it stops."""

from __future__ import annotations

from typing import Any

from fakes import FakeTransport, a_bridge, a_call, admitted, delta, sse
from osmosis_bridge.dialects.chat import CHAT_DIALECT
from osmosis_bridge.entry import Entry
from osmosis_bridge.redact import Redactor
from osmosis_bridge.relay import Relay

ONE, TWO, LAST = (sse(delta(text), done=False) for text in ("a", "b", "c"))
END = sse(delta(finish="stop"))


class Client:
    """A reply that takes what is pushed, as long as there is room."""

    def __init__(self, *, started: bool = True, room: int = 99) -> None:
        self.started = started
        self.room = room
        self.pieces: list[bytes] = []

    def push(self, piece: bytes) -> bool:
        if self.room <= 0:
            return False
        self.room -= 1
        self.pieces.append(piece)
        return True


def a_relay(client: Any, touched: list[int] | None = None) -> tuple[Relay, Entry, Any]:
    bridge = a_bridge(FakeTransport(), clock=lambda: 7.0)
    entry = Entry(bridge.recorder, a_call(b""), CHAT_DIALECT)
    stream = CHAT_DIALECT.open_stream(admitted("up/real"), Redactor())
    noted = [] if touched is None else touched
    return Relay(entry, stream, client, lambda: noted.append(1), bridge.clock), entry, stream


def test_what_comes_is_sent_at_once_and_notes_when_it_began() -> None:
    client, touched = Client(), list[int]()
    relay, entry, _ = a_relay(client, touched)
    assert relay.take(b": wait\n\n")
    assert (client.pieces, entry.ttft, touched) == ([], None, [])
    assert relay.take(ONE)
    assert relay.take(TWO)
    assert (client.pieces, entry.ttft, touched, relay.held) == ([ONE, TWO], 7.0, [1, 1], b"")


def test_before_the_head_and_without_room_it_holds_what_came() -> None:
    for client in (Client(started=False), Client(room=0)):
        relay, _, _ = a_relay(client)
        assert not relay.take(ONE)
        assert (client.pieces, relay.held) == ([], ONE)


def test_it_stops_with_the_end_which_it_does_not_send() -> None:
    client = Client()
    relay, _, stream = a_relay(client)
    assert not relay.take(ONE + END)
    assert (client.pieces, stream.ended) == ([(ONE + END).removesuffix(b"data: [DONE]\n\n")], True)
    assert stream.last == b"data: [DONE]\n\n"


def test_a_piece_of_an_event_is_waited_with_before_the_first_and_within() -> None:
    client = Client(started=False)
    relay, _, _ = a_relay(client)
    assert relay.take(ONE[:10])
    client.started = True
    assert relay.take(ONE[10:] + TWO[:10])
    assert client.pieces == [ONE]
