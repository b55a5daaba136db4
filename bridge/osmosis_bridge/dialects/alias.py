"""The client's own name for the model, put where the provider wrote its own. Changes nothing else of a text."""

from __future__ import annotations

import msgspec
from msgspec import Raw

_split = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def with_alias(data: bytes, model: bytes, alias: bytes) -> bytes:
    """`data` with its top-level `model` replaced in place; the same object where there is nothing to do.

    `model` is the value as it was decoded from `data`, `alias` what stands there afterwards, both as JSON text.
    """
    if model in (b"null", alias):
        return data
    if data.count(b'"model"') == 1:
        # One such word in the whole text: if the value follows it, it is the one the decoder found at the top level.
        for gap in (b'"model":', b'"model": '):
            if gap + model in data:
                return data.replace(gap + model, gap + alias, 1)
    try:
        fields = _split(data)
    except (msgspec.DecodeError, RecursionError):
        return data
    fields["model"] = Raw(alias)
    return _encode(fields)


def with_inner_alias(data: bytes, outer: str, alias: bytes) -> bytes:
    """`data` with the `model` inside its field `outer` replaced; the same object where there is none."""
    try:
        fields = _split(data)
        inner = _split(fields[outer])
    except (KeyError, msgspec.DecodeError, RecursionError):
        return data
    if "model" not in inner or bytes(inner["model"]) in (b"null", alias):
        return data
    text = bytes(fields[outer])
    renamed = with_alias(text, bytes(inner["model"]), alias)
    if data.count(text) == 1:
        return data.replace(text, renamed)
    fields[outer] = Raw(renamed)
    return _encode(fields)
