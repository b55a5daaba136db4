"""The members of a JSON object, where they stand in its text: found, read, and replaced in place.

For JSON that msgspec does not read and servers send all the same (half a surrogate pair, NaN, bytes that are not
UTF-8), and for a change that leaves every other byte as it is. Knows no field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

S = TypeVar("S", bound=msgspec.Struct)

_SPACE = re.compile(r"[ \t\n\r]*")
# Values are walked over, not made: no number is too long for it, and none is rounded.
_scan = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).raw_decode


class Member(NamedTuple):
    """A member of an object: its name, and where its value begins and ends."""

    name: str
    start: int
    end: int


def members(data: bytes) -> list[Member] | None:
    """The members of the object that `data` is, each of several of one name; None where it is no object.

    Names are read as Latin-1, so that places are those of the bytes; a name in ASCII is itself.
    """
    try:
        return list(_walk(data.decode("latin-1")))
    except (ValueError, RecursionError):
        return None


def replaced(data: bytes, path: Sequence[str], value: bytes) -> bytes:
    """`data` with the value at `path`, wherever it stands, replaced by `value`; the same object where it is nowhere."""
    pieces: list[bytes] = []
    place = 0
    for name, start, end in members(data) or ():
        if name != path[0]:
            continue
        old = data[start:end]
        new = value if len(path) == 1 else replaced(old, path[1:], value)
        if new != old:
            pieces += (data[place:start], new)
            place = end
    return b"".join((*pieces, data[place:])) if pieces else data


class FieldReader(Generic[S]):
    """Reads the few fields of a JSON object that `kind` names, each as its text; what is absent has its default.

    Every field of `kind` is a `Raw`, so that a value of an odd type is no error.
    """

    __slots__ = ("_decode", "_kind", "_names")

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode
        self._names = frozenset(kind.__struct_fields__)

    def __call__(self, data: bytes) -> S | None:
        """The fields of the object that `data` is; None where it is no object."""
        try:
            return self._decode(data)
        except (msgspec.DecodeError, RecursionError):
            pass
        found = members(data)
        if found is None:
            return None
        fields = {name: Raw(data[start:end]) for name, start, end in found if name in self._names}
        return self._kind(**fields)


def _walk(text: str) -> Iterator[Member]:
    place = _after(text, 0, "{")
    if text[place : place + 1] == "}":
        _nothing_after(text, place + 1)
        return
    while True:
        if text[place : place + 1] != '"':
            raise ValueError("expected a name")
        name, place = _scan(text, place)
        start = _after(text, place, ":")
        place = _scan(text, start)[1]
        yield Member(name, start, place)
        place = _past_space(text, place)
        if text[place : place + 1] == "}":
            _nothing_after(text, place + 1)
            return
        place = _after(text, place, ",")


def _after(text: str, place: int, mark: str) -> int:
    """The next place that is no space, behind a mark that must stand there."""
    place = _past_space(text, place)
    if text[place : place + 1] != mark:
        raise ValueError(f"expected {mark!r}")
    return _past_space(text, place + 1)


def _nothing_after(text: str, place: int) -> None:
    if _past_space(text, place) != len(text):
        raise ValueError("something follows the object")


def _past_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return place if found is None else found.end()
