# pyright: basic, reportMissingImports=false
"""The same rows for verifiers: a taskset that reads them, and a harness that calls in-process.

A plugin of that package, found by its name; runs in that package's own environment.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path

import httpx
import verifiers.v1 as vf

__all__ = ["BenchHarness", "BenchTaskset"]


class BenchTask(vf.Task[vf.TaskData, vf.State]):
    @vf.reward
    async def any_answer(self, trace: vf.Trace) -> float:
        return 1.0 if trace.last_reply else 0.0


class BenchTaskset(vf.Taskset[BenchTask, vf.TasksetConfig]):
    def load(self) -> Iterable[BenchTask]:
        for line in Path(os.environ["BENCH_ROWS"]).read_text().splitlines():
            yield BenchTask(vf.TaskData(prompt=json.loads(line)["user_prompt"]), self.config.task)


class BenchHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    _client: httpx.AsyncClient | None = None

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=120)
        messages = [{"role": "user", "content": data.prompt}]
        reply = await self._client.post(
            f"{endpoint.rstrip('/')}/chat/completions",
            json={"model": ctx.model, "messages": messages},
            headers={"authorization": f"Bearer {secret}"},
        )
        reply.raise_for_status()
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
