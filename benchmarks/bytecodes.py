"""`python -m benchmarks.bytecodes`: what a call and a chunk cost in Python, counted and not timed.

A real bridge with its defaults on, in this process, between a client and a provider on loopback. Counted are the
bytecodes of the bridge's own functions, so the figures are the same on every machine and in every mood of it, and
another for each version of Python. What is spent in C and in the system is not in them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

import osmosis_bridge
from benchmarks.bodies import mark, small
from benchmarks.contestants import BEARER, KEY, KEY_VARIABLE, MODEL, ROLLOUT
from benchmarks.plain import completion, read_message, reply
from osmosis_bridge.bearers import rollout_bearer
from osmosis_bridge.config import BridgeConfig
from osmosis_bridge.server import run

if TYPE_CHECKING:
    from _typeshed import TraceFunction

WARM: Final = 200
"""Calls before any is counted: Python makes its bytecodes faster where they are used."""
COUNTED: Final = 20
MOST: Final = 15
_OURS: Final = str(Path(osmosis_bridge.__file__).parent)
_STEP_S: Final = 0.001
"""Between calls, so that each is alone."""


class Cost(msgspec.Struct, frozen=True):
    """One function: its bytecodes and how often it begins or goes on, for a call or a chunk."""

    function: str
    bytecodes: float
    entered: float


class Count:
    """A trace function (`sys.settrace`) that counts the bytecodes of the bridge's functions."""

    def __init__(self) -> None:
        self.bytecodes: Counter[str] = Counter()
        self.entered: Counter[str] = Counter()

    def __call__(self, frame: FrameType, _event: str, _value: object) -> TraceFunction | None:
        """Begin to count a function, if it is one of ours."""
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            return None
        name = f"{code.co_qualname} ({code.co_filename.removeprefix(_OURS).lstrip('/')})"
        self.entered[name] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        bytecodes = self.bytecodes

        def each(_frame: FrameType, event: str, _value: object) -> TraceFunction:
            if event == "opcode":
                bytecodes[name] += 1
            return each

        return each

    def costs(self, per: float, less: Count | None = None) -> list[Cost]:
        """The dearest first, divided by `per`; without what another count has."""
        less = less or Count()
        found = [
            Cost(name, (self.bytecodes[name] - less.bytecodes[name]) / per,
                 (self.entered[name] - less.entered[name]) / per)
            for name in self.bytecodes
        ]  # fmt: skip
        return sorted((cost for cost in found if cost.bytecodes), key=lambda cost: -cost.bytecodes)


async def _provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    plain = completion()
    while (message := await read_message(reader)) is not None:
        await reply(writer, message[1], plain)
    writer.close()


class _Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def call(self, chunks: int) -> None:
        """A plain call, or a stream of so many chunks, each read in a turn of the loop of its own."""
        marked = mark(0, chunks, 0)
        body = msgspec.json.encode(small("osmosis-rollout", marked, stream=chunks > 0))
        bearer = rollout_bearer(BEARER, ROLLOUT).encode()
        self._writer.write(
            b"POST /v1/rollouts/%b/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %b\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (ROLLOUT.encode(), bearer, len(body), body)
        )
        head, _ = await read_message(self._reader) or (b"", b"")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"the bridge answered {head[:40]!r}")


async def _counted(client: _Client, chunks: int) -> Count:
    count = Count()
    for _ in range(COUNTED):
        # What a call leaves to do, its log line for one, is done before the next one comes.
        await asyncio.sleep(_STEP_S)
        sys.settrace(count)
        await client.call(chunks)
        await asyncio.sleep(_STEP_S)
        sys.settrace(None)
    return count


async def count(folder: Path) -> dict[str, list[Cost]]:
    """What a plain call of 1 KB, a stream of 10 chunks and one chunk more cost."""
    server = await asyncio.start_server(_provider, "127.0.0.1", 0)
    ready = folder / "ready.json"
    config = BridgeConfig(
        model=f"openai/{MODEL}",
        api_base=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1",
        api_key_env=KEY_VARIABLE,
        port=0,
        ledger=str(folder / "calls.jsonl"),
        ready_file=str(ready),
        log_format="json",
        token=BEARER,
        environ={KEY_VARIABLE: KEY},
    )
    bridge = asyncio.create_task(run(config))
    try:
        while not ready.exists() and not bridge.done():
            await asyncio.wait({bridge}, timeout=0.01)
        port = int(msgspec.json.decode(ready.read_bytes())["url"].rpartition(":")[2])
        client = _Client(*await asyncio.open_connection("127.0.0.1", port))
        for _ in range(WARM):
            await client.call(0)
        for _ in range(WARM // 10):
            await client.call(20)
        plain, few, many = [await _counted(client, chunks) for chunks in (0, 10, 110)]
    finally:
        sys.settrace(None)
        os.kill(os.getpid(), signal.SIGTERM)
        await bridge
        server.close()
    return {
        "a plain call of 1 KB": plain.costs(COUNTED),
        "a stream of 10 chunks": few.costs(COUNTED),
        "one chunk more": many.costs(COUNTED * 100, few),
    }


def show(title: str, costs: Sequence[Cost], console: Console) -> None:
    """The dearest functions on the terminal, and what all of them cost together."""
    whole, entered = sum(cost.bytecodes for cost in costs), sum(cost.entered for cost in costs)
    headline = f"{title}: {whole:,.0f} bytecodes, functions entered {entered:,.0f} times"
    table = Table("function", "bytecodes", "share", "entered", title=headline, title_justify="left")
    for cost in costs[:MOST]:
        table.add_row(
            cost.function, f"{cost.bytecodes:,.1f}", f"{cost.bytecodes / whole:.1%}", f"{cost.entered:.1f}"
        )
    console.print(table)


def main(arguments: Sequence[str]) -> int:
    """Count, and show the dearest functions."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytecodes", description="Bytecodes a call.")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    options = parser.parse_args(arguments)
    with (
        tempfile.TemporaryDirectory() as folder,
        Path(folder, "log.txt").open("w", encoding="utf-8") as log,
        contextlib.redirect_stderr(log),
    ):
        found = uvloop.run(count(Path(folder)))
    if options.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return 0
    for title, costs in found.items():
        show(title, costs, Console())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
