"""The native lane's process as the bridge starts it; what runs is a stand-in, so LiteLLM is never loaded."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from osmosis_bridge import native_process
from osmosis_bridge.native_process import NativeLaneError, NativeWorker, child_environ, start_native
from osmosis_bridge.owned_process import OwnedProcess, start_owned

KEY = "sk-canary-161803398874"
BEARER = "run-bearer-canary-1414"
URL = "http://127.0.0.1:5"
SERVES = f"""
import json, os, sys
order = json.loads(sys.stdin.readline())
with open(os.environ["SEEN"], "w") as file:
    json.dump({{"order": order, "argv": sys.orig_argv, "env": dict(os.environ)}}, file)
print(json.dumps({{"url": "{URL}"}}), flush=True)
sys.stdin.read()
"""


class StandIn:
    """What is started in the native lane's place, and what it saw."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.modules: list[str] = []
        self.program(SERVES)

    def program(self, source: str) -> None:
        (self._folder / "stand_in_lane.py").write_text(source)

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(self._folder),
            "SEEN": str(self._folder / "seen"),
            "OSMOSIS_BRIDGE_TOKEN": BEARER,
            "AWS_REGION_NAME": "eu-central-1",
        }

    @property
    def seen(self) -> dict[str, Any]:
        return json.loads((self._folder / "seen").read_text())

    async def start(
        self,
        process: OwnedProcess,
        module: str,
        order: Mapping[str, object],
        environ: Mapping[str, str],
        start_s: float,
    ) -> str:
        self.modules.append(module)
        assert start_s == 60
        return await start_owned(process, "stand_in_lane", order, environ, start_s)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    found = StandIn(tmp_path)
    monkeypatch.setattr(native_process, "start_owned", found.start)
    return found


def started(stand_in: StandIn, api_base: str | None = None, api_key: str | None = KEY) -> NativeWorker:
    """A worker that was started, looked at and stopped."""

    async def life() -> NativeWorker:
        worker = await start_native(
            "anthropic/claude-x", api_base=api_base, api_key=api_key, environ=stand_in.environ
        )
        try:
            assert psutil.pid_exists(worker.pid)
            assert worker.end_reason() is None
        finally:
            await worker.stop()
        assert worker.end_reason() == "exit code 0: it ended without a word (exit code 0)"
        return worker

    return asyncio.run(life())


def test_it_is_one_more_endpoint_on_loopback_with_a_key_of_its_own(stand_in: StandIn) -> None:
    one, other = started(stand_in), started(stand_in)
    assert stand_in.modules == ["osmosis_bridge.native"] * 2
    assert one.base_url == f"{URL}/v1"
    assert one.api_key != other.api_key
    assert len(one.api_key) >= 32
    assert KEY not in one.api_key
    assert not psutil.pid_exists(one.pid)
    assert one.api_key not in repr(one)


def test_it_is_told_its_model_endpoint_and_keys_over_stdin(stand_in: StandIn) -> None:
    worker = started(stand_in, "https://claude.internal/v1")
    assert stand_in.seen["order"] == {
        "model": "anthropic/claude-x",
        "api_base": "https://claude.internal/v1",
        "api_key": KEY,
        "bearer": worker.api_key,
    }


def test_where_the_operator_gave_nothing_the_provider_s_usual_is_meant(stand_in: StandIn) -> None:
    started(stand_in, api_key=None)
    assert stand_in.seen["order"]["api_base"] is None
    assert stand_in.seen["order"]["api_key"] is None


def test_no_key_is_in_its_command_line_and_the_run_s_bearer_not_in_its_environment(
    stand_in: StandIn,
) -> None:
    worker = started(stand_in)
    seen = stand_in.seen
    assert not any(secret in " ".join(seen["argv"]) for secret in (KEY, BEARER, worker.api_key))
    assert BEARER not in json.dumps(seen["env"])
    assert KEY not in json.dumps(seen["env"])
    assert seen["env"]["AWS_REGION_NAME"] == "eu-central-1"


@pytest.mark.parametrize(
    "name",
    [
        "OSMOSIS_BRIDGE_TOKEN",
        "OSMOSIS_ANYTHING",
        "LITELLM_LOG_FILE",
        "LITELLM_API_BASE",
        "LANGFUSE_SECRET_KEY",
        "LANGSMITH_TRACING",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "DD_API_KEY",
    ],
)
def test_what_would_steer_litellm_or_have_it_report_elsewhere_stays_outside(name: str) -> None:
    assert name not in child_environ({name: "x"})


@pytest.mark.parametrize(
    "name",
    ["ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "HTTPS_PROXY", "ADD_X"],
)
def test_what_a_provider_needs_goes_in(name: str) -> None:
    assert child_environ({name: "x"})[name] == "x"


def test_litellm_downloads_nothing_and_sends_where_requests_are_checked() -> None:
    environ = child_environ({"LITELLM_LOCAL_MODEL_COST_MAP": "False", "DISABLE_AIOHTTP_TRANSPORT": "False"})
    assert environ["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
    assert environ["LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS"] == "True"
    assert environ["DISABLE_AIOHTTP_TRANSPORT"] == "True"


def test_without_litellm_the_extra_is_named(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NativeLaneError) as caught:
        started(stand_in)
    assert "pip install 'osmosis-bridge[native]'" in str(caught.value)
    assert "anthropic/claude-x" in str(caught.value)
    assert stand_in.modules == []


def test_a_start_that_fails_says_why_in_a_line(stand_in: StandIn) -> None:
    stand_in.program("import sys\nprint('a\\nno such thing', file=sys.stderr)\nsys.exit(1)\n")
    with pytest.raises(NativeLaneError, match=r"^the native lane did not start: no such thing$"):
        started(stand_in)
