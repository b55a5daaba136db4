from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from mock_provider import MockProvider
from osmosis_bridge.upstream import TransportError
from osmosis_bridge.upstream.http import HttpTransport
from osmosis_runner.child import Child, Nursery
from osmosis_runner.faults import SidecarError
from osmosis_runner.preflight import BODY
from osmosis_runner.sidecar import Sidecar, SidecarSpec
from runner_fakes import FakeChild, ScriptedTransport


def spec(tmp_path: Path, url: str, **changes: Any) -> SidecarSpec:
    fields: dict[str, Any] = {
        "model_path": "openai/mock",
        "ledger": tmp_path / "calls.jsonl",
        "ready_file": tmp_path / "ready.json",
        "environ": {**os.environ, "MY_KEY": "sk-0123456789"},
        "token": "run-bearer-0123",
        "api_base": url,
        "api_key_env": "MY_KEY",
    }
    return SidecarSpec(**{**fields, **changes})


def with_sidecar(given: SidecarSpec, check: Callable[[Sidecar], Awaitable[None]]) -> None:
    async def main() -> None:
        async with HttpTransport() as transport:
            sidecar = await Sidecar.start(given, transport, Nursery(), lambda lines: None)
            try:
                await check(sidecar)
            finally:
                await sidecar.stop()
        assert sidecar.child.returncode == 0

    asyncio.run(main())


def test_a_bridge_answers_counts_and_closes(tmp_path: Path) -> None:
    async def check(sidecar: Sidecar) -> None:
        assert sidecar.base_url("r1") == f"{sidecar.url}/v1/rollouts/r1"
        assert "run-bearer-0123" not in sidecar.bearer_of("r1")
        for _ in range(2):
            assert (await sidecar.complete("r1", BODY, 9)).status == 200
        totals = await sidecar.close("r1")
        assert (totals.calls, totals.tokens, totals.max_context_tokens) == (2, 26, 13)
        assert (await sidecar.complete("r1", BODY, 9)).status == 409
        assert (await sidecar.close("never-seen")).tokens is None

    with MockProvider() as provider:
        with_sidecar(spec(tmp_path, provider.url), check)
        assert provider.keys == {"sk-0123456789"}
    assert (tmp_path / "calls.jsonl").read_text().count("\n") >= 2


def test_a_bridge_that_cannot_start_says_why(tmp_path: Path) -> None:
    async def check(_sidecar: Sidecar) -> None: ...

    with pytest.raises(SidecarError, match="the bridge did not start: cannot open the ledger") as caught:
        with_sidecar(spec(tmp_path, "http://127.0.0.1:9/v1", ledger=tmp_path), check)
    assert "Traceback" not in caught.value.message


def closing(script: Any, *, dead: bool = False) -> None:
    async def main() -> None:
        child = FakeChild()
        if dead:
            child.exited.set()
        transport = ScriptedTransport([script])
        await Sidecar(cast("Child", child), "http://127.0.0.1:1", "t", transport).close("r1")

    asyncio.run(main())


@pytest.mark.parametrize("script", [(500, {}), (200, b"no json"), TransportError("cut", "gone")])
def test_a_bridge_that_does_not_close_a_rollout_has_failed(script: Any) -> None:
    with pytest.raises(SidecarError, match="the bridge failed"):
        closing(script)


def test_a_dead_bridge_is_described() -> None:
    with pytest.raises(SidecarError, match="exited with code 1"):
        closing(TransportError("connect", "refused"), dead=True)
