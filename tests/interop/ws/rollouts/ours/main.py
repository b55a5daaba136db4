"""A rollout written with this project, for osmosis-ai's supervisor to drive."""

from __future__ import annotations

import asyncio

from osmosis_runner.rollout import (
    AgentWorkflow,
    AgentWorkflowOutput,
    Grader,
    GraderContext,
    WorkflowContext,
    serve,
)


class Asker(AgentWorkflow):
    async def run(self, ctx: WorkflowContext) -> AgentWorkflowOutput:
        metadata = ctx.metadata or {}
        if metadata.get("mode") == "raise":
            raise RuntimeError("the agent broke on purpose")
        if metadata.get("mode") == "sleep":
            await asyncio.sleep(metadata["arg"])
        (ctx.artifacts_dir / "note.txt").write_text("kept")
        reply = await ctx.client.chat.completions.create(model="policy", messages=ctx.prompt)
        return AgentWorkflowOutput(messages=[*ctx.prompt, reply.choices[0].message.model_dump()])


class Checker(Grader):
    async def grade(self, ctx: GraderContext) -> None:
        ctx.sample.remove_sample = (ctx.metadata or {}).get("mode") == "remove"
        ctx.set_reward(1.0 if ctx.sample.messages[-1]["content"] == f"#### {ctx.label}" else 0.0)


if __name__ == "__main__":
    serve(Asker, Checker)
