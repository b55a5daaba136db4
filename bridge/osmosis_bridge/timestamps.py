"""Points in time as text. Does not know what time it is."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC with milliseconds, for example `2026-01-31T12:00:00.250Z`."""
    return _thousandth(int(seconds * 1000))


@lru_cache(maxsize=64)
def _thousandth(thousandths: int) -> str:
    return f"{_whole_second(thousandths // 1000)}.{thousandths % 1000:03d}Z"


@lru_cache(maxsize=4)
def _whole_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
