"""Well-formed completions and chunks for scripts, as text: the answer is always `hello`."""

from __future__ import annotations

from osmosis_bridge.conformance.script import DONE, data

MODEL = "upstream-model"
"""The name by which the scripted upstream's replies call their model."""

USAGE = '{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}'


def completion(
    message: str = '{"role":"assistant","content":"hello"}',
    *,
    finish: str = '"stop"',
    usage: str | None = USAGE,
    more: str = "",
) -> str:
    """A plain completion; `message` and `finish` are JSON text, `more` extra members."""
    tail = f',"usage":{usage}' if usage is not None else ""
    return (
        f'{{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"{MODEL}",'
        f'"choices":[{{"index":0,"message":{message},"logprobs":null,"finish_reason":{finish}}}]{tail}{more}}}'
    )


def chunk_json(delta: str, *, finish: str = "null", index: int = 0, more: str = "") -> str:
    """The JSON of one chunk; `delta` and `finish` are JSON text, `more` extra members."""
    return (
        f'{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"{MODEL}",'
        f'"choices":[{{"index":{index},"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]{more}}}'
    )


def usage_json(usage: str = USAGE, choices: str | None = "[]") -> str:
    """The JSON of a usage-only chunk; `choices=None` leaves that member out."""
    listed = f'"choices":{choices},' if choices is not None else ""
    return (
        f'{{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"{MODEL}",'
        f'{listed}"usage":{usage}}}'
    )


def chunk(delta: str, *, finish: str = "null", index: int = 0, more: str = "") -> bytes:
    """One chunk as an SSE event."""
    return data(chunk_json(delta, finish=finish, index=index, more=more))


def said(text: str) -> bytes:
    """A chunk with this content; `text` is put between quotes as it stands."""
    return chunk(f'{{"content":"{text}"}}')


def finish(reason: str = '"stop"', more: str = "") -> bytes:
    """A chunk that only finishes."""
    return chunk("{}", finish=reason, more=more)


def usage(text: str = USAGE) -> bytes:
    """A usage-only chunk as an SSE event."""
    return data(usage_json(text))


ROLE = chunk('{"role":"assistant","content":""}')
HELLO = (ROLE, said("hel"), said("lo"), finish())
"""The answer `hello` with its finish, without usage and `[DONE]`."""
WHOLE = (*HELLO, usage(), DONE)
"""The answer `hello`, complete."""
