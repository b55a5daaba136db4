"""What the native lane says of a chat request, in the words of the client that wrote it in another dialect.

A translation's `sources` lead from places of the chat request (`messages[2].content`, `tools`) to the client's own; the
longest that fits is taken, and what lies beneath it keeps its name. Pure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Mapping

import msgspec

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.outgoing import FieldRow
from osmosis_bridge.native.plan import Unsupported
from osmosis_bridge.native.spoken.translation import Translation

_ENVELOPE = frozenset({"model", "stream"})


def client_place(place: str, sources: Mapping[str, str]) -> str:
    """Where the client wrote what stands at `place` of the chat request."""
    end = len(place)
    while end > 0:
        name = sources.get(place[:end])
        if name is not None:
            return name + place[end:]
        end = max(place.rfind(".", 0, end), place.rfind("[", 0, end))
    return place


@contextlib.contextmanager
def in_words_of(translation: Translation | None) -> Generator[None]:
    """Let refusals out that name the client's fields."""
    try:
        yield
    except Refused as refusal:
        if translation is None or refusal.param is None:
            raise
        raise _renamed(refusal, refusal.param, translation.sources) from None


def _renamed(refusal: Refused, param: str, sources: Mapping[str, str]) -> Refused:
    if isinstance(refusal, Unsupported):
        fields = {client_place(field, sources): why for field, why in refusal.fields.items()}
        return Unsupported(fields, refusal.family)
    place = client_place(param, sources)
    message = refusal.message
    if message.startswith(param):
        message = place + message[len(param) :]
    return Refused(
        message,
        code=refusal.code,
        status=refusal.status,
        param=place,
        type=refusal.type,
        headers=refusal.headers,
    )


def client_rows(
    rows: Collection[FieldRow], translation: Translation, fields: Collection[str]
) -> list[FieldRow]:
    """Rows under the names of the client's `fields`; a row for each of them that went into the conversation."""
    sources, left_out = translation.sources, translation.left_out
    named = [
        msgspec.structs.replace(row, field=client_place(row.field, sources))
        for row in rows
        if row.field != "stream_options" or row.field in fields
    ]
    named += [FieldRow(name, "left out", why=why) for name, why in left_out.items()]
    told = {_root(row.field) for row in named} | _ENVELOPE
    said = {_root(name) for place, name in sources.items() if _root(place) == "messages"}
    named += [
        FieldRow(name, "moved to", why="it is said within the conversation")
        for name in fields
        if name in said and name not in told
    ]
    return named


def _root(place: str) -> str:
    return place.partition(".")[0].partition("[")[0]
