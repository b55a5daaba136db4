"""The scripted upstream: an HTTP server on bare sockets that does to each request what its script says.

Which script a request gets is told by a token in the text of its messages (`case:S4-reset.3f2a`), so that
it works through any proxy that forwards messages. It keeps what it received, byte by byte. It knows
nothing of checks.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from osmosis_bridge.conformance.exact import Exact, at, items, members, parsed_or_none
from osmosis_bridge.conformance.packing import unpacked
from osmosis_bridge.conformance.samples import completion
from osmosis_bridge.conformance.script import Drip, Hold, Pause, Script, Send, Step, Until, plain

TOKEN = re.compile(r"case:([A-Za-z0-9_~-]+\.[0-9a-f]+)")
STRAY = ""
"""The token under which requests without a known token are kept."""
MAX_HEAD = 1 << 20


class Progress:
    """What the client of one case has received so far; scripts wait on it."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._grown = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Note that the client has these bytes."""
        self._received += data
        self._grown.set()

    async def reached(self, marker: bytes, seconds: float) -> bool:
        """Whether the client receives `marker` within this time."""
        try:
            async with asyncio.timeout(seconds):
                while marker not in self._received:
                    self._grown.clear()
                    await self._grown.wait()
        except TimeoutError:
            return False
        return True


@dataclass(slots=True)
class Received:
    """One request as it arrived, and what became of its exchange."""

    head: bytes
    """Request line and headers, verbatim, with the blank line."""
    body: bytes
    """The body without its framing, as encoded by the peer."""
    connection: int
    """Which connection it came on, counted from 1."""
    peer_closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the peer closed or reset while the script was being played."""
    played: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the script has ended, however it ended."""
    sent: int = 0
    """Bytes of the reply that the connection has taken."""
    unstreamed: bool = False
    """Whether a stream was to be played and none was asked for, so that a plain answer was given, as providers do."""
    late: bytes | None = None
    """The marker that the client had not received in time."""

    @property
    def target(self) -> str:
        """The request target of the request line."""
        words = self.head.split(b"\r\n", 1)[0].split(b" ")
        return words[1].decode("latin-1") if len(words) > 1 else ""

    def headers(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        return [value for key, value in header_lines(self.head) if key == name.lower()]

    def text(self) -> bytes:
        """The body with its content encoding undone."""
        return unpacked(self.body, ",".join(self.headers("content-encoding")))

    def json(self) -> Exact:
        """The body as exact JSON, None when it is not JSON."""
        return parsed_or_none(self.text())

    def secret(self) -> str:
        """The credential that the proxy sent, without its scheme."""
        values = self.headers("authorization")
        return values[0].split(" ", 1)[-1] if values else ""


def header_lines(head: bytes) -> Iterator[tuple[str, str]]:
    """Name (lower case) and value of each header line of a head."""
    for line in head.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            yield name.strip().lower().decode("latin-1"), value.strip().decode("latin-1")


class ScriptedUpstream:
    """One listening port, a script for each token, and what arrived for each."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self.port = port
        self._host = host
        self._server: asyncio.Server | None = None
        self._scripts: dict[str, Script] = {}
        self._received: dict[str, list[Received]] = {}
        self._progress: dict[str, Progress] = {}
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self._connections = 0

    async def start(self) -> int:
        """Listen, and return the port. OSError when it is taken."""
        self._server = await asyncio.start_server(
            self._serve, self._host, self.port, limit=MAX_HEAD, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    async def stop(self) -> None:
        """Stop listening and close every connection: the port refuses until `start`."""
        if self._server is None:
            return
        self._server.close()
        playing = [task for task in self._open.values() if task is not None]
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def hang_up(self) -> None:
        """Reset every connection that is open, so that no pool keeps one."""
        for writer in list(self._open):
            reset(writer)

    def play(self, token: str, script: Script) -> None:
        """Answer requests that carry `token` so."""
        self._scripts[token] = script

    def forget(self, token: str) -> None:
        """Drop all that is kept for a token."""
        for kept in (self._scripts, self._received, self._progress):
            kept.pop(token, None)

    def received(self, token: str) -> list[Received]:
        """The requests that arrived for a token, in order."""
        return self._received.setdefault(token, [])

    def progress(self, token: str) -> Progress:
        """What the client of a token has received."""
        return self._progress.setdefault(token, Progress())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        self._open[writer] = asyncio.current_task()
        try:
            while await self._one_request(reader, writer, number):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # a peer that leaves or speaks no HTTP is no fault of the upstream's
        except asyncio.CancelledError:
            writer.transport.abort()  # `stop` cancels and waits; nobody else does
        finally:
            del self._open[writer]
            writer.close()

    async def _one_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        received = Received(head, await _read_body(head, reader, writer), number)
        token = token_of(received)
        script = self._scripts.get(token)
        self.received(token if script else STRAY).append(received)
        play = _Play(reader, writer, received, self.progress(token))
        return await play.run(_fitting(script, received))


def token_of(received: Received) -> str:
    """The token of the last message that carries one, else of the body, else of the target."""
    listed = items(at(received.json(), "messages")) or items(at(received.json(), "input"))
    for message in reversed(listed):
        for text in _texts(message):
            if found := TOKEN.search(text):
                return found.group(1)
    everywhere = received.text().decode("utf-8", "replace") + received.target
    found = TOKEN.findall(everywhere)
    return found[-1] if found else STRAY


def _texts(message: Exact) -> Iterator[str]:
    content = members(message).get("content")
    if isinstance(content, str):
        yield content
    for part in items(content):
        text = members(part).get("text")
        if isinstance(text, str):
            yield text


def _fitting(script: Script | None, received: Received) -> Script:
    """The script, or what a provider does without one; a stream only to who asked for it."""
    if script is None:
        return _unscripted(received)
    asked = at(received.json(), "stream") is True
    if script.is_stream and not script.stubborn and not asked:
        received.unstreamed = True
        return plain(completion())
    return script


def _unscripted(received: Received) -> Script:
    if received.target.partition("?")[0].endswith("/chat/completions"):
        return plain(completion())
    return plain('{"error":{"message":"no such path","type":"not_found","param":null,"code":null}}', 404)


async def _read_body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    fields = dict(header_lines(head))
    if fields.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if "chunked" in fields.get("transfer-encoding", "").lower():
        return await _read_chunks(reader)
    return await reader.readexactly(int(fields.get("content-length", "0")))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0].strip(), 16)
        if size == 0:
            break
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    while (await reader.readuntil(b"\r\n")) != b"\r\n":
        pass
    return bytes(body)


class _Play:
    """The playing of one script on one connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        received: Received,
        progress: Progress,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._received = received
        self._progress = progress

    async def run(self, script: Script) -> bool:
        """Play; whether the connection may carry another request."""
        try:
            for step in script.steps:
                await self._step(step)
        except ConnectionError:
            self._received.peer_closed.set()
            return False
        finally:
            self._received.played.set()
        if script.end == "reset":
            reset(self._writer)
        return script.end == "keep" and not self._received.peer_closed.is_set()

    async def _step(self, step: Step) -> None:
        match step:
            case Send(data):
                await self._send(data(self._received) if callable(data) else data)
            case Drip(data, every):
                for position in range(len(data)):
                    await self._send(data[position : position + 1])
                    await asyncio.sleep(every)
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case Until(marker, seconds):
                if not await self._progress.reached(marker, seconds):
                    self._received.late = marker
            case Hold(seconds):
                await self._hold(seconds)

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
        self._received.sent += len(data)

    async def _hold(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while await self._reader.read(65536):
                    pass
        except TimeoutError:
            return
        except ConnectionError:
            pass
        self._received.peer_closed.set()


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
