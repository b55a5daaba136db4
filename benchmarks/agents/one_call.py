"""One chat completion over kept-alive connections, with nothing but the standard library.

The same in every rollout that is measured, so that what differs is the runner and not the agent.
"""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Caller:
    """Keeps connections to one endpoint open."""

    def __init__(self) -> None:
        self._idle: dict[str, list[_Connection]] = {}

    async def ask(self, base_url: str, api_key: str, messages: list[dict[str, object]]) -> str:
        """The text of the completion; RuntimeError when the endpoint refuses."""
        url = urlsplit(base_url)
        body = json.dumps({"model": "osmosis-rollout", "messages": messages}).encode()
        head = (
            f"POST {url.path}/chat/completions HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer {api_key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        idle = self._idle.setdefault(url.netloc, [])
        reader, writer = idle.pop() if idle else await asyncio.open_connection(url.hostname, url.port)
        writer.write(head.encode() + body)
        status, answer = await _reply(reader)
        idle.append((reader, writer))
        if status != 200:
            raise RuntimeError(f"status {status}: {answer[:200]!r}")
        return json.loads(answer)["choices"][0]["message"]["content"]


async def _reply(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(b" ", 2)[1])
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return status, await reader.readexactly(int(value))
    parts: list[bytes] = []
    while size := int(await reader.readline(), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return status, b"".join(parts)
