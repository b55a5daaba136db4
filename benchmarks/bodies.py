"""What the load clients send: requests of about 1 KB and 100 KB, plain or streamed, with the upstream's mark in them.

A mark `@@WAIT,CHUNKS,GAP@@` tells the upstream how to answer (milliseconds); it stands in the system message, so that
every proxy forwards it.
"""

from __future__ import annotations

import json
from pathlib import Path

SMALL_BYTES = 1_000
LARGE_BYTES = 100_000


def mark(wait_ms: int = 0, chunks: int = 0, gap_ms: int = 0) -> str:
    """The mark for the upstream."""
    return f"@@{wait_ms},{chunks},{gap_ms}@@"


def small(model: str, marked: str, *, stream: bool = False) -> dict[str, object]:
    """About 1 KB: two messages and four parameters."""
    question = "Which of these words comes first in the alphabet? " + "walnut basket ribbon lantern " * 17
    body: dict[str, object] = {
        "model": model,
        "messages": [
            {
                "role": "system",
                "content": f"{marked} " + "You answer in one word, and never explain yourself. " * 4,
            },
            {"role": "user", "content": question},
        ],
        "temperature": 0.7,
        "top_p": 0.95,
        "max_tokens": 256,
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def large(model: str, marked: str) -> dict[str, object]:
    """About 100 KB: a coding agent in the middle of its work, with twelve tools."""
    tools = [_tool(number) for number in range(12)]
    messages: list[object] = [
        {"role": "system", "content": f"{marked} " + "You are a coding agent. Work in small steps. " * 20}
    ]
    size = len(_encoded(messages)) + len(_encoded(tools))
    turn = 0
    while size < LARGE_BYTES:
        more = _turn(turn)
        messages += more
        size += len(_encoded(more))
        turn += 1
    return {
        "model": model,
        "messages": messages,
        "tools": tools,
        "tool_choice": "auto",
        "temperature": 0.7,
        "max_tokens": 1024,
    }


def _tool(number: int) -> dict[str, object]:
    described = "Reads, writes or runs one thing in the working copy, and says what came of it. " * 3
    properties = {
        f"argument_{index}": {"type": "string", "description": "A path below the root of the working copy. "}
        for index in range(6)
    }
    parameters = {"type": "object", "properties": properties, "required": ["argument_0"]}
    return {
        "type": "function",
        "function": {"name": f"tool_{number}", "description": described, "parameters": parameters},
    }


def _turn(number: int) -> list[object]:
    listing = 'def area(width, height):\n    "Café ½ of it"\n    return {"size": width * height}\n' * 12
    arguments = json.dumps({"argument_0": f"src/shape_{number}.py", "argument_1": "show"})
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "tool_3", "arguments": arguments},
    }
    asked = f"What does file {number} do?\n" + 'It is said to be "the usual thing".\n' * 8
    return [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": "I will look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": listing},
    ]


def _encoded(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def write(folder: Path, name: str, body: object) -> Path:
    """Write a body to a file and return its path."""
    path = folder / f"{name}.json"
    path.write_bytes(_encoded(body))
    return path
