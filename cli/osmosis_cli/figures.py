"""Numbers in words: shares, amounts, durations. Pure; the unknown is a dash, never a zero."""

from __future__ import annotations

UNKNOWN = "—"


def percent(share: float | None, digits: int = 1) -> str:
    """A share in 0..1 as a percentage."""
    return UNKNOWN if share is None else f"{share * 100:.{digits}f}%"


def amount(number: float | None) -> str:
    """A count with thousands separated."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def value(number: float | None) -> str:
    """A measured number, to four significant digits."""
    return UNKNOWN if number is None else f"{number:.4g}"


def duration(seconds: float | None) -> str:
    """Seconds as `0.8s`, `42s`, `3m 05s` or `2h 03m`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"


def money(usd: float | None) -> str:
    """US dollars, with more digits for less."""
    if usd is None:
        return UNKNOWN
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}"


def counted(number: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def cut(text: str, limit: int = 200) -> str:
    """`text` on one line, cut at `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
