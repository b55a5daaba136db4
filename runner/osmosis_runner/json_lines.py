"""JSON text to values without loss: duplicate keys, numbers out of range and half characters are refused, with reasons.

Fast where a text is good (one native decode), slow and explicit where it is not. Pure.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import msgspec

from osmosis_runner.dataset_problems import Unreadable, bounded, shown

_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SPACED_COLON = re.compile(rb'"[ \t\r\n]+:')
_LONGEST_INT = 4_300
"""Digits of an integer that Python converts; the decoder has the same bound."""


def parse_line(line: bytes, file_offset: int = 0) -> dict[str, object]:
    """Return the object on one line, which begins at byte `file_offset` of its file.

    Raises `Unreadable` saying what is wrong and how to mend it.
    """
    value = _parse(line, file_offset)
    if not isinstance(value, dict):
        raise Unreadable(f"{_kind(value)} where an object belongs", _fix_for(value))
    return cast("dict[str, object]", value)


def parse_object(text: str) -> Mapping[str, object]:
    """Return the object in a cell's text. Raises `Unreadable`."""
    value = parse_value(text)
    if not isinstance(value, dict):
        raise Unreadable(f"{_kind(value)} where an object belongs: {shown(text)}", "write a JSON object")
    return cast("dict[str, object]", value)


def parse_value(text: str) -> object:
    """Return the JSON value in a cell's text. Raises `Unreadable`."""
    return _parse(text.encode())


def text_of(line: bytes, column: str) -> str:
    """Return the text of the value of `column` as it stands in the line (which has been parsed before)."""
    return bytes(_RAW.decode(line)[column]).decode().strip()


def _parse(line: bytes, file_offset: int = 0) -> object:
    try:
        value: object = msgspec.json.decode(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _diagnosis(line, str(error), file_offset) from None
    if _may_repeat_keys(line, value):
        _refuse_repeated_keys(line)
    return value


def _may_repeat_keys(line: bytes, value: object) -> bool:
    """Whether a key could stand twice in one object.

    Every key is followed by `":` unless spaces stand between, so without such spaces the number of `":` is at least
    the number of keys written; where it equals the number of keys that were kept, none was lost.
    """
    return line.count(b'":') != _count_keys(value) or _SPACED_COLON.search(line) is not None


def _count_keys(value: object) -> int:
    total = 0
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            members = cast("dict[str, object]", item)
            total += len(members)
            pending.extend(members.values())
        elif isinstance(item, list):
            pending.extend(cast("list[object]", item))
    return total


def _refuse_repeated_keys(line: bytes) -> None:
    repeated: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            repeated.extend(name for name in set(names) if names.count(name) > 1)

    # Numbers are not needed here, and a conversion could fail.
    json.loads(line, object_pairs_hook=note, parse_int=str, parse_float=str)
    if repeated:
        raise Unreadable(f"the key {shown(min(repeated))} stands twice in one object", "keep one of them")


def _diagnosis(line: bytes, reason: str, file_offset: int) -> Unreadable:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return bad_byte(line, error.start, file_offset)
    try:
        value: object = json.loads(
            text, parse_constant=_Odd.constant, parse_int=_int_or_odd, parse_float=_float_or_odd
        )
    except json.JSONDecodeError as error:
        return _syntax(text, error)
    except RecursionError:
        return Unreadable("is nested too deeply", "flatten it")
    for path, found, fix in _odd_parts(value):
        return Unreadable(found, fix, path.removeprefix("."))
    return Unreadable(f"invalid JSON: {reason}", "write valid JSON")


def bad_byte(content: bytes, place: int, file_offset: int) -> Unreadable:
    """Return the problem of a byte that is not UTF-8 at `place` of `content`, which begins at `file_offset`."""
    found = f"byte 0x{content[place]:02X} at byte {file_offset + place} of the file is not UTF-8"
    fix = "save the file as UTF-8"
    if content[place] >= 0xA0 and content[place + 1 : place + 2] < b"\x80":
        fix += " (it looks like Latin-1: iconv -f LATIN1 -t UTF-8 OLD > NEW)"
    return Unreadable(found, fix)


class _Odd:
    """A number that JSON or its readers cannot hold, kept so that its place can be told."""

    def __init__(self, found: str, fix: str) -> None:
        self.found = found
        self.fix = fix

    @classmethod
    def constant(cls, name: str) -> _Odd:
        """Return what stands for NaN, Infinity or -Infinity."""
        return cls(f"{name}, which JSON does not know", "write null or a string")


def _int_or_odd(text: str) -> object:
    if len(text) <= _LONGEST_INT:
        return 0
    return _Odd(f"a number of {len(text.lstrip('-'))} digits", "write it as a string")


def _float_or_odd(text: str) -> object:
    if math.isfinite(float(text)):
        return 0.0
    return _Odd(f"the number {bounded(text)}, too large for a double", "write it as a string")


def _odd_parts(value: object, path: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(value, _Odd):
        yield path, value.found, value.fix
    elif isinstance(value, str):
        if _has_half_pair(value):
            yield (
                path,
                f"half of a surrogate pair (a cut emoji): {ascii(value)[:40]}",
                "write whole characters",
            )
    elif isinstance(value, dict):
        for key, part in cast("dict[str, object]", value).items():
            if _has_half_pair(key):
                yield path, f"half of a surrogate pair in the key {ascii(key)[:40]}", "write whole characters"
            yield from _odd_parts(part, f"{path}.{key}")
    elif isinstance(value, list):
        for place, part in enumerate(cast("list[object]", value)):
            yield from _odd_parts(part, f"{path}[{place}]")


def _has_half_pair(text: str) -> bool:
    return not text.isascii() and any(0xD800 <= ord(character) <= 0xDFFF for character in text)


def _syntax(text: str, error: json.JSONDecodeError) -> Unreadable:
    stripped = text.strip()
    found = f"invalid JSON at character {error.pos + 1}: {error.msg}"
    if stripped in {"{", "["}:
        return Unreadable(
            f"{found} (the line holds {stripped!r} only)", "write each object on one line (jq -c . OLD > NEW)"
        )
    if stripped.startswith(("{'", "[{'")) or (
        error.msg.startswith("Expecting property name") and "'" in text
    ):
        return Unreadable(found, "write JSON, not Python: double quotes, true, false, null (json.dumps)")
    if re.match(r",\s*[}\]]", text[max(0, text.rfind(",", 0, error.pos + 1)) :]):
        return Unreadable(found, "take away the comma before the closing bracket")
    if "\r" in stripped and error.msg == "Extra data":
        return Unreadable(found, "end lines with a newline, not with a carriage return alone")
    return Unreadable(found, "write one JSON object on the line")


def _fix_for(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "write one object a line, without the list around them (jq -c '.[]' OLD > NEW)"
    return 'write one object a line, such as {"user_prompt": "...", "ground_truth": "..."}'


def _kind(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, dict):
        return "an object"
    return "null" if value is None else "a number or a boolean"
