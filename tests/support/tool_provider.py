"""An OpenAI-compatible provider on loopback that multiplies, streams, calls tools, and counts every token it bills.

It answers `#### 14` to a text that holds `2 x 7`. A word in the last user message makes it do otherwise: `TOOL` (calls
the first tool before it answers), `ERR:503`, `FLAKY:KEY:2` (429 twice), `CUT`, `BADJSON`, `NOUSAGE`, `SLEEP:0.5`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PREFLIGHT = "hi"


@dataclass(frozen=True)
class Billed:
    """One completion as the provider counts it."""

    asked: str
    """The last user message."""
    prompt_tokens: int
    completion_tokens: int
    streamed: bool

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass
class ToolProvider:
    """A provider in threads of its own; a context manager."""

    billed: list[Billed] = field(default_factory=list)
    """Completions of rollouts, in order; preflights are not among them."""
    refused: Counter[int] = field(default_factory=Counter[int])
    keys: set[str | None] = field(default_factory=set)
    flaky: Counter[str] = field(default_factory=Counter[str])
    url: str = ""

    def __enter__(self) -> Self:
        self._server = Server(("127.0.0.1", 0), Conversation)
        self._server.provider = self
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def tokens(self) -> int:
        return sum(call.tokens for call in self.billed)

    def largest(self, asked: str) -> int:
        """The largest completion for a prompt."""
        return max(call.tokens for call in self.billed if call.asked == asked)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    provider: ToolProvider


class Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        provider = self.server.provider
        provider.keys.add(self.headers["authorization"])
        asked = last_asked(body["messages"])
        if found := re.search(r"SLEEP:([\d.]+)", asked):
            time.sleep(float(found[1]))
        status = self._refusal(asked)
        if status is not None:
            provider.refused[status] += 1
            self._send(status, {"error": {"message": f"mock {status}", "type": "mock", "code": str(status)}})
        elif "BADJSON" in asked:
            self._write(200, "application/json", b'{"choices": [')
        elif "CUT" in asked:
            self._head(200, "application/json", 500)
            self.wfile.write(b'{"id":')
            self.close_connection = True
        else:
            self._complete(body, asked)

    def _refusal(self, asked: str) -> int | None:
        if found := re.search(r"ERR:(\d{3})", asked):
            return int(found[1])
        found = re.search(r"FLAKY:(\w+):(\d+)", asked)
        flaky = self.server.provider.flaky
        if found and flaky[found[1]] < int(found[2]):
            flaky[found[1]] += 1
            return 429
        return None

    def _complete(self, body: dict[str, Any], asked: str) -> None:
        message = answer(body, asked)
        read = sum(len(text_of(part.get("content"))) for part in body["messages"])
        billed = Billed(asked, 1 + read // 4, 1 + len(json.dumps(message)) // 4, bool(body.get("stream")))
        if asked != PREFLIGHT:
            self.server.provider.billed.append(billed)
        usage = {
            "prompt_tokens": billed.prompt_tokens,
            "completion_tokens": billed.completion_tokens,
            "total_tokens": billed.tokens,
        }
        finish = "tool_calls" if "tool_calls" in message else "stop"
        base = {"id": "c1", "created": 1, "model": body["model"]}
        told = {} if "NOUSAGE" in asked else {"usage": usage}
        if not billed.streamed:
            choice = {"index": 0, "message": message, "finish_reason": finish}
            self._send(200, {**base, "object": "chat.completion", "choices": [choice], **told})
            return
        delta = {**message, "tool_calls": [{**call, "index": 0} for call in message.get("tool_calls", ())]}
        frames: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": delta if "tool_calls" in message else message}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {"choices": [], **told},
        ]
        lines = [json.dumps({**base, "object": "chat.completion.chunk", **frame}) for frame in frames]
        self._write(
            200, "text/event-stream", "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()
        )

    def _send(self, status: int, body: dict[str, Any]) -> None:
        self._write(status, "application/json", json.dumps(body).encode())

    def _write(self, status: int, kind: str, content: bytes) -> None:
        self._head(status, kind, len(content))
        self.wfile.write(content)

    def _head(self, status: int, kind: str, length: int) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(length))
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def answer(body: dict[str, Any], asked: str) -> dict[str, Any]:
    """The assistant's message."""
    found = re.search(r"(\d+) x (\d+)", asked)
    numbers = {"a": int(found[1]), "b": int(found[2])} if found else {}
    called = any(message.get("role") == "tool" for message in body["messages"])
    if "TOOL" in asked and not called:
        function = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps(numbers)}
        call = {"id": f"call_{len(asked)}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    text = f"#### {numbers['a'] * numbers['b']}" if numbers else "ok"
    return {"role": "assistant", "content": text}


def last_asked(messages: list[dict[str, Any]]) -> str:
    """The text of the last user message."""
    return next((text_of(m.get("content")) for m in reversed(messages) if m.get("role") == "user"), "")


def text_of(content: Any) -> str:
    """The text of a message's content, in parts or whole."""
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content)
    return content or ""
