"""An OpenAI-compatible provider on loopback that answers at once and misbehaves when a prompt asks for it.

The last message of a request may hold one directive: `ERR:503`, `SLEEP:2.5`, `CUT`, `BROKEN`, `NOUSAGE`, `BIG:200000`,
`FLAKY:key:3` (429 three times for this key, then an answer). Its answer is otherwise what stands after `SAY:`, else
what `provider.answer` makes of it. `provider.status` makes every call fail.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

PROMPT_TOKENS, COMPLETION_TOKENS = 10, 3


@dataclass
class MockProvider:
    """A provider in a thread of its own; a context manager."""

    status: int | None = None
    answer: Callable[[str], str] = lambda text: "ok"
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    url: str = ""

    def __enter__(self) -> Self:
        started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        self._thread.start()
        assert started.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)

    @property
    def prompts(self) -> list[str]:
        """The last message of every call, preflights left out."""
        return [text for body in self.bodies if (text := last_text(body)) != "hi"]

    async def _serve(self, started: threading.Event) -> None:
        self._writers: set[asyncio.StreamWriter] = set()
        self._turned_away: Counter[str] = Counter()
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        started.set()
        await self._stop.wait()
        server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.sleep(0)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                body = json.loads(await reader.readexactly(int(length[1]))) if length else {}
                key = re.search(rb"(?i)authorization: *Bearer ([^\r\n]+)", head)
                self.keys.add(key[1].decode() if key else "")
                self.bodies.append(body)
                if not await self._reply(writer, body):
                    break
        writer.close()
        self._writers.discard(writer)

    async def _reply(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> bool:
        text = last_text(body)
        if found := re.search(r"SLEEP:([\d.]+)", text):
            await asyncio.sleep(float(found[1]))
        error = re.search(r"ERR:(\d+)", text)
        flaky = re.search(r"FLAKY:(\w+):(\d+)", text)
        if flaky and self._turned_away[flaky[1]] < int(flaky[2]):
            self._turned_away[flaky[1]] += 1
            error = re.match(r"(429)", "429")
        status = self.status or (int(error[1]) if error else None)
        if status is not None:
            send(
                writer,
                status,
                {"error": {"message": f"told to answer {status}", "type": "x", "code": "told"}},
            )
            return True
        reply = completion(text, self.answer)
        if "NOUSAGE" in text:
            del reply["usage"]
        if "BROKEN" in text:
            content = json.dumps(reply).encode()[:-9]
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n" % len(content) + content)
            return True
        if "CUT" in text:
            content = json.dumps(reply).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
            writer.write(b"content-length: %d\r\n\r\n" % (len(content) + 10) + content)
            return False
        send(writer, 200, reply)
        await writer.drain()
        return True


def last_text(body: dict[str, Any]) -> str:
    messages = body.get("messages") or [{}]
    return str(messages[-1].get("content", ""))


def completion(text: str, answer: Callable[[str], str]) -> dict[str, Any]:
    said = re.search(r"SAY:(\S+)", text)
    big = re.search(r"BIG:(\d+)", text)
    content = "x" * int(big[1]) if big else said[1] if said else answer(text)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "mock",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        ],
        "usage": {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": COMPLETION_TOKENS,
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        },
    }


def send(writer: asyncio.StreamWriter, status: int, value: object) -> None:
    content = json.dumps(value).encode()
    writer.write(b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\n" % status)
    writer.write(b"content-length: %d\r\n\r\n" % len(content) + content)
