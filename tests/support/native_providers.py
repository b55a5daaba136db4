"""Providers that speak their own dialects, on loopback: what a native call is tested against.

One server answers them all, by path. What it answers is one `Answer`, said in the dialect of the path; what it was
asked is kept. The shapes are those of the providers' public references.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from osmosis_bridge.native.eventstream import encode_frame
from osmosis_bridge.native.jsontree import objects, strings


@dataclass(frozen=True)
class Answer:
    """What the model says, and what goes wrong on the way."""

    text: tuple[str, ...] = ("Hello", " world")
    thinking: str | None = None
    signature: str = "c2lnbmF0dXJl"
    tool: tuple[str, dict[str, Any]] | None = None
    finish: str | None = None
    usage: bool = True
    status: int = 200
    body: Any = None
    headers: tuple[tuple[str, str], ...] = (("request-id", "req-1"),)
    error_after: Any = None
    cut_after: int | None = None
    gap_s: float = 0.0


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    left: threading.Event = field(default_factory=threading.Event)


class NativeProviders:
    """The server; `answer` may be replaced between calls, or decided for each by `decide`."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.decide: Callable[[Asked], Answer] | None = None
        self.asked: list[Asked] = []
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> NativeProviders:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def calls(self) -> list[Asked]:
        """The requests that are calls of a model."""
        return [asked for asked in self.asked if asked.method == "POST" and "/api/show" not in asked.path]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        with contextlib.suppress(ConnectionError):
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
        }
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        asked = Asked(method, path, headers, json.loads(raw) if raw else None)
        self.asked.append(asked)
        answer = self.answer if self.decide is None else self.decide(asked)
        plain = path.partition("?")[0]
        if answer.status != 200 or (answer.body is not None and answer.error_after is None):
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            await _send(writer, answer.status, "application/json", answer.headers, [body])
            return True
        say = _dialect(plain)
        if say is None:
            await _send(writer, 404, "application/json", (), [b'{"error":"no such route"}'])
            return True
        kind, pieces = say(answer, asked)
        if answer.cut_after is not None:
            await _send_head(writer, 200, kind, answer.headers, None)
            for piece in pieces[: answer.cut_after]:
                await _send_piece(writer, piece)
            writer.transport.abort()
            return False
        if len(pieces) == 1:
            await _send(writer, 200, kind, answer.headers, pieces)
            return True
        return await self._stream(writer, kind, answer, pieces, asked)

    async def _stream(
        self, writer: asyncio.StreamWriter, kind: str, answer: Answer, pieces: list[bytes], asked: Asked
    ) -> bool:
        await _send_head(writer, 200, kind, answer.headers, None)
        for piece in pieces:
            try:
                await _send_piece(writer, piece)
                await asyncio.sleep(answer.gap_s)
                if writer.transport.is_closing():
                    raise ConnectionError
            except ConnectionError:
                asked.left.set()
                return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@contextlib.contextmanager
def native_providers() -> Iterator[NativeProviders]:
    server = NativeProviders().start()
    try:
        yield server
    finally:
        server.stop()


async def _send(
    writer: asyncio.StreamWriter, status: int, kind: str, headers: Any, pieces: list[bytes]
) -> None:
    body = b"".join(pieces)
    await _send_head(writer, status, kind, headers, len(body))
    writer.write(body)
    await writer.drain()


async def _send_head(
    writer: asyncio.StreamWriter, status: int, kind: str, headers: Any, length: int | None
) -> None:
    framing = ("transfer-encoding", "chunked") if length is None else ("content-length", str(length))
    lines = [f"{name}: {value}" for name, value in (("content-type", kind), framing, *headers)]
    writer.write(f"HTTP/1.1 {status} X\r\n".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n")
    await writer.drain()


async def _send_piece(writer: asyncio.StreamWriter, piece: bytes) -> None:
    writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    await writer.drain()


def _dialect(path: str) -> Any:
    if path.endswith("/api/chat"):
        return _ollama
    if path.endswith("/api/show"):
        return lambda answer, asked: ("application/json", [b'{"model_info":{},"template":""}'])
    for end, say in (
        (":batchEmbedContents", _gemini_vectors), (":embedContent", _gemini_vectors), (":predict", _vertex_vectors),
        ("/invoke", _bedrock_vectors), ("/api/embed", _ollama_vectors), ("/embed", _cohere_vectors),
        ("/embeddings", _openai_vectors), ("/v1/completions", _openai_text),
        ("/messages", _anthropic), (":rawPredict", _anthropic), (":streamRawPredict", _anthropic),
        (":generateContent", _gemini), (":streamGenerateContent", _gemini), ("/converse", _converse),
        ("/converse-stream", _converse), ("/chat/completions", _openai), ("/chat", _cohere),
    ):  # fmt: skip
        if path.endswith(end):
            return say
    return None


def _event(data: Any, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _anthropic(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    finish = answer.finish or ("tool_use" if answer.tool else "end_turn")
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": answer.signature})
    if answer.text:
        blocks.append({"type": "text", "text": "".join(answer.text)})
    if answer.tool:
        blocks.append({"type": "tool_use", "id": "toolu_1", "name": answer.tool[0], "input": answer.tool[1]})
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "stop_sequence": None,
    }
    if not asked.body.get("stream"):
        usage = {"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 5} if answer.usage else {}
        whole = (
            message | {"content": blocks, "stop_reason": finish} | ({"usage": usage} if answer.usage else {})
        )
        return "application/json", [json.dumps(whole).encode()]
    start = message | {"content": [], "stop_reason": None}
    if answer.usage:
        start["usage"] = {"input_tokens": 11, "output_tokens": 1, "cache_read_input_tokens": 5}
    pieces = [
        _event({"type": "message_start", "message": start}, "message_start"),
        _event({"type": "ping"}, "ping"),
    ]
    for index, block in enumerate(blocks):
        pieces += _anthropic_block(index, block, answer)
    if answer.error_after is not None:
        return "text/event-stream", [*pieces, _event({"type": "error", "error": answer.error_after}, "error")]
    delta: dict[str, Any] = {"type": "message_delta", "delta": {"stop_reason": finish, "stop_sequence": None}}
    if answer.usage:
        delta["usage"] = {"output_tokens": 7}
    return "text/event-stream", [
        *pieces,
        _event(delta, "message_delta"),
        _event({"type": "message_stop"}, "message_stop"),
    ]


def _anthropic_block(index: int, block: dict[str, Any], answer: Answer) -> list[bytes]:
    kind = block["type"]
    empty = {
        "text": {"type": "text", "text": ""},
        "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    }
    deltas: list[dict[str, Any]]
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in answer.text]
    elif kind == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    else:
        text = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in (text[:5], text[5:])]
    start = empty.get(kind) or block | {"input": {}}
    return [
        _event(
            {"type": "content_block_start", "index": index, "content_block": start}, "content_block_start"
        ),
        *(
            _event({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
            for delta in deltas
        ),
        _event({"type": "content_block_stop", "index": index}, "content_block_stop"),
    ]


def _gemini(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    finish = answer.finish or "STOP"
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    tail: list[dict[str, Any]] = []
    if answer.tool:
        call = {
            "functionCall": {"name": answer.tool[0], "args": answer.tool[1]},
            "thoughtSignature": answer.signature,
        }
        tail.append(call)
    head: list[dict[str, Any]] = [{"text": answer.thinking, "thought": True}] if answer.thinking else []

    def part(parts: list[dict[str, Any]], last: bool) -> dict[str, Any]:
        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
        if last:
            candidate["finishReason"] = finish
        found: dict[str, Any] = {"candidates": [candidate], "responseId": "resp-1", "modelVersion": "gemini"}
        return found | ({"usageMetadata": usage} if last and answer.usage else {})

    if "stream" not in asked.path:
        signed = {"thoughtSignature": answer.signature} if answer.thinking and not answer.tool else {}
        text = [{"text": "".join(answer.text)} | signed] if answer.text else []
        return "application/json", [json.dumps(part([*head, *text, *tail], last=True)).encode()]
    parts = [*head, *({"text": piece} for piece in answer.text), *tail]
    pieces = [_event(part([item], last=False)) for item in parts]
    if answer.error_after is not None:
        return "text/event-stream", [*pieces, _event({"error": answer.error_after})]
    return "text/event-stream", [*pieces, _event(part([{"text": ""}], last=True))]


def _converse(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    finish = answer.finish or ("tool_use" if answer.tool else "end_turn")
    usage = {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18}
    tool = (
        {"toolUseId": "tooluse_1", "name": answer.tool[0], "input": answer.tool[1]} if answer.tool else None
    )
    if asked.path.endswith("/converse"):
        content: list[dict[str, Any]] = []
        if answer.thinking:
            content.append(
                {
                    "reasoningContent": {
                        "reasoningText": {"text": answer.thinking, "signature": answer.signature}
                    }
                }
            )
        content += [{"text": "".join(answer.text)}] if answer.text else []
        content += [{"toolUse": tool}] if tool else []
        whole: dict[str, Any] = {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": finish,
            "metrics": {"latencyMs": 1},
        }
        return "application/json", [json.dumps(whole | ({"usage": usage} if answer.usage else {})).encode()]
    events: list[tuple[str, dict[str, Any]]] = [("messageStart", {"role": "assistant"})]
    if answer.thinking:
        for said in ({"text": answer.thinking}, {"signature": answer.signature}):
            events.append(
                ("contentBlockDelta", {"contentBlockIndex": 9, "delta": {"reasoningContent": said}})
            )
        events.append(("contentBlockStop", {"contentBlockIndex": 9}))
    events += [
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}}) for piece in answer.text
    ]
    events.append(("contentBlockStop", {"contentBlockIndex": 0}))
    if tool:
        start = {"toolUse": {"toolUseId": tool["toolUseId"], "name": tool["name"]}}
        events.append(("contentBlockStart", {"contentBlockIndex": 1, "start": start}))
        events.append(
            (
                "contentBlockDelta",
                {"contentBlockIndex": 1, "delta": {"toolUse": {"input": json.dumps(tool["input"])}}},
            )
        )
        events.append(("contentBlockStop", {"contentBlockIndex": 1}))
    pieces = [_frame(name, payload) for name, payload in events]
    if answer.error_after is not None:
        headers = {
            ":message-type": "exception",
            ":exception-type": answer.error_after["type"],
            ":content-type": "application/json",
        }
        pieces.append(encode_frame(headers, json.dumps({"message": answer.error_after["message"]}).encode()))
    else:
        pieces.append(_frame("messageStop", {"stopReason": finish}))
        if answer.usage:
            pieces.append(_frame("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}))
    return "application/vnd.amazon.eventstream", pieces


def _frame(name: str, payload: dict[str, Any]) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_frame(headers, json.dumps(payload).encode())


def _cohere(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    finish = answer.finish or ("TOOL_CALL" if answer.tool else "COMPLETE")
    usage = {
        "billed_units": {"input_tokens": 11, "output_tokens": 7},
        "tokens": {"input_tokens": 11, "output_tokens": 7},
    }
    call = (
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": answer.tool[0], "arguments": json.dumps(answer.tool[1])},
        }
        if answer.tool
        else None
    )
    if not asked.body.get("stream"):
        message: dict[str, Any] = {
            "role": "assistant",
            "content": [{"type": "text", "text": "".join(answer.text)}],
        }
        if call:
            message["tool_calls"] = [call]
        whole = {"id": "c-1", "finish_reason": finish, "message": message} | (
            {"usage": usage} if answer.usage else {}
        )
        return "application/json", [json.dumps(whole).encode()]
    pieces = [
        _event(
            {
                "type": "message-start",
                "id": "c-1",
                "delta": {"message": {"role": "assistant", "content": []}},
            },
            "message-start",
        )
    ]
    pieces += [
        _event(
            {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": piece}}}},
            "content-delta",
        )
        for piece in answer.text
    ]
    if call:
        pieces.append(
            _event(
                {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": call}}},
                "tool-call-start",
            )
        )
        pieces.append(_event({"type": "tool-call-end", "index": 0}, "tool-call-end"))
    end: dict[str, Any] = {"finish_reason": finish} | ({"usage": usage} if answer.usage else {})
    return "text/event-stream", [*pieces, _event({"type": "message-end", "delta": end}, "message-end")]


def _ollama(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    counts = {"prompt_eval_count": 11, "eval_count": 7} if answer.usage else {}
    base = {"model": "llama3", "created_at": "2026-01-01T00:00:00Z"}
    calls = [{"function": {"name": answer.tool[0], "arguments": answer.tool[1]}}] if answer.tool else []
    done = {"done": True, "done_reason": answer.finish or "stop"} | counts
    if asked.body.get("stream") is False:
        message = {"role": "assistant", "content": "".join(answer.text)} | (
            {"tool_calls": calls} if calls else {}
        )
        return "application/json", [json.dumps(base | {"message": message} | done).encode()]
    lines: list[dict[str, Any]] = [
        base | {"message": {"role": "assistant", "content": piece}, "done": False} for piece in answer.text
    ]
    if calls:
        lines.append(
            base | {"message": {"role": "assistant", "content": "", "tool_calls": calls}, "done": False}
        )
    lines.append(base | {"message": {"role": "assistant", "content": ""}} | done)
    return "application/x-ndjson", [json.dumps(line).encode() + b"\n" for line in lines]


def _openai(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    finish = answer.finish or ("tool_calls" if answer.tool else "stop")
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    base = {"id": "chatcmpl-1", "created": 1, "model": "there", "vendor_field": {"kept": True}}
    call = (
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": answer.tool[0], "arguments": json.dumps(answer.tool[1])},
        }
        if answer.tool
        else None
    )
    if not asked.body.get("stream"):
        message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.text)} | (
            {"tool_calls": [call]} if call else {}
        )
        whole = base | {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }
        return "application/json", [json.dumps(whole | ({"usage": usage} if answer.usage else {})).encode()]
    base |= {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], end: str | None = None) -> bytes:
        return _event(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]})

    pieces = [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": piece}) for piece in answer.text),
    ]
    pieces += [chunk({"tool_calls": [{"index": 0} | call]})] if call else []
    if answer.error_after is not None:
        return "text/event-stream", [*pieces, _event({"error": answer.error_after})]
    pieces.append(chunk({}, finish))
    if answer.usage and (asked.body.get("stream_options") or {}).get("include_usage"):
        pieces.append(_event(base | {"choices": [], "usage": usage}))
    return "text/event-stream", [*pieces, b"data: [DONE]\n\n"]


def uses_the_tool(asked: Asked) -> Answer:
    """A model of few words: it calls the tool `add` once, and then says what came of it."""
    results = [text for node in objects(asked.body) for text in _results(node)]
    if not results:
        return Answer(text=(), tool=("add", {"a": 7, "b": 8}))
    return Answer(text=("the tool", " said ", results[-1]))


def _results(node: dict[str, Any]) -> list[str]:
    """What a tool said, in Anthropic's, Gemini's or Amazon's place for it."""
    if node.get("type") == "tool_result":
        return strings(
            node["content"]
            if isinstance(node["content"], str)
            else [part["text"] for part in node["content"]]
        )
    for name, inner in (("functionResponse", "response"), ("function_response", "response")):
        if name in node:
            return strings(node[name][inner])
    return (
        [text for part in node["toolResult"]["content"] for text in strings(part)]
        if "toolResult" in node
        else []
    )


def vector_of(text: str) -> list[float]:
    """What every provider here makes of a text."""
    return [float(len(text)), 0.5, -1.25]


def _json(body: dict[str, Any], counts: dict[str, Any], answer: Answer) -> tuple[str, list[bytes]]:
    return "application/json", [json.dumps(body | (counts if answer.usage else {})).encode()]


def _gemini_vectors(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    counts = {"usageMetadata": {"promptTokenCount": 5}}
    if "requests" not in asked.body:
        text = asked.body["content"]["parts"][0]["text"]
        return _json({"embedding": {"values": vector_of(text)}}, counts, answer)
    texts = [item["content"]["parts"][0]["text"] for item in asked.body["requests"]]
    return _json({"embeddings": [{"values": vector_of(text)} for text in texts]}, counts, answer)


def _vertex_vectors(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    statistics = {"statistics": {"token_count": 5, "truncated": False}} if answer.usage else {}
    found = [{"values": vector_of(item["content"])} | statistics for item in asked.body["instances"]]
    return _json({"predictions": [{"embeddings": item} for item in found]}, {}, answer)


def _bedrock_vectors(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    if "texts" in asked.body:
        return _json({"embeddings": [vector_of(text) for text in asked.body["texts"]]}, {}, answer)
    if "singleEmbeddingParams" in asked.body:
        text = asked.body["singleEmbeddingParams"]["text"]["value"]
        return _json({"embeddings": [{"embeddingType": "TEXT", "embedding": vector_of(text)}]}, {}, answer)
    return _json({"embedding": vector_of(asked.body["inputText"])}, {"inputTextTokenCount": 5}, answer)


def _ollama_vectors(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    found = [vector_of(text) for text in asked.body["input"]]
    return _json({"model": "m", "embeddings": found}, {"prompt_eval_count": 5}, answer)


def _cohere_vectors(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    found = {"id": "e-1", "embeddings": {"float": [vector_of(text) for text in asked.body["texts"]]}}
    return _json(found, {"meta": {"billed_units": {"input_tokens": 5}}}, answer)


def _openai_vectors(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    given = asked.body["input"]
    texts = [given] if isinstance(given, str) else given
    found = [
        {"object": "embedding", "index": n, "embedding": vector_of(str(text))} for n, text in enumerate(texts)
    ]
    counts = {"usage": {"prompt_tokens": 5, "total_tokens": 5}}
    return _json({"object": "list", "model": "there", "data": found, "vendor": 1}, counts, answer)


def _openai_text(answer: Answer, asked: Asked) -> tuple[str, list[bytes]]:
    finish = answer.finish or "stop"
    usage = {"usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}}
    base = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "there"}

    def piece(text: str, end: str | None = None) -> dict[str, Any]:
        return base | {"choices": [{"index": 0, "text": text, "finish_reason": end, "logprobs": None}]}

    if not asked.body.get("stream"):
        return _json(piece("".join(answer.text), finish), usage, answer)
    pieces = [_event(piece(text)) for text in answer.text] + [_event(piece("", finish))]
    if answer.usage and (asked.body.get("stream_options") or {}).get("include_usage"):
        pieces.append(_event(base | {"choices": []} | usage))
    return "text/event-stream", [*pieces, b"data: [DONE]\n\n"]


def with_changes(answer: Answer, **changes: Any) -> Answer:
    """The same answer with some fields changed."""
    return replace(answer, **changes)
