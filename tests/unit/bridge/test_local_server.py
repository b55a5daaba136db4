"""The process of a local model: what it asks of llama.cpp, and when it calls itself ready."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from osmosis_bridge import local_server

ORDER = {"model": "/m.gguf", "alias": "tiny", "api_key": "k", "slots": 4, "context": 2048}


def test_the_server_is_asked_for_a_private_and_repeatable_service(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("xllamacpp")
    module.CommonParams = lambda: SimpleNamespace(
        model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
    )
    module.Server = lambda params: SimpleNamespace(listening_address="http://127.0.0.1:1", params=params)
    monkeypatch.setitem(sys.modules, "xllamacpp", module)
    server: Any = local_server.start_server(ORDER)
    params = server.params
    assert (params.model.path, params.model_alias, params.api_keys) == ("/m.gguf", {"tiny"}, ["k"])
    assert (params.hostnames, params.port) == (["127.0.0.1"], 0)
    assert (params.n_parallel, params.n_ctx, params.kv_unified) == (4, 8192, False)
    assert (params.cache_prompt, params.cache_ram_mib) == (False, 0)
    assert params.cpuparams.n_threads == params.cpuparams_batch.n_threads >= 1


@pytest.mark.parametrize(("cpus", "threads"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 4), (64, 4)])
def test_half_of_the_processors_compute_and_never_more_than_four(cpus: int, threads: int) -> None:
    assert local_server.threads_for(cpus) == threads


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("100000 100000", 1),
        ("50000 100000", 1),
        ("250000 100000", 2),
        ("max 100000", 8),
        ("rubbish", 8),
        (None, 8),
    ],
)
def test_the_quota_of_a_container_counts(
    quota: str | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpu.max"
    if quota is not None:
        file.write_text(quota)
    monkeypatch.setattr(local_server, "Path", lambda _: file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert local_server.usable_cpus() == expected


def answering(*replies: bytes) -> int:
    """The port of a server that gives these replies, one a connection, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            for reply in replies:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1000)
                    connection.sendall(reply)

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def test_it_is_ready_when_health_says_so() -> None:
    busy, fine = b"HTTP/1.1 503 Loading\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"
    port = answering(busy, b"", fine)
    asked = [local_server._is_healthy("127.0.0.1", port) for _ in range(3)]
    assert asked == [False, False, True]


def test_nobody_listening_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert not local_server._is_healthy("127.0.0.1", port)


def test_without_an_order_it_ends_in_silence() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "osmosis_bridge.local_server"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert (ended.stdout, ended.stderr) == (b"", b"")
