"""`python -m osmosis_bridge.native`: started by `native_process.py`, which says over stdin what to serve.

It reads one JSON line (`model`, `api_base`, `api_key`, `bearer`), serves on a free loopback port, writes one JSON line
with the address, and ends when its owner does: the closing of stdin is the order to stop. Credentials of the provider
come with that line, or by the environment, for what LiteLLM looks up itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TextIO

import uvicorn
import uvloop

from osmosis_bridge.native.app import NativeApp
from osmosis_bridge.native.lane import Lane, Settings
from osmosis_bridge.owned_server import meet_owner
from osmosis_bridge.redact import Redactor

_SECRET_NAME: Final = re.compile(
    r"(?i)(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)"
)
_THREADS: Final = 32
"""LiteLLM prepares each call in a thread, which may wait for a disk or a token."""


def main() -> int:
    """Serve until stdin closes."""
    answers, line = meet_owner()
    if not line:
        return 0
    order: dict[str, Any] = json.loads(line)
    # A call that is cut short is no news here: the bridge says so to its client.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    uvloop.run(_serve(order, os.environ, answers))
    return 0


async def _serve(order: Mapping[str, Any], environ: Mapping[str, str], answers: TextIO) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "prepare"))
    redactor = Redactor(_secrets(order, environ))
    lane = Lane(Settings(order["model"], order.get("api_base"), order.get("api_key")), redactor)
    app = NativeApp(lane, order["bearer"], redactor)
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    lane.start()
    answers.write(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}) + "\n")
    answers.flush()
    config = uvicorn.Config(
        app, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False, server_header=False,
        proxy_headers=False, timeout_keep_alive=75, backlog=4096,
    )  # fmt: skip
    await uvicorn.Server(config).serve(sockets=[listener])


def _secrets(order: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    named = [value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= 8]
    return [secret for secret in (order.get("api_key"), order["bearer"], *named) if secret]


if __name__ == "__main__":
    sys.exit(main())
