#!/usr/bin/env python3
"""Holds the bridge and its peers to the conformance suite, one after another, and publishes the table.

    python scripts/conformance_peers.py [PEER ...] [--python PATH] [--no-publish]

Each peer is installed with uv from the package index into an environment of its own under `.cache/peers`, once, and
started as its documents say, with retries and cool-downs off, so that it is held to what it does with one call. The
interpreter for them (3.12 or 3.13) is found on the machine, never downloaded; a peer that cannot be installed or
started is left out with a note. Verdicts of peers that are not named are kept from the last run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

import conformance_page
from osmosis_bridge.conformance import (
    CaseResult,
    Knobs,
    LedgerView,
    Report,
    Target,
    Unreachable,
    run_suite,
    select,
)

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "peers"
BEARER = "sk-conformance-bearer-1"
KEY = "sk-conformance-provider-1"
MODEL = "upstream-model"
READY_S = 180.0
SMALL = Knobs(idle_timeout=1.5, heartbeat=0.3, max_body=1 << 20, slots=10)
SMALL_FLAGS = (
    *("--idle-timeout-s", "1.5", "--keepalive-s", "0.3", "--max-body-mb", "1"),
    *("--max-upstream-connections", "10", "--slot-timeout-s", "0.4"),
)

LITELLM_CONFIG = """\
model_list:
  - model_name: {model}
    litellm_params:
      model: openai/{model}
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: {key}
      max_retries: 0
litellm_settings:
  telemetry: false
  num_retries: 0
router_settings:
  num_retries: 0
  disable_cooldowns: true
general_settings:
  master_key: {bearer}
"""

OSMOSIS_START = """\
import asyncio, sys
from osmosis_ai.eval.local.listener import LlmBridgeListener
from osmosis_ai.eval.local.llm_bridge import LiteLLMBridge
upstream, port, model, key, bearer = sys.argv[1:]
async def main():
    bridge = LiteLLMBridge(model=f"openai/{model}", api_key=key, api_base=f"http://127.0.0.1:{upstream}/v1")
    await LlmBridgeListener(bridge, auth_token=bearer, port=int(port)).start()
    await asyncio.Event().wait()
asyncio.run(main())
"""


class Unusable(Exception):
    """A peer that cannot be installed or started here; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer is to listen, where its upstream will, and the folder it may write in."""

    upstream: int
    port: int
    folder: Path
    python: Path

    def beside(self, program: str) -> str:
        """A program that was installed with the peer."""
        return str(self.python.parent / program)


@dataclass(frozen=True, slots=True)
class Peer:
    """A proxy that is held to the suite; `requirement` empty for the bridge of this checkout."""

    title: str
    requirement: str
    package: str
    start: Callable[[Place], list[str]]
    path: str = "/v1/chat/completions"
    model: str = MODEL


def start_litellm(place: Place) -> list[str]:
    """LiteLLM's proxy with one model and a master key."""
    config = place.folder / "litellm.yaml"
    text = LITELLM_CONFIG.format(model=MODEL, upstream=place.upstream, key=KEY, bearer=BEARER)
    config.write_text(text, encoding="utf-8")
    return [
        place.beside("litellm"),
        *("--config", str(config), "--host", "127.0.0.1", "--port", str(place.port)),
    ]


def start_osmosis_ai(place: Place) -> list[str]:
    """The bridge that osmosis-ai starts for its evaluations, by itself."""
    return [
        *(str(place.python), "-c", OSMOSIS_START),
        *(str(place.upstream), str(place.port), MODEL, KEY, BEARER),
    ]


def start_ours(place: Place, *flags: str) -> list[str]:
    """The bridge of this checkout."""
    return [
        *(sys.executable, "-m", "osmosis_bridge", "serve", "--model", f"openai/{MODEL}"),
        *("--api-base", f"http://127.0.0.1:{place.upstream}/v1", "--port", str(place.port)),
        *("--ledger", str(place.folder / "calls.jsonl"), *flags),
    ]


OURS = Peer("osmosis bridge", "", "osmosis-bridge", start_ours, model="osmosis-rollout")
PEERS: Mapping[str, Peer] = {
    "ours": OURS,
    "litellm": Peer("LiteLLM proxy", "litellm[proxy]==1.108.7", "litellm", start_litellm),
    "osmosis-ai": Peer(
        "osmosis-ai bridge",
        "osmosis-ai[eval,rubric]==0.3.8",
        "osmosis-ai",
        start_osmosis_ai,
        path="/v1/rollouts/{rollout}/chat/completions",
    ),
}


def environment(peer: Peer, python: str | None) -> Path:
    """The interpreter of the peer's own environment, installed if it is not there yet. Raises `Unusable`."""
    if not peer.requirement:
        return Path(sys.executable)
    folder = CACHE / peer.requirement.replace("[", "-").replace("]", "").replace(",", "-")
    interpreter, stamp = folder / "bin" / "python", folder / ".ready"
    if stamp.exists():
        return interpreter
    uv = shutil.which("uv")
    if uv is None:
        raise Unusable("uv is not on PATH; `make conformance-peers` puts it there")
    print(f"installing {peer.requirement} into {folder.relative_to(ROOT)}")
    steps = (
        [uv, "venv", "--quiet", "--clear", "--python", python or newest_python(uv), str(folder)],
        [uv, "pip", "install", "--quiet", "--python", str(interpreter), peer.requirement],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unusable(f"{' '.join(step[1:3])} failed: {done.stderr.strip()[-300:]}")
    stamp.touch()
    return interpreter


def newest_python(uv: str) -> str:
    """An interpreter of 3.12 or newer that is on this machine. Raises `Unusable`."""
    found = subprocess.run(
        [uv, "python", "find", "--no-python-downloads", ">=3.12,<3.14"],
        capture_output=True,
        text=True,
        check=False,
    )
    candidates = [found.stdout.strip(), "python3.12", "python3.13", *_kept_by_pyenv()]
    for candidate in candidates:
        if candidate and _is_new_enough(candidate):
            return candidate
    raise Unusable("no Python 3.12 or 3.13 was found; name one with --python PATH")


def _kept_by_pyenv() -> list[str]:
    if shutil.which("pyenv") is None:
        return []
    listed = subprocess.run(["pyenv", "prefix", "3.12"], capture_output=True, text=True, check=False)
    prefix = listed.stdout.strip()
    return [str(Path(prefix) / "bin" / "python")] if prefix else []


def _is_new_enough(python: str) -> bool:
    check = "import sys; sys.exit(not (3, 12) <= sys.version_info[:2] <= (3, 13))"
    with contextlib.suppress(OSError):
        return subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0
    return False


def version_of(peer: Peer, python: Path) -> str:
    """The version that is installed, `?` where it cannot be told."""
    code = f"import importlib.metadata as m; print(m.version({peer.package!r}))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "?"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], place: Place) -> Generator[None]:
    """The peer as a process of its own, from listening to its end. Raises `Unusable`."""
    environ = {
        **os.environ,
        "OPENAI_API_KEY": KEY,
        "OSMOSIS_BRIDGE_TOKEN": BEARER,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    environ.pop("DATABASE_URL", None)
    log = place.folder / "log.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environ, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _wait_until_listening(process, place.port, log)
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        if process.poll() is not None:
            raise Unusable(f"it ended with {process.returncode}: {log.read_text('utf-8', 'replace')[-400:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise Unusable(f"it did not listen within {READY_S:.0f} s")


def judge(peer: Peer, python: Path, folder: Path) -> Report:
    """The suite's verdict on one peer; ours is also run once with small limits."""
    if peer is not OURS:
        place = Place(free_port(), free_port(), folder, python)
        return _suite(peer, place, peer.start(place), Knobs(), [case.id for case in select()])
    limits = [case.id for case in select() if case.needs]
    rest = [case.id for case in select() if not case.needs]
    wide = Place(free_port(), free_port(), folder / "wide", python)
    narrow = Place(free_port(), free_port(), folder / "narrow", python)
    main = _suite(peer, wide, start_ours(wide), Knobs(), rest)
    small = _suite(peer, narrow, start_ours(narrow, *SMALL_FLAGS), SMALL, limits)
    return replace(main, results=(*main.results, *small.results), seconds=main.seconds + small.seconds)


def _suite(peer: Peer, place: Place, command: list[str], knobs: Knobs, ids: list[str]) -> Report:
    target = Target(
        f"http://127.0.0.1:{place.port}",
        bearer=BEARER,
        path=peer.path,
        model=peer.model,
        ours=peer is OURS,
        ledger=LedgerView(place.folder / "calls.jsonl") if peer is OURS else None,
        secrets=(KEY, BEARER),
        knobs=knobs,
    )
    with running(command, place):
        work = run_suite(
            target, upstream_port=place.upstream, cases=select(ids), parallel=4, on_result=_progress
        )
        return asyncio.run(work)


def _progress(result: CaseResult) -> None:
    if result.result == "failed":
        print(f"  failed {result.id}: {result.expected} | {result.seen[:100]}")


def _leave(number: int, frame: FrameType | None) -> None:
    """Leave by an exception, so that the peer is stopped on the way out."""
    del frame
    sys.exit(128 + number)


def main(arguments: list[str]) -> int:
    """Run; 1 when our own bridge fails a case."""
    parser = argparse.ArgumentParser(description="Hold the bridge and its peers to the conformance suite.")
    parser.add_argument("peers", nargs="*", choices=[*PEERS, []], help="which ones; all where none is named")
    parser.add_argument(
        "--python", help="interpreter for the peers' environments, 3.12 or 3.13", metavar="PATH"
    )
    parser.add_argument("--no-publish", action="store_true", help="leave the page as it is")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _leave)
    reports: dict[str, Report] = {}
    notes: list[str] = []
    for name in options.peers or PEERS:
        peer = PEERS[name]
        folder = CACHE / "runs" / name
        for part in (folder, folder / "wide", folder / "narrow"):
            part.mkdir(parents=True, exist_ok=True)
        try:
            python = environment(peer, options.python)
            label = f"{peer.title} {version_of(peer, python)}"
            print(label)
            reports[label] = judge(peer, python, folder)
        except (Unusable, Unreachable) as error:
            notes.append(f"{peer.title}: {error}")
            print(f"  not tried: {error}")
    if reports and not options.no_publish:
        conformance_page.publish(reports, [peer.title for peer in PEERS.values()], notes)
    print(conformance_page.results_text(reports, notes))
    ours = [report for label, report in reports.items() if label.startswith(OURS.title)]
    return 1 if any(not report.ok for report in ours) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
