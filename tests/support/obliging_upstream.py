"""A provider in a thread that answers whatever it is asked, in every dialect, whole or as a stream."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from upstream_server import Peer, serving

WAIT_S = 30.0
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
COUNTED = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
RESPONSE = {
    "id": "r",
    "object": "response",
    "status": "completed",
    "model": "m",
    "output": [],
    "usage": COUNTED,
}
MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": "end_turn",
}
REPLIES: dict[str, Any] = {
    "/chat/completions": {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "56"}, "finish_reason": "stop"}],
    },
    "/completions": {
        "id": "c", "object": "text_completion", "created": 1, "model": "m", "usage": USAGE,
        "choices": [{"index": 0, "text": "56", "finish_reason": "stop"}],
    },
    "/responses": RESPONSE,
    "/messages": {**MESSAGE, "usage": COUNTED},
    "/embeddings": {"object": "list", "model": "m", "data": [], "usage": {"prompt_tokens": 7, "total_tokens": 7}},
}  # fmt: skip
CHAT_CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
STREAMS: dict[str, list[Any]] = {
    "/chat/completions": [
        {**CHAT_CHUNK, "choices": [{"index": 0, "delta": {"content": "56"}, "finish_reason": "stop"}]},
        {**CHAT_CHUNK, "choices": [], "usage": USAGE},
        "[DONE]",
    ],
    "/completions": [{**REPLIES["/completions"]}, "[DONE]"],
    "/responses": [
        {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "usage": None}},
        {"type": "response.completed", "response": RESPONSE},
    ],
    "/messages": [
        {"type": "message_start", "message": {**MESSAGE, "stop_reason": None, "usage": COUNTED}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ],
}


def frame(item: Any) -> bytes:
    if isinstance(item, str):
        return f"data: {item}\n\n".encode()
    name = f"event: {item['type']}\n" if "type" in item else ""
    return f"{name}data: {json.dumps(item)}\n\n".encode()


async def oblige(peer: Peer) -> None:
    """Answer every request of a connection."""
    while True:
        request = await peer.request()
        target = request.line.split(b" ")[1].decode().partition("?")[0].removeprefix("/v1")
        asked = json.loads(request.body.decode("utf-8", "surrogateescape") or "{}")
        kind, body = (
            "application/json",
            json.dumps(REPLIES.get(target, {"error": {"message": "no"}})).encode(),
        )
        if asked.get("stream") is True and target in STREAMS:
            kind, body = "text/event-stream", b"".join(map(frame, STREAMS[target]))
        lines = [f"HTTP/1.1 {200 if target in REPLIES else 404} X", f"content-type: {kind}"]
        head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""])
        await peer.send(head.encode() + body, apart=None)


@contextmanager
def obliging_upstream() -> Iterator[str]:
    """Its base URL, for as long as it serves."""
    loop = asyncio.new_event_loop()
    ready: list[str] = []
    started, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with serving(oblige) as server:
            ready.append(f"http://127.0.0.1:{server.endpoint.port}/v1")
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(WAIT_S)
    try:
        yield ready[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(WAIT_S)
        loop.close()
