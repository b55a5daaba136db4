"""The event of a stream that differs from an earlier one in nothing but the text it brings.

Most events of a stream are such: the same object again, with other words. What was decided of the first holds of the
next, since a JSON string cannot reach beyond its quotes; so the texts alone are exchanged. Pure.
"""

from __future__ import annotations

import re

# A JSON string from behind its first quote to before its last, with the escapes that need no further look.
_STRING = re.compile(rb'[^"\\\x00-\x1f]*+(?:\\["\\/bfnrt][^"\\\x00-\x1f]*+)*+')
_TEXT = re.compile(rb'"(?:content|reasoning_content|reasoning|text|obfuscation)": ?"')
_string = _STRING.match


class Repeated:
    """An event that others may repeat: what stands around its texts, as it came and as it goes out."""

    __slots__ = ("_fixed", "_fixed_out", "_head", "_tail")

    def __init__(self, fixed: list[bytes], fixed_out: list[bytes]) -> None:
        self._fixed = fixed
        self._fixed_out = fixed_out
        self._head = fixed[0]
        self._tail = fixed[-1]

    @classmethod
    def of(cls, came: bytes, goes: bytes) -> Repeated | None:
        """What can be told from one event in one line, and from what goes out of it; None where it has no such text.

        The caller vouches that nothing of the event depends on its texts.
        """
        if came.find(b"\n") != len(came) - 2 or not came.endswith(b"\n\n"):
            return None
        fixed: list[bytes] = []
        texts: list[bytes] = []
        place = 0
        for found in _TEXT.finditer(came):
            start = found.end()
            string = _string(came, start)
            if string is None or came[string.end() : string.end() + 1] != b'"':
                return None
            fixed.append(came[place:start])
            texts.append(string.group())
            place = string.end()
        fixed.append(came[place:])
        fixed_out = _around(texts, fixed, goes, len(goes) - len(came))
        return None if not texts or fixed_out is None else cls(fixed, fixed_out)

    def again(self, raw: bytes) -> bytes | None:
        """What goes out of an event that repeats this one, given all its bytes; None of one that does not."""
        if not (raw.startswith(self._head) and raw.endswith(self._tail)):
            return None
        fixed, out = self._fixed, self._fixed_out
        pieces = [out[0]]
        place = len(self._head)
        for index in range(1, len(fixed)):
            string = _string(raw, place)
            if string is None or not raw.startswith(fixed[index], string.end()):
                return None
            pieces += (string.group(), out[index])
            place = string.end() + len(fixed[index])
        return b"".join(pieces) if place == len(raw) else None


def _around(texts: list[bytes], fixed: list[bytes], goes: bytes, longer: int) -> list[bytes] | None:
    """What stands around the same texts in `goes`, which differs in one of its `fixed` parts by `longer` bytes."""
    found: list[bytes] = []
    place = 0
    for part, text in zip(fixed, [*texts, b""], strict=True):
        end = place + len(part)
        if goes[place:end] != part:
            end += longer
        found.append(goes[place:end])
        if not goes.startswith(text, end):
            return None
        place = end + len(text)
    return found if place == len(goes) else None
