"""Text that fits the stream it is for: wrapped between words, and spelled with characters its encoding has.

Pure: it knows neither streams nor rich.
"""

from __future__ import annotations

import textwrap

NARROWEST = 20
"""Columns below which wrapping does more harm than good."""

PLAIN_SIGNS = {"·": "-", "→": "->", "⚠": "!", "—": "-", "…": "...", "✓": "*"}
"""What stands for our own signs where an encoding lacks them."""


def spelled(text: str, encoding: str | None) -> str:
    """`text` as `encoding` can write it: our own signs by their plain ones, other characters as escapes."""
    known = encoding or "utf-8"
    try:
        text.encode(known)
    except UnicodeEncodeError:
        told = "".join(_sign(character, known) for character in text)
        return told.encode(known, "backslashreplace").decode(known)
    return text


def wrapped(text: str, width: int | None, indent: str = "  ") -> list[str]:
    """The lines of `text`, which is one line, at most `width` columns each; the first keeps its own indent.

    Breaks between words only: what is longer than a line, such as a path, stays whole, so that it can be copied.
    """
    if width is None or width < NARROWEST or len(text) <= width:
        return [text]
    wrapper = textwrap.TextWrapper(
        width=width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
    return wrapper.wrap(text) or [text]


def _sign(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return PLAIN_SIGNS.get(character, character)
    return character
