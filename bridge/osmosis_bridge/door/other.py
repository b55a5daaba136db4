"""A request that is no call, handed to an ASGI application by way of uvicorn's own cycle of request and response."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.protocols.utils import get_local_addr, get_remote_addr

from osmosis_bridge.asgi import App
from osmosis_bridge.errors import Refused

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, HTTPScope


_log = logging.getLogger("uvicorn.error")


class Line(Protocol):
    """What a request asks of its connection."""

    loop: asyncio.AbstractEventLoop
    tasks: set[asyncio.Task[None]]
    transport: asyncio.Transport

    def usual_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every reply."""
        ...

    def ended(self, *, keep: bool) -> None:
        """The reply is written to its end; the connection is used again if it may be kept."""
        ...

    def refuse(self, fault: Refused) -> None:
        """Answer what is not HTTP, and close the connection."""
        ...


class OtherRequest:
    """One request; its body waits in the cycle until the application asks for it."""

    __slots__ = ("_app", "_cycle", "_flow", "_line")

    def __init__(self, line: Line, app: App, scope: HTTPScope, *, keep: bool) -> None:
        self._line = line
        self._app = cast("ASGI3Application", app)
        self._flow = FlowControl(line.transport)
        expects = any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"]
        )
        self._cycle = RequestResponseCycle(
            scope=scope,
            transport=line.transport,
            flow=self._flow,
            logger=_log,
            access_logger=_log,
            access_log=False,
            default_headers=line.usual_headers(),
            message_event=asyncio.Event(),
            expect_100_continue=expects,
            keep_alive=keep,
            on_response=self._ended,
        )

    @property
    def keep(self) -> bool:
        """Whether the connection may be used again."""
        return self._cycle.keep_alive

    @keep.setter
    def keep(self, keep: bool) -> None:
        self._cycle.keep_alive = keep

    def begin(self) -> None:
        """Let the application answer, in a task of its own."""
        task = self._line.loop.create_task(self._cycle.run_asgi(self._app))
        task.add_done_callback(self._line.tasks.discard)
        self._line.tasks.add(task)

    def take(self, piece: bytes) -> None:
        """A piece of the body came."""
        cycle = self._cycle
        if cycle.response_complete:
            return
        cycle.body += piece
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self._flow.pause_reading()
        cycle.message_event.set()

    def complete(self) -> None:
        """The body is whole."""
        if not self._cycle.response_complete:
            self._cycle.more_body = False
            self._cycle.message_event.set()

    def broken(self, fault: Refused) -> None:
        """What follows is not HTTP: the application learns that its client is gone, the client what is wrong."""
        if self._cycle.response_started:
            self._cycle.keep_alive = False
            return
        self.leave()
        self._line.refuse(fault)

    def leave(self) -> None:
        """The client has left."""
        if not self._cycle.response_complete:
            self._cycle.disconnected = True
        self._cycle.message_event.set()
        self._flow.resume_writing()

    def pause(self) -> None:
        """The client is slow."""
        self._flow.pause_writing()

    def resume(self) -> None:
        """The client has caught up."""
        self._flow.resume_writing()

    def _ended(self) -> None:
        self._flow.resume_reading()
        self._line.ended(keep=self._cycle.keep_alive)


def scope_of(
    method: str, target: bytes, version: str, headers: list[tuple[bytes, bytes]], transport: asyncio.Transport
) -> HTTPScope:
    """A request as ASGI describes it. Raises `httptools.HttpParserInvalidURLError`."""
    parsed = httptools.parse_url(target)
    raw_path: bytes = parsed.path or b""
    path = raw_path.decode("ascii")
    state: dict[str, Any] = {}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": version,
        "server": get_local_addr(transport),
        "client": get_remote_addr(transport),
        "scheme": "http",
        "root_path": "",
        "headers": headers,
        "state": state,
        "method": method,
        "path": unquote(path) if "%" in path else path,
        "raw_path": raw_path,
        "query_string": parsed.query or b"",
    }
