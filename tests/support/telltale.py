"""Replies of a provider that says again, in every place of a reply, all that it was sent and all that it knows.

For tests that look for secrets: each script is one way in which a provider's words reach a client or a record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from osmosis_bridge.conformance.samples import USAGE, chunk, completion, finish, said, usage
from osmosis_bridge.conformance.script import DONE, Drip, Script, Send, chunked, head, raw
from osmosis_bridge.conformance.upstream import Received

EVENT_STREAM = ("content-type", "text/event-stream")
CHUNKED = ("transfer-encoding", "chunked")
LAST = b"0\r\n\r\n"
X = said("x")
Write = Callable[[str], bytes]
# Those that are passed on, and some that are not.
HEADERS = (
    *("x-request-id", "retry-after", "x-ratelimit-limit-key", "openai-version", "cf-ray"),
    *("set-cookie", "location", "www-authenticate"),
)


@dataclass(frozen=True)
class Telltale:
    """A provider that knows these secrets besides what it is sent."""

    known: Sequence[str]

    def scripts(self) -> dict[str, tuple[Script, bool]]:
        """Every way by its name: what is said, and whether it answers a request for a stream."""
        plain = {
            "a completion": self.whole(as_completion),
            "an error as OpenAI writes it": self.whole(as_error, 401),
            "an error that is a text": self.whole(lambda text: fields(error=text), 400),
            "an error that is flat": self.whole(
                lambda text: fields(object="error", message=text, code=text), 500
            ),
            "an error in other words": self.whole(lambda text: fields(detail=text), 422),
            "an error under status 200": self.whole(as_error),
            "words": self.whole(lambda text: f"Incorrect key: {text}".encode(), 403, "text/plain"),
            "words under status 200": self.whole(lambda text: f"Bad key: {text}".encode(), 200, "text/plain"),
            "a redirect": self.whole(as_error, 307),
            "no HTTP": raw(f"HTTP/7 {self.known[0]}\r\n\r\n".encode()),
            "a length that is none": raw(head(200, ("content-length", quote(self.known[0])))),
            "a coding that is none": raw(head(200, ("content-encoding", quote(self.known[0]))), b"x"),
        }
        streams = {
            "an error of OpenAI's shape": self.whole(as_error, 429),
            "an error page": self.whole(lambda text: f"<html>{text}</html>".encode(), 502, "text/html"),
            "a plain reply": self.whole(as_completion),
            "events": self.events(*(lambda text, at=at: frames(text)[at] for at in range(5))),
            "an error midway": self.events(x, lambda text: event(as_error(text))),
            "an error at once": self.events(lambda text: event(as_error(text))),
            "an error event": self.events(
                x, lambda text: b"event: error\n" + event(json.dumps(text).encode())
            ),
            "an error event in words": self.events(x, lambda text: b"event: error\n" + event(flat(text))),
            "an event that is no JSON": self.events(x, lambda text: event(b"oops " + flat(text))),
            "a choice that erred": self.events(x, erred),
            "half an event": self.events(
                x, lambda text: b'data: {"error": ' + json.dumps(text).encode(), done=False
            ),
            "events in small pieces": dripped(b"".join(frames(" ".join(self.known))) + DONE),
        }
        scripts = {f"{name} to a stream": (script, True) for name, script in streams.items()}
        return scripts | {name: (script, False) for name, script in plain.items()}

    def told(self, received: Received) -> str:
        """All that the provider knows, as one text."""
        return " | ".join([received.head.decode("latin-1"), received.body.decode(), *self.known])

    def whole(self, write: Write, status: int = 200, kind: str = "application/json") -> Script:
        """A reply with a length, and the secrets in its headers too."""
        named = [(name, " ".join(self.known)) for name in HEADERS]

        def reply(received: Received) -> bytes:
            body = write(self.told(received))
            length = ("content-length", str(len(body)))
            start = head(status, ("content-type", kind), length, *named, reason=quote(self.known[0]))
            return start + body

        return Script((Send(reply),))

    def events(self, *writes: Write, done: bool = True) -> Script:
        """A stream of frames."""

        def reply(received: Received) -> bytes:
            text = self.told(received)
            written = [write(text) for write in writes] + ([DONE] if done else [])
            start = head(200, EVENT_STREAM, CHUNKED, ("x-request-id", self.known[0]))
            return start + b"".join(map(chunked, written)) + LAST

        return Script((Send(reply),))


def x(_text: str) -> bytes:
    """A frame that has nothing to tell."""
    return X


def flat(text: str) -> bytes:
    return text.replace("\r\n", " ").encode()


def event(content: bytes) -> bytes:
    return b"data: " + content + b"\n\n"


def fields(**values: str) -> bytes:
    return json.dumps(values).encode()


def as_error(text: str) -> bytes:
    return json.dumps(
        {"error": dict.fromkeys(("message", "type", "param", "code", "metadata"), text)}
    ).encode()


def as_completion(text: str) -> bytes:
    reply = json.loads(completion())
    reply |= dict.fromkeys(("model", "system_fingerprint", "service_tier", "weird"), text)
    reply["choices"][0] |= {"finish_reason": text, "logprobs": {"content": [{"token": text}]}}
    reply["choices"][0]["message"] = {
        "role": "assistant",
        "content": text,
        "reasoning_content": text,
        text: 1,
    }
    return json.dumps(reply).encode()


def frames(text: str) -> list[bytes]:
    """The frames of a stream that tells in each of its parts."""
    quoted = json.dumps(text)
    calls = f'[{{"index":0,"function":{{"arguments":{quoted}}}}}]'
    return [
        b": " + flat(text) + b"\n\n",
        b"id: " + flat(text) + b"\nevent: " + flat(text) + b"\n" + X,
        chunk(f'{{"content":{quoted},"tool_calls":{calls}}}', more=f',"x":{quoted}'),
        finish(quoted),
        usage(USAGE[:-1] + f',"note":{quoted}}}'),
    ]


def erred(text: str) -> bytes:
    return chunk("{}", finish='"error"', more=f',"error":{json.dumps({"message": text})}')


def dripped(content: bytes) -> Script:
    """A stream of seven-byte chunks, one byte at a time."""
    pieces = b"".join(chunked(content[at : at + 7]) for at in range(0, len(content), 7))
    return Script((Send(head(200, EVENT_STREAM, CHUNKED)), Drip(pieces + LAST, 0.0)))
