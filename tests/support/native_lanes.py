"""Several native lanes in one process, so that LiteLLM is loaded once for all that a test module asks.

Run as a program it is that process: its first argument says which lanes, each is served under `/NAME`. For tests only;
what a bridge starts is one lane a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from osmosis_bridge.native_process import child_environ

KEY = "native-test-key-1"
_ENVIRON = {
    "AWS_ACCESS_KEY_ID": "AKIA" + "0" * 16,
    "AWS_SECRET_ACCESS_KEY": "native-test-secret-1",
    "AWS_REGION_NAME": "us-east-1",
    "AZURE_API_VERSION": "2024-10-21",
}


@contextlib.contextmanager
def native_lanes(lanes: dict[str, tuple[str, str]]) -> Iterator[httpx.Client]:
    """A client of lanes, `{name: (model path, base URL)}`, each under `/NAME/v1`, all of them loaded."""
    process = subprocess.Popen(
        [sys.executable, __file__, json.dumps(lanes)],
        stdout=subprocess.PIPE,
        env=child_environ({**os.environ, **_ENVIRON}),
        cwd=Path(__file__).parent,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        assert url, "the lanes did not start"
        headers = {"authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            yield client
    finally:
        process.kill()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


async def _serve(lanes: dict[str, tuple[str, str]]) -> None:
    import uvicorn

    from osmosis_bridge.native.app import NativeApp
    from osmosis_bridge.native.lane import Lane, Settings
    from osmosis_bridge.redact import Redactor

    apps: dict[str, Any] = {}
    for name, (model, base) in lanes.items():
        lane = Lane(Settings(model, base, None if model.startswith("bedrock/") else KEY), Redactor([KEY]))
        lane.start()
        await lane.loaded()
        apps[name] = NativeApp(lane, KEY, Redactor([KEY]))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        _, name, rest = scope["path"].split("/", 2)
        await apps[name]({**scope, "path": f"/{rest}"}, receive, send)

    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    sockets = [config.bind_socket()]
    print(f"http://127.0.0.1:{sockets[0].getsockname()[1]}", flush=True)
    await server.serve(sockets=sockets)


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.argv[1])))
