from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from osmosis_bridge.upstream import Transport
from osmosis_runner import keeper as keeper_module
from osmosis_runner.child import Nursery
from osmosis_runner.keeper import ServerKeeper
from osmosis_runner.launch import LaunchSpec, RolloutServer
from osmosis_runner.protocol import Health, ServerLost
from runner_fakes import FakeChild


class FakeClient:
    def __init__(self, *, healthy: bool) -> None:
        self.healthy = healthy

    async def health(self) -> Health:
        if not self.healthy:
            raise ServerLost("no answer")
        return Health()


def keep(
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[ServerKeeper, Any], Awaitable[None]],
    *,
    healthy: bool = True,
) -> None:
    monkeypatch.setattr(keeper_module, "EXIT_LAG_S", 0.02)
    server = cast(
        "Any", RolloutServer(cast("Any", None), cast("Any", FakeClient(healthy=healthy)), Health(), 81)
    )

    async def start(*_: object) -> RolloutServer:
        return server

    monkeypatch.setattr(keeper_module, "start_server", start)

    async def main() -> None:
        server.child = FakeChild()
        spec = LaunchSpec(Path("/r"), "m.py", Path("/t"), {}, {})
        keeper = ServerKeeper(spec, cast("Transport", None), cast("Nursery", None), lambda lines: None)
        await check(keeper, server)

    asyncio.run(main())


def test_there_is_no_server_before_one_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(keeper: ServerKeeper, server: Any) -> None:
        with pytest.raises(RuntimeError, match="no server"):
            _ = keeper.server
        await keeper.stop()
        assert await keeper.start() is keeper.server is server

    keep(monkeypatch, check)


def test_a_server_that_died_a_moment_after_its_connection_broke_is_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check(keeper: ServerKeeper, server: Any) -> None:
        asyncio.get_running_loop().call_later(0.005, server.child.exited.set)
        assert await keeper.is_dead(server)

    keep(monkeypatch, check)


def test_a_server_that_lives_and_answers_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(keeper: ServerKeeper, server: Any) -> None:
        assert not await keeper.is_dead(server)
        assert not server.child.exited.is_set()

    keep(monkeypatch, check)


def test_a_server_that_lives_and_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(keeper: ServerKeeper, server: Any) -> None:
        assert await keeper.is_dead(server)
        assert server.child.exited.is_set()

    keep(monkeypatch, check, healthy=False)


def test_stopping_gives_the_server_its_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(keeper: ServerKeeper, server: Any) -> None:
        await keeper.start()
        await keeper.stop(2.5)
        assert server.child.stopped == [2.5]

    keep(monkeypatch, check)
