"""Workspaces with one rollout whose rows say how it behaves, and runs of them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from osmosis_runner.dispatch import Patience
from osmosis_runner.events import FinishedItem, LogLine, Progress, Warned
from osmosis_runner.run import RunOptions, RunOutcome, run_evaluation

MAIN = '''
import asyncio, json, os, subprocess, sys, time
from urllib.parse import urlsplit
from osmosis_runner.rollout import AgentWorkflow, AgentWorkflowOutput, Grader, serve


async def ask(ctx, text):
    """The answer to one question."""
    return await converse(ctx, [{"role": "user", "content": text}])


async def converse(ctx, messages):
    """One completion with nothing but the standard library, which starts at once."""
    url = urlsplit(ctx.base_url)
    body = json.dumps({"model": "m", "messages": messages}).encode()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST {url.path}/chat/completions HTTP/1.1\\r\\nhost: {url.netloc}\\r\\nconnection: close\\r\\n"
    head += f"authorization: Bearer {ctx.api_key}\\r\\ncontent-type: application/json\\r\\n"
    head += f"content-length: {len(body)}\\r\\n\\r\\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    head, _, content = answer.partition(b"\\r\\n\\r\\n")
    status = int(head.split()[1])
    if status != 200:
        raise RuntimeError(f"status {status}: {content[:200]!r}")
    return json.loads(content)["choices"][0]["message"]["content"]


def spin():
    while True:
        pass


class Workflow(AgentWorkflow):
    async def run(self, ctx):
        meta = ctx.metadata or {}
        mode, arg = meta.get("mode", "ok"), meta.get("arg")
        text = ctx.prompt[-1]["content"] if ctx.prompt else ""
        if mode == "turns": return await self.take_turns(ctx, arg)
        if mode == "patient": return await self.ask_again_and_again(ctx, text)
        ctx.messages = list(ctx.prompt)
        if mode == "exit": os._exit(17)
        if mode == "sleep": await asyncio.sleep(arg)
        if mode == "block": time.sleep(arg)
        if mode == "spin": spin()
        if mode == "wait": subprocess.run(["sleep", "60"])
        if mode == "stubborn": await self.sleep_on(arg)
        if mode == "print": print(arg, flush=True)
        if mode == "longline": print("y" * arg, flush=True)
        if mode == "binary": os.write(1, bytes(range(256)) * 100 + b"\\n")
        if mode == "child": subprocess.Popen(["sleep", "300"], start_new_session=bool(arg))
        if mode == "environ": print(json.dumps(dict(os.environ)), flush=True)
        if mode == "artifact":
            (ctx.artifacts_dir / "deep").mkdir()
            (ctx.artifacts_dir / "deep" / "out.txt").write_text("kept")
            (ctx.artifacts_dir / "manifest.json").write_text("reserved")
            os.symlink("/etc/passwd", ctx.artifacts_dir / "link")
        answer = await ask(ctx, text)
        ctx.messages.append({"role": "assistant", "content": answer})
        if mode == "raise": raise RuntimeError("blew up on purpose\\nsecond line")
        return AgentWorkflowOutput(messages=ctx.messages, metrics={"turns": 1}, info={"mode": mode})


    async def sleep_on(self, seconds):
        """Sleep, and go on sleeping when told to stop."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                await asyncio.sleep(until - time.monotonic())
            except asyncio.CancelledError:
                print("not now", flush=True)

    async def take_turns(self, ctx, texts):
        """One call a text; nobody is told what was said until it is over, and the last one is never reached."""
        messages = list(ctx.prompt)
        for text in texts:
            messages.append({"role": "user", "content": text})
            messages.append({"role": "assistant", "content": await converse(ctx, messages)})
        raise RuntimeError("gave up after its turns")

    async def ask_again_and_again(self, ctx, text):
        while True:
            try:
                answer = await ask(ctx, text)
            except RuntimeError:
                await asyncio.sleep(0.3)
            else:
                return [*ctx.prompt, {"role": "assistant", "content": answer}]


class Scorer(Grader):
    async def grade(self, ctx):
        mode = (ctx.metadata or {}).get("mode")
        if mode == "grader_raise": raise ValueError("bad grade")
        if mode == "grader_sleep": await asyncio.sleep(30)
        if mode == "remove": ctx.sample.remove_sample = True
        if mode != "no_reward": ctx.set_reward(1.0 if ctx.label == ctx.sample.messages[-1]["content"] else 0.0)


if __name__ == "__main__":
    serve(Workflow, Scorer)
'''


@dataclass
class Watcher:
    """An observer that keeps what it is told."""

    stages: list[str] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    items: list[FinishedItem] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    waits: list[tuple[int, int]] = field(default_factory=list)
    """(retries, waiting) as they changed."""
    most_in_flight: int = 0
    first: Progress | None = None

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def warned(self, warning: Warned) -> None:
        self.warnings.append(warning)

    def started(self, progress: Progress) -> None:
        self.first = progress

    def item_finished(self, item: FinishedItem, progress: Progress) -> None:
        self.items.append(item)

    def moved(self, progress: Progress) -> None:
        self.most_in_flight = max(self.most_in_flight, progress.in_flight)
        waits = (progress.retries, progress.waiting)
        if any(waits) and waits not in self.waits[-1:]:
            self.waits.append(waits)

    def logged(self, line: LogLine) -> None:
        self.lines.append(line)


@dataclass
class Workspace:
    """A workspace on disk whose model is the provider at `url`."""

    root: Path
    url: str
    patience: Patience = field(
        default_factory=lambda: Patience(
            provider_delays=(0.1, 0.2), disk_delays=(0.1, 0.2, 0.4, 0.8), cancel_grace=3.0
        )
    )
    home: Path | None = None
    """What rollouts see as HOME."""

    @property
    def config(self) -> Path:
        return self.root / "configs" / "eval" / "t.toml"

    def run_dir(self, name: str = "r") -> Path:
        return self.root / ".osmosis" / "evals" / name

    def options(self, **changes: Any) -> RunOptions:
        environ = {**os.environ, "OPENAI_API_KEY": "sk-provider-key-0123456789"}
        if self.home is not None:
            environ["HOME"] = str(self.home)
        fields = {
            "config_path": self.config,
            "workspace": self.root,
            "environ": environ,
            "name": "r",
            "api_base": self.url,
            "api_key_env": "OPENAI_API_KEY",
        }
        return RunOptions(**{**fields, **changes})

    def run(self, watcher: Watcher | None = None, **changes: Any) -> RunOutcome:
        watching = run_evaluation(self.options(**changes), watcher or Watcher(), self.patience)
        return asyncio.run(watching)

    def start(self, within: Sequence[str] = (), **changes: Any) -> subprocess.Popen[str]:
        """The same in a process of its own, behind the command `within`; it prints the outcome as JSON."""
        given = {"root": str(self.root), "url": self.url, "changes": changes}
        return subprocess.Popen(
            [*within, sys.executable, str(Path(__file__).with_name("run_driver.py")), json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def records(self, name: str = "r") -> list[dict[str, Any]]:
        return json_lines(self.run_dir(name) / "events.jsonl")

    def index(self, name: str = "r") -> list[dict[str, Any]]:
        return json_lines(self.run_dir(name) / "index.jsonl")

    def metrics(self, name: str = "r") -> dict[str, Any]:
        return json.loads((self.run_dir(name) / "metrics.json").read_text())


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_workspace(root: Path, url: str, rows: list[dict[str, Any]], **evaluation: Any) -> Workspace:
    """A workspace with these rows; keywords are lines of `[evaluation]`."""
    for folder in ("configs/eval", "configs/training", "rollouts/t", "data"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in evaluation.items()]
    (root / "configs/eval/t.toml").write_text(
        '[experiment]\nrollout = "t"\nentrypoint = "main.py"\nmodel_path = "openai/mock"\ndataset = "t"\n'
        "[evaluation]\n" + "\n".join(lines) + "\n[secrets]\nrequired = []\n"
    )
    (root / "rollouts/t/main.py").write_text(MAIN)
    (root / "data/t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Workspace(root, url)


def row(answer: str = "ok", prompt: str = "", mode: str | None = None, arg: object = None) -> dict[str, Any]:
    """One row whose right answer is `answer`."""
    made: dict[str, Any] = {"user_prompt": f"SAY:{answer} {prompt}", "ground_truth": answer}
    made["metadata"] = {"mode": mode or "ok", "arg": arg}
    return made
