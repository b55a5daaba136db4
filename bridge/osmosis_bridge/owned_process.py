"""A server process of our own on loopback, for as long as its owner lives: the owner's side.

The process runs one of our modules, is told over stdin what to serve, answers with one JSON line that holds its `url`,
and ends when the pipe closes (`owned_server.py` is its side). Its errors are read along, for a reason when it ends.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, cast

_LINES_KEPT: Final = 50


class NotStarted(Exception):
    """The process did not come up; says why in a line."""


async def start_owned(
    process: OwnedProcess,
    module: str,
    order: Mapping[str, object],
    environ: Mapping[str, str],
    start_s: float,
) -> str:
    """Start `python -m module`, hand it its order, and return the URL it answers with.

    Raises `NotStarted`. Nothing is left behind where that, or a cancellation, ends the start.
    """
    try:
        await asyncio.get_running_loop().subprocess_exec(
            lambda: process,
            sys.executable,
            # A folder of the user's must not stand in for one of our modules.
            "-P",
            "-m",
            module,
            env=dict(environ),
            # Ctrl-C is for the bridge, which still has calls to finish; it stops the process afterwards.
            start_new_session=True,
        )
    except OSError as error:
        raise NotStarted(f"the process cannot be started: {error.strerror or error}") from None
    try:
        return await _first_answer(process, order, start_s)
    except BaseException:
        await process.stop()
        raise


async def _first_answer(process: OwnedProcess, order: Mapping[str, object], start_s: float) -> str:
    process.write(json.dumps(order).encode() + b"\n")
    try:
        async with asyncio.timeout(start_s):
            line = await process.first_line
    except TimeoutError:
        raise NotStarted(f"did not start within {start_s:.0f} seconds") from None
    if line is None:
        raise NotStarted(f"did not start: {process.last_line()}")
    return str(json.loads(line)["url"])


class OwnedProcess(asyncio.SubprocessProtocol):
    """The owner's side of the pipes. A protocol rather than streams: what is written is read without a task.

    `error_line` matches a line of stderr that tells more than the last one, its first group being what it tells;
    `stop_s` is how long the process may take to end by itself.
    """

    def __init__(self, error_line: re.Pattern[str] | None = None, stop_s: float = 2.0) -> None:
        loop = asyncio.get_running_loop()
        self.first_line: asyncio.Future[bytes | None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.pid = 0
        self._error_line = error_line
        self._stop_s = stop_s
        self._transport: asyncio.SubprocessTransport | None = None
        self._answer = b""
        self._errors: deque[bytes] = deque([b""], maxlen=_LINES_KEPT)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The process runs."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.pid = self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """It wrote something."""
        if fd == 2:
            first, *others = data.split(b"\n")
            self._errors[-1] = (self._errors[-1] + first)[-2000:]
            self._errors.extend(others)
        elif not self.first_line.done():
            self._answer += data
            if b"\n" in self._answer:
                self.first_line.set_result(self._answer.partition(b"\n")[0])

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended and all it wrote has been read."""
        for future, result in ((self.first_line, None), (self.ended, None)):
            if not future.done():
                cast("asyncio.Future[Any]", future).set_result(result)

    def write(self, data: bytes) -> None:
        """Write to its stdin."""
        if self._transport is not None and (pipe := self._transport.get_pipe_transport(0)) is not None:
            cast("asyncio.WriteTransport", pipe).write(data)

    def last_line(self) -> str:
        """The most telling line on stderr: the first that is an error, else the last; never empty."""
        lines = [line.decode(errors="replace").strip() for line in self._errors if line.strip()]
        error = self._error_line
        told = None
        if error is not None:
            told = next((match[1] for line in lines if (match := error.fullmatch(line))), None)
        if told is None and lines:
            told = lines[-1]
        return (told or f"it ended without a word (exit code {self.exit_code})")[:500]

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while it runs."""
        return None if self._transport is None else self._transport.get_returncode()

    def end_reason(self) -> str | None:
        """Why the process is no longer there, in a line; None while it runs."""
        return f"exit code {self.exit_code}: {self.last_line()}" if self.ended.done() else None

    async def stop(self) -> None:
        """End the process and wait until it is gone; as often as wanted."""
        transport = self._transport
        if transport is None:
            return
        try:
            if not self.ended.done():
                await self._end(transport)
        finally:
            transport.close()

    async def _end(self, transport: asyncio.SubprocessTransport) -> None:
        if (pipe := transport.get_pipe_transport(0)) is not None:
            pipe.close()
        try:
            async with asyncio.timeout(self._stop_s):
                await asyncio.shield(self.ended)
        except TimeoutError:
            transport.kill()
            await asyncio.shield(self.ended)
        except asyncio.CancelledError:
            transport.kill()
            raise


class OwnedEndpoint:
    """An OpenAI-compatible endpoint that a process of our own serves; it takes `api_key` as its bearer."""

    def __init__(self, url: str, api_key: str, process: OwnedProcess) -> None:
        self.base_url = f"{url}/v1"
        self.api_key = api_key
        self._process = process

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r})"

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def end_reason(self) -> str | None:
        """Why the process is no longer there, in a line; None while it runs."""
        return self._process.end_reason()

    async def stop(self) -> None:
        """End the process and wait until it is gone; as often as wanted."""
        await self._process.stop()
