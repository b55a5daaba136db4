"""The lines of rows.jsonl: what a row asks and what is expected, short enough to look at. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from osmosis_runner.jsontext import JsonObject, JsonValue
from osmosis_runner.row_store import Row

PROMPT_LIMIT = 2_000
LABEL_LIMIT = 500

_INSTRUCTIONS = frozenset({"system", "developer"})
_ENCODER = msgspec.json.Encoder()
_SORTED = msgspec.json.Encoder(order="deterministic")


def row_preview(row: Row) -> bytes:
    """Return the row's line of rows.jsonl: `{"row_index","prompt","label"?}` and a newline.

    The prompt is the text of the messages that are not instructions, else the metadata as key-sorted JSON, cut.
    """
    prompt = "\n\n".join(
        _text_of(message) for message in row.messages if message["role"] not in _INSTRUCTIONS
    )
    if not prompt and row.metadata is not None:
        prompt = _SORTED.encode(row.metadata).decode()
    line: JsonObject = {"row_index": row.row_index, "prompt": prompt[:PROMPT_LIMIT]}
    if row.label is not None:
        line["label"] = row.label[:LABEL_LIMIT]
    return _ENCODER.encode(line) + b"\n"


def _text_of(message: JsonObject) -> str:
    content: JsonValue = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))
