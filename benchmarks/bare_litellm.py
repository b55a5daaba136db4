"""Calls through `litellm.acompletion` and nothing around it: what the native lane is compared with.

python -m benchmarks.bare_litellm UPSTREAM_URL BODY_FILE CONCURRENCY SECONDS    prints one JSON object
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import litellm

WARM_CALLS = 50


async def measure(url: str, body: dict[str, Any], concurrency: int, seconds: float) -> dict[str, float]:
    """As many calls as go through; CPU of this process a call, in ms."""
    failed = done = 0

    async def call() -> None:
        nonlocal failed, done
        try:
            await litellm.acompletion(**body, api_base=url, api_key="sk-unused", max_retries=0)
            done += 1
        except litellm.exceptions.APIError:
            failed += 1

    for _ in range(WARM_CALLS):
        await call()
    failed = done = 0
    began, spent = time.monotonic(), time.process_time()

    async def caller() -> None:
        while time.monotonic() < began + seconds:
            await call()

    await asyncio.gather(*(caller() for _ in range(concurrency)))
    wall, cpu = time.monotonic() - began, time.process_time() - spent
    return {
        "requests": done,
        "seconds": wall,
        "rate": done / wall,
        "cpu_ms": cpu * 1e3 / max(1, done),
        "broken": failed,
    }


def main(arguments: list[str]) -> None:
    """Read the body, measure, print."""
    url, body_file, concurrency, seconds = arguments
    body = json.loads(Path(body_file).read_bytes())
    print(json.dumps(asyncio.run(measure(url, body, int(concurrency), float(seconds)))))


if __name__ == "__main__":
    main(sys.argv[1:])
