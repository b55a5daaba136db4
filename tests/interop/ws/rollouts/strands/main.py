"""A rollout for osmosis-ai with Strands Agents: an agent with one tool, its messages as the sample."""

from __future__ import annotations

import os

import uvicorn
from osmosis_ai.rollout.agent_workflow import AgentWorkflow
from osmosis_ai.rollout.backend.local import LocalBackend
from osmosis_ai.rollout.context import AgentWorkflowContext, GraderContext
from osmosis_ai.rollout.grader import Grader
from osmosis_ai.rollout.integrations.agents.strands import OsmosisRolloutModel, OsmosisStrandsAgent
from osmosis_ai.rollout.server import create_rollout_server
from strands import tool


@tool
def product(a: int, b: int) -> int:
    """The product of two numbers."""
    return a * b


class Calculator(AgentWorkflow):
    async def run(self, ctx: AgentWorkflowContext) -> None:
        agent = OsmosisStrandsAgent(model=OsmosisRolloutModel(), tools=[product], callback_handler=None)
        await agent.invoke_async(ctx.prompt[-1]["content"])


class Checker(Grader):
    async def grade(self, ctx: GraderContext) -> None:
        ctx.set_reward(1.0 if f"#### {ctx.label}" in str(ctx.sample.messages[-1]) else 0.0)


if __name__ == "__main__":
    uvicorn.run(
        create_rollout_server(backend=LocalBackend(workflow=Calculator, grader=Checker)),
        host="127.0.0.1",
        port=int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000")),
    )
