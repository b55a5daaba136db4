"""The fields of one JSON object, each as the text it came in; a name that stands twice is an error, never the last one.

That every name stands once is seen from lengths alone where nothing stands between the tokens, as most clients write
it, and by writing the object again where it is as Python's `json` writes it. Only what is written otherwise is read a
second time. Knows no field.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

Fields = dict[str, Raw]


class NamedTwice(ValueError):
    """An object that has two members of one name; `name` is it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name!r} stands twice")
        self.name = name


class _Name:
    """A member's name, equal to nothing but itself, so that a dict has each of several."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _as_name(kind: type, text: str) -> _Name:
    del kind
    return _Name(text)


_split = msgspec.json.Decoder(Fields).decode
_split_all = msgspec.json.Decoder(dict[_Name, Raw], dec_hook=_as_name).decode


def split_fields(text: bytes) -> Fields:
    """The fields of the object that `text` is, in their order.

    Raises `NamedTwice`; `msgspec.ValidationError` for JSON that is no object, `msgspec.DecodeError` or RecursionError
    for what is no JSON.
    """
    fields = _split(text)
    count = len(fields)
    compact = len("".join(fields)) + sum(map(len, fields.values())) + 4 * count + 1
    size = len(text)
    if size == compact or (size == compact + 2 * count - 1 and _as_python_writes(fields) == text):
        return fields
    names = [name.text for name in _split_all(text)]
    if len(names) > count:
        raise NamedTwice(_first_again(names))
    return fields


def _first_again(names: list[str]) -> str:
    """The first name that stood before; linear, as a client says how many there are."""
    seen: set[str] = set()
    return next(name for name in names if name in seen or seen.add(name))


def _as_python_writes(fields: Fields) -> bytes:
    """The object with a space after each colon and comma of its own; wrong where a name needs escapes."""
    names = ('{"' + '": \0, "'.join(fields) + '": ').encode().split(b"\0")
    if len(names) != len(fields):
        return b""
    parts: list[bytes | Raw] = [b"}"] * (2 * len(fields) + 1)
    parts[:-1:2] = names
    parts[1::2] = fields.values()
    return b"".join(parts)
