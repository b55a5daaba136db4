"""A model of this machine as an upstream: a server process of our own, on loopback, for as long as its owner lives.

Starts `local_server.py`, tells it over stdin what to serve, waits for the address, and holds the pipe whose closing
ends it. The process gets no provider's key: its environment is an allow-list, and its own key is random and lives as
long as it does. Never imports llama.cpp. Knows nothing of calls.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import secrets
import sys
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, cast

from osmosis_bridge.local_weights import (
    KNOWN_LOCAL_MODELS,
    LocalModelError,
    Weights,
    ensure_weights,
    known_weights,
)

__all__ = ["KNOWN_LOCAL_MODELS", "LocalModel", "LocalModelError", "start_local_model"]

SLOTS: Final = 4
"""Calls that are answered at once; more wait their turn."""
CONTEXT_TOKENS: Final = 2048
"""Prompt and completion of one call."""

_START_S: Final = 60.0
_STOP_S: Final = 2.0
_LINES_KEPT: Final = 50
# What an interpreter and a library need to find themselves.
_ENVIRONMENT: Final = re.compile(
    r"PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|TEMP|TMP|SYSTEMROOT|VIRTUAL_ENV|PYTHON(PATH|HOME|UTF8|DONTWRITEBYTECODE)"
    r"|(DY)?LD_\w+|OMP_\w+|GGML_\w+|CUDA_\w+"
)


class LocalModel:
    """A running local model: an OpenAI-compatible endpoint that takes `api_key` as its bearer."""

    def __init__(self, name: str, url: str, api_key: str, process: _ServerProcess) -> None:
        self.name = name
        self.base_url = f"{url}/v1"
        self.api_key = api_key
        self._process = process

    def __repr__(self) -> str:
        return f"LocalModel(name={self.name!r}, base_url={self.base_url!r})"

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def end_reason(self) -> str | None:
        """Why the server is no longer there, in a line; None while it runs."""
        process = self._process
        return f"exit code {process.exit_code}: {process.last_line()}" if process.ended.done() else None

    async def stop(self) -> None:
        """End the server and wait until it is gone; as often as wanted."""
        await self._process.stop()


async def start_local_model(name: str, environ: Mapping[str, str]) -> LocalModel:
    """Serve a local model and return once it answers; its weights are fetched first where they are not here.

    Raises `LocalModelError`: the name is unknown, llama.cpp is not installed, the weights cannot be had, or the server
    does not start.
    """
    weights = known_weights(name)
    if importlib.util.find_spec("xllamacpp") is None:
        raise LocalModelError(
            f"local/{name} needs llama.cpp, which is not installed: pip install 'osmosis-bridge[local]'"
        )
    file = await ensure_weights(weights, environ)
    api_key = secrets.token_urlsafe(32)
    order = {
        "model": str(file),
        "alias": weights.name,
        "api_key": api_key,
        "slots": SLOTS,
        "context": CONTEXT_TOKENS,
    }
    process = await _spawn(environ)
    try:
        url = await _first_answer(process, weights, order)
    except BaseException:
        # Whatever ends the start, a cancellation too, must not leave the server behind.
        await process.stop()
        raise
    return LocalModel(weights.name, url, api_key, process)


async def _spawn(environ: Mapping[str, str]) -> _ServerProcess:
    try:
        _, process = await asyncio.get_running_loop().subprocess_exec(
            _ServerProcess,
            sys.executable,
            # A folder of the user's must not stand in for one of our modules.
            "-P",
            "-m",
            "osmosis_bridge.local_server",
            env={key: value for key, value in environ.items() if _ENVIRONMENT.fullmatch(key)},
            # Ctrl-C is for the bridge, which still has calls to finish; it stops the model afterwards.
            start_new_session=True,
        )
    except OSError as error:
        raise LocalModelError(
            f"the local model's process cannot be started: {error.strerror or error}"
        ) from None
    return process


async def _first_answer(process: _ServerProcess, weights: Weights, order: Mapping[str, object]) -> str:
    process.write(json.dumps(order).encode() + b"\n")
    try:
        async with asyncio.timeout(_START_S):
            line = await process.first_line
    except TimeoutError:
        raise LocalModelError(f"local/{weights.name} did not start within {_START_S:.0f} seconds") from None
    if line is None:
        raise LocalModelError(f"local/{weights.name} did not start: {process.last_line()}")
    return str(json.loads(line)["url"])


class _ServerProcess(asyncio.SubprocessProtocol):
    """The owner's side of the pipes. A protocol rather than streams: what is written is read without a task."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.first_line: asyncio.Future[bytes | None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()
        self.pid = 0
        self._transport: asyncio.SubprocessTransport | None = None
        self._answer = b""
        self._errors: deque[bytes] = deque([b""], maxlen=_LINES_KEPT)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.pid = self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
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
        if self._transport is not None and (pipe := self._transport.get_pipe_transport(0)) is not None:
            cast("asyncio.WriteTransport", pipe).write(data)

    def last_line(self) -> str:
        """The most telling line on stderr: the first that llama.cpp calls an error, else the last; never empty."""
        lines = [line.decode(errors="replace").strip() for line in self._errors if line.strip()]
        error = re.compile(r"[\d.]+ E \s*(.+)")
        told = next((match[1] for line in lines if (match := error.fullmatch(line))), None)
        if told is None and lines:
            told = lines[-1]
        return (told or f"it ended without a word (exit code {self.exit_code})")[:500]

    @property
    def exit_code(self) -> int | None:
        return None if self._transport is None else self._transport.get_returncode()

    async def stop(self) -> None:
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
            async with asyncio.timeout(_STOP_S):
                await asyncio.shield(self.ended)
        except TimeoutError:
            transport.kill()
            await asyncio.shield(self.ended)
        except asyncio.CancelledError:
            transport.kill()
            raise
