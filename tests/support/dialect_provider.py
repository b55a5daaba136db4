"""A provider on loopback that speaks chat, responses, messages, completions and embeddings, with tools and streams.

It behaves like a model of few words. Asked with tools and without a result yet, it calls the first with `ARGUMENTS`;
given results, it says `the tool said RESULT`; else `hello there`. `provider.thinks` makes it think first, in the
dialect's own way; `provider.trouble` makes the next calls go wrong.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from typed_events import (
    RESPONSES_USAGE,
    call_events,
    event,
    message,
    messages_stream,
    response,
    responses_stream,
    said,
    text_events,
    thought,
    used,
)

ARGUMENTS = {"a": 7, "b": 8}
THOUGHT, SIGNATURE = "I should count", "c2lnbmVkL+4="
HELLO = "hello there"
CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
Trouble = Literal["overloaded", "told in the stream", "cut", "failed"]


@dataclass
class Asked:
    """One request as it arrived."""

    dialect: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def tools(self) -> list[str]:
        """The names of the functions that are offered."""
        tools = self.body.get("tools") or []
        return [tool.get("name") or tool.get("function", {}).get("name") for tool in tools]

    @property
    def results(self) -> list[str]:
        """What the tools said, in the dialect's own place."""
        if self.dialect == "responses":
            items = self.body["input"] if isinstance(self.body["input"], list) else []
            return [text_of(item["output"]) for item in items if item.get("type") == "function_call_output"]
        messages = self.body.get("messages") or []
        if self.dialect == "chat":
            return [text_of(each["content"]) for each in messages if each["role"] == "tool"]
        blocks = [
            block for each in messages if isinstance(each["content"], list) for block in each["content"]
        ]
        return [text_of(block["content"]) for block in blocks if block["type"] == "tool_result"]

    @property
    def calls(self) -> str | None:
        """The tool that is called now."""
        return self.tools[0] if self.tools and not self.results else None

    @property
    def words(self) -> list[str]:
        """What is said, in pieces."""
        text = f"the tool said {self.results[-1]}" if self.results else HELLO
        return [text[:5], text[5:]]


def text_of(content: Any) -> str:
    """The text of a tool's result, which may be a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


@dataclass
class DialectProvider:
    """What it was asked, how it behaves, and where it is."""

    asked: list[Asked] = field(default_factory=list)
    thinks: bool = False
    trouble: Trouble | None = None
    url: str = ""

    def clear(self) -> None:
        self.asked.clear()
        self.thinks, self.trouble = False, None

    @contextmanager
    def serving(self) -> Iterator[DialectProvider]:
        """Serve in a thread for as long as the block runs."""
        server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


ANSWERS = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
}


def _handler(provider: DialectProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked = Asked(
                ANSWERS[self.path], {name.lower(): value for name, value in self.headers.items()}, body
            )
            provider.asked.append(asked)
            if provider.trouble == "overloaded":
                self.reply(
                    529 if asked.dialect == "messages" else 503, json.dumps(overloaded(asked)).encode()
                )
            elif body.get("stream"):
                self.stream(with_trouble(asked, streamed(asked, provider.thinks), provider.trouble))
            else:
                self.reply(200, json.dumps(whole(asked, provider.thinks)).encode())

        def reply(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.send_header("request-id", "req_1")
            self.end_headers()
            self.wfile.write(content)

        def stream(self, events: list[bytes]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for each in events:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(each), each))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    return Handler


def overloaded(asked: Asked) -> dict[str, Any]:
    """The error of a provider that has too much to do."""
    error = {"type": "overloaded_error", "message": "Overloaded"}
    return {"type": "error", "error": error} if asked.dialect == "messages" else {"error": error}


def with_trouble(asked: Asked, events: list[bytes], trouble: Trouble | None) -> list[bytes]:
    """A stream that goes wrong after its first three events."""
    if trouble is None:
        return events
    if trouble == "cut":
        return events[:3]
    if trouble == "failed":
        error = {"code": "server_error", "message": "Overloaded"}
        return [
            *events[:3],
            event("response.failed", response=response("failed", error=error), sequence_number=3),
        ]
    told = overloaded(asked)["error"]
    if asked.dialect == "chat":
        return [*events[:3], b"data: " + json.dumps({"error": told}).encode() + b"\n\n"]
    return [*events[:3], event("error", error=told)]


def whole(asked: Asked, thinks: bool) -> dict[str, Any]:
    """A plain answer."""
    text = "".join(asked.words)
    if asked.dialect == "chat":
        return chat_whole(asked, text)
    if asked.dialect == "responses":
        final = json.loads(streamed(asked, thinks)[-1].partition(b"data: ")[2])
        return final["response"]
    if asked.dialect == "messages":
        content: list[dict[str, Any]] = (
            [{"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE}] if thinks else []
        )
        call = {"type": "tool_use", "id": "toolu_1", "name": asked.calls, "input": ARGUMENTS}
        content += [call] if asked.calls else [{"type": "text", "text": text}]
        return message(content, stop_reason="tool_use" if asked.calls else "end_turn")
    if asked.dialect == "completions":
        return {"choices": [{"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}], **CHAT}
    vectors = [{"object": "embedding", "index": 0, "embedding": "AACAPwAAAEA="}]
    return {
        "object": "list",
        "model": "up/real",
        "data": vectors,
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }


CHAT = {"id": "c-1", "object": "chat.completion", "created": 1, "model": "up/real", "usage": CHAT_USAGE}


def chat_whole(asked: Asked, text: str) -> dict[str, Any]:
    said_here: dict[str, Any] = {"role": "assistant", "content": text}
    if asked.calls:
        function = {"name": asked.calls, "arguments": json.dumps(ARGUMENTS)}
        said_here |= {
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }
    finish = "tool_calls" if asked.calls else "stop"
    return {**CHAT, "choices": [{"index": 0, "message": said_here, "finish_reason": finish}]}


def streamed(asked: Asked, thinks: bool) -> list[bytes]:
    """The same answer as a stream."""
    arguments = json.dumps(ARGUMENTS)
    pieces = [arguments[:4], arguments[4:]]
    if asked.dialect == "responses":
        middle = reasoning() if thinks else []
        index = 1 if thinks else 0
        middle += (
            call_events(asked.calls, pieces, index=index)
            if asked.calls
            else text_events(*asked.words, index=index)
        )
        return responses_stream(*middle, tools=asked.body.get("tools", []))
    if asked.dialect == "messages":
        blocks = [thought(0, THOUGHT, SIGNATURE)] if thinks else []
        block = used(len(blocks), asked.calls, *pieces) if asked.calls else said(len(blocks), *asked.words)
        return messages_stream(*blocks, block, stop_reason="tool_use" if asked.calls else "end_turn")
    if asked.dialect == "completions":
        return chunks(*({"text": word} for word in asked.words), finish="stop")
    if asked.calls:
        opener = {
            "index": 0,
            "id": "call_1",
            "type": "function",
            "function": {"name": asked.calls, "arguments": ""},
        }
        calls = [opener, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
        return chunks(
            *({"delta": {"role": "assistant", "tool_calls": [call]}} for call in calls), finish="tool_calls"
        )
    return chunks(*({"delta": {"role": "assistant", "content": word}} for word in asked.words), finish="stop")


def reasoning() -> list[tuple[str, dict[str, object]]]:
    """A reasoning item that the client must give back with its encrypted content."""
    item = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": SIGNATURE}
    return [
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
    ]


def chunks(*choices: dict[str, Any], finish: str) -> list[bytes]:
    """Chunks of chat or of text, their finish, the usage and `[DONE]`."""
    head = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "up/real"}
    last = {"delta": {}, "text": ""}
    shown = [{"index": 0, "finish_reason": None, **choice} for choice in choices]
    shown.append({"index": 0, **last, "finish_reason": finish})
    found = [{**head, "choices": [choice]} for choice in shown] + [
        {**head, "choices": [], "usage": CHAT_USAGE}
    ]
    return [b"data: " + json.dumps(each).encode() + b"\n\n" for each in found] + [b"data: [DONE]\n\n"]


TOTALS = {
    "chat": 15,
    "completions": 15,
    "responses": RESPONSES_USAGE["total_tokens"],
    "messages": 30,
    "embeddings": 8,
}
"""Tokens of one call, by dialect."""
