"""The process in which a local model runs: `python -m osmosis_bridge.local_server`, started by `local_model.py`.

It reads one JSON line from its owner, serves the model on a free loopback port with llama.cpp's server, writes one JSON
line with the address, and ends when its owner does: the owner holds the other end of stdin, and its closing, however it
comes about, is the order to stop. Knows neither the bridge nor the network.

Replies repeat: the cache of prompts is off unless a call asks for it (`cache_prompt`), so that the same call gives the
same reply and the same usage the second time.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

from osmosis_bridge.owned_server import meet_owner

_HTTP_THREADS: Final = 128
"""Connections that are kept open each hold one; idle ones too, for five seconds."""
_ERRORS_ONLY: Final = 1
_HEALTH: Final = b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n"


def main() -> int:
    """Serve until stdin closes. The exit code is not 0 where the model did not start; the reason is on stderr."""
    answers, line = meet_owner()
    if not line:
        return 0
    try:
        server = start_server(json.loads(line))
    except RuntimeError:
        # llama.cpp has written the reason; a traceback would only hide it.
        return 1
    _wait_until_healthy(server.listening_address)
    answers.write(json.dumps({"url": server.listening_address}) + "\n")
    answers.flush()
    # Until the owner's going ends the process.
    threading.Event().wait()
    return 0


class LlamaServer(Protocol):
    """What we use of llama.cpp's server."""

    listening_address: str


def start_server(order: Mapping[str, Any]) -> LlamaServer:
    """llama.cpp's server for `{"model", "alias", "api_key", "slots", "context"}`; `context` is tokens a slot.

    Raises `RuntimeError` where the file is not a model.
    """
    xllamacpp = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = order["model"]
    params.model_alias = {order["alias"]}
    params.api_keys = [order["api_key"]]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = order["slots"]
    # Divided among the slots: each gets its share and no other's.
    params.n_ctx = order["slots"] * order["context"]
    params.kv_unified = False
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.n_threads_http = _HTTP_THREADS
    for share in (params.cpuparams, params.cpuparams_batch):
        share.n_threads = threads_for(usable_cpus())
        share.poll = 0
    params.warmup = False
    # Looking for the memory of a graphics card loads the model twice.
    params.fit_params = False
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = _ERRORS_ONLY
    return cast("LlamaServer", xllamacpp.Server(params))


def threads_for(cpus: int) -> int:
    """How many threads compute: half of the processors, at most four.

    They wait for each other in a busy loop. One too many, while the bridge, the runner or an agent uses a processor
    for a moment, and a reply takes ten times as long; a model this small gains little from more.
    """
    return max(1, min(4, cpus // 2))


def usable_cpus() -> int:
    """The processors this process may use: its affinity, within the quota of its container."""
    cpus = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(cpus, int(quota) // int(period)))
    except (OSError, ValueError):
        # No such file, or "max": no quota.
        return cpus


def _wait_until_healthy(url: str) -> None:
    address = urlsplit(url)
    while not _is_healthy(address.hostname or "", address.port or 80):
        time.sleep(0.01)


def _is_healthy(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(_HEALTH)
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
