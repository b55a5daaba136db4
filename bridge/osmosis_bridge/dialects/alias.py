"""The client's own name for the model, put where the provider wrote its own. Changes nothing else of a text."""

from __future__ import annotations

from osmosis_bridge.dialects.members import replaced


def with_alias(data: bytes, model: bytes, alias: bytes, within: str | None = None) -> bytes:
    """`data` with its `model` replaced in place; the same object where there is nothing to do.

    `model` is the value as it was found in `data`, `alias` what stands there afterwards, both as JSON text; the field
    stands at the top level, or in the object `within`.
    """
    if model in (b"null", alias):
        return data
    if data.count(b'"model"') == 1:
        # One such word in the whole text: if the value follows it, it is the one that was found.
        for gap in (b'"model":', b'"model": '):
            put = data.replace(gap + model, gap + alias, 1)
            if put != data:
                return put
    return replaced(data, ("model",) if within is None else (within, "model"), alias)
