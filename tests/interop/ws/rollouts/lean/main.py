"""A rollout for osmosis-ai that sends its one request itself, over connections that all rollouts share."""

from __future__ import annotations

import os

import httpx
import uvicorn
from osmosis_ai.rollout.agent_workflow import AgentWorkflow
from osmosis_ai.rollout.backend.local import LocalBackend
from osmosis_ai.rollout.context import AgentWorkflowContext, GraderContext, get_rollout_context
from osmosis_ai.rollout.grader import Grader
from osmosis_ai.rollout.server import create_rollout_server
from osmosis_ai.rollout.types import AgentWorkflowOutput

connections = httpx.AsyncClient(timeout=60)


class Poster(AgentWorkflow):
    async def run(self, ctx: AgentWorkflowContext) -> AgentWorkflowOutput:
        rollout = get_rollout_context()
        reply = await connections.post(
            f"{rollout.chat_completions_url}/chat/completions",
            json={"model": "policy", "messages": ctx.prompt},
            headers={"authorization": f"Bearer {rollout.api_key}"},
        )
        return AgentWorkflowOutput(messages=[*ctx.prompt, reply.json()["choices"][0]["message"]])


class Checker(Grader):
    async def grade(self, ctx: GraderContext) -> None:
        ctx.set_reward(1.0 if ctx.label in ctx.sample.messages[-1]["content"] else 0.0)


if __name__ == "__main__":
    uvicorn.run(
        create_rollout_server(backend=LocalBackend(workflow=Poster, grader=Checker)),
        host="127.0.0.1",
        port=int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000")),
        log_level="warning",
    )
