"""What authors of rollouts write, checked by pyright in strict mode and never run: the public surface has types.

Each class is a use that must be accepted; each `pyright: ignore` is a mistake that must be caught, since an ignore with
nothing to ignore is an error here.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import assert_type

from openai import AsyncOpenAI

from osmosis_bridge.bearers import rollout_bearer
from osmosis_runner.rollout import (
    AgentWorkflow,
    AgentWorkflowOutput,
    Grader,
    GraderContext,
    Message,
    Sample,
    WorkflowContext,
    serve,
)


class WithClient(AgentWorkflow):
    async def run(self, ctx: WorkflowContext) -> list[Message]:
        assert_type(ctx.client, AsyncOpenAI)
        assert_type(ctx.prompt, list[Message])
        assert_type(ctx.artifacts_dir, Path)
        assert_type(ctx.rollout_id, str)
        return [*ctx.prompt, {"role": "assistant", "content": f"{ctx.base_url} {ctx.api_key}"}]


class WithOutput(AgentWorkflow):
    async def run(self, ctx: WorkflowContext) -> AgentWorkflowOutput:
        await asyncio.sleep(0)
        return AgentWorkflowOutput(messages=ctx.prompt, metrics={"turns": 2.0}, info={"tools": ["a"]})


class WithNothing(AgentWorkflow):
    async def run(self, ctx: WorkflowContext) -> None:
        ctx.messages.extend(ctx.prompt)


class ByMetadata(Grader):
    async def grade(self, ctx: GraderContext) -> None:
        assert_type(ctx.label, str | None)
        assert_type(ctx.sample, Sample)
        assert_type(ctx.reward, float | None)
        if ctx.metadata and ctx.metadata.get("skip"):
            ctx.sample.remove_sample = True
        ctx.set_reward(1.0 if ctx.sample.messages[-1]["content"] == ctx.label else 0)
        ctx.set_reward("1")  # pyright: ignore[reportArgumentType]


class Unfinished(AgentWorkflow):
    pass


def mistakes() -> None:
    Unfinished()  # pyright: ignore[reportAbstractUsage]
    serve(ByMetadata)  # pyright: ignore[reportArgumentType]
    rollout_bearer("token", 7)  # pyright: ignore[reportArgumentType]


def served() -> None:
    serve(WithClient, ByMetadata)
    serve(WithOutput, max_concurrent=8, grade_timed_out=True)
    serve(WithNothing)
    assert_type(rollout_bearer("token", "row_0_run_0"), str)
