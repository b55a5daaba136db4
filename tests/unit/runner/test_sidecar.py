from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import psutil
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


def faked(child: FakeChild, transport: ScriptedTransport) -> Sidecar:
    given = spec(Path("/x"), "http://127.0.0.1:9/v1")
    return Sidecar(cast("Child", child), "http://127.0.0.1:1", given, transport)


def closing(script: Any, *, dead: bool = False) -> None:
    async def main() -> None:
        child = FakeChild()
        if dead:
            child.exited.set()
        transport = ScriptedTransport([script])
        sidecar = faked(child, transport)
        await sidecar.close("r1")

    asyncio.run(main())


@pytest.mark.parametrize("script", [(500, {}), (200, b"no json"), TransportError("cut", "gone")])
def test_a_bridge_that_does_not_close_a_rollout_has_failed(script: Any) -> None:
    with pytest.raises(SidecarError, match="the bridge failed"):
        closing(script)


def test_a_dead_bridge_is_described() -> None:
    with pytest.raises(SidecarError, match="exited with code 1"):
        closing(TransportError("connect", "refused"), dead=True)


def test_a_ledger_that_cannot_be_written_is_named_with_the_reason() -> None:
    message = "the ledger '/x/calls.jsonl' cannot be written: No space left on device; make room on its disk"
    error = {"error": {"message": message, "code": "ledger_unavailable"}}
    with pytest.raises(SidecarError, match=rf"^{message}; .* safe"):
        closing((503, error))


def test_what_an_open_rollout_said_is_heard_once_and_forgotten_when_it_is_closed(tmp_path: Path) -> None:
    async def check(sidecar: Sidecar) -> None:
        await sidecar.complete("r1", BODY, 9)
        spoken = await sidecar.spoken("r1")
        assert spoken is not None
        said = [message["content"] for message in json.loads(bytes(spoken.messages))]
        assert (said, spoken.complete) == (["hi", "ok"], True)
        await sidecar.close("r1")
        spoken = await sidecar.spoken("r1")
        assert spoken is not None
        assert bytes(spoken.messages) == b"[]"

    with MockProvider() as provider:
        with_sidecar(spec(tmp_path, provider.url), check)


def test_a_bridge_that_tells_nothing_is_no_fault() -> None:
    async def main() -> None:
        transport = ScriptedTransport([(404, {}), (200, b"no json"), TransportError("cut", "gone")])
        sidecar = faked(FakeChild(), transport)
        assert [await sidecar.spoken("r1") for _ in range(3)] == [None] * 3

    asyncio.run(main())


def test_clients_may_send_a_call_again_unless_the_run_says_no(tmp_path: Path) -> None:
    async def check(sidecar: Sidecar) -> None:
        body = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "ERR:429"}]})
        headers.append((await sidecar.complete("r1", body, 9)).header(b"x-should-retry"))

    headers: list[str | None] = []
    with MockProvider() as provider:
        for retries in (True, False):
            (tmp_path / "ready.json").unlink(missing_ok=True)
            with_sidecar(spec(tmp_path, provider.url, client_retries=retries), check)
    assert headers == [None, "false"]


def test_a_dead_bridge_is_replaced_by_one_that_goes_on_with_its_ledger(tmp_path: Path) -> None:
    async def check(sidecar: Sidecar) -> None:
        await sidecar.complete("r1", BODY, 9)
        first, sidecar.ledger = sidecar.child, tmp_path / "moved.jsonl"
        (tmp_path / "calls.jsonl").rename(sidecar.ledger)
        os.kill(first.pid, signal.SIGKILL)
        await first.exited.wait()
        await sidecar.restart()
        assert sidecar.child is not first
        assert (await sidecar.complete("r2", BODY, 9)).status == 200
        assert (await sidecar.close("r1")).calls == 0
        assert sidecar.ledger.read_text().count("\n") == 2

    with MockProvider() as provider:
        with_sidecar(spec(tmp_path, provider.url), check)


def test_a_bridge_that_nobody_can_start_again_has_failed() -> None:
    with pytest.raises(SidecarError, match="exited with code 1"):
        asyncio.run(faked(FakeChild(), ScriptedTransport([])).restart())


def test_a_bridge_is_told_how_many_calls_it_lets_through_at_a_time(tmp_path: Path) -> None:
    with MockProvider() as provider:

        async def check(sidecar: Sidecar) -> None:
            said = " ".join(psutil.Process(sidecar.child.pid).cmdline())
            assert "--max-upstream-connections 4000" in said

        with_sidecar(spec(tmp_path, provider.url, calls=4000), check)
