# pyright: basic, reportMissingImports=false
"""The rollout whose rows are counted, for osmosis-ai's runner: the same one call, and a reward for any answer."""

import os

import uvicorn
from one_call import Caller
from osmosis_ai.rollout.agent_workflow import AgentWorkflow
from osmosis_ai.rollout.backend.local import LocalBackend
from osmosis_ai.rollout.context import AgentWorkflowContext, GraderContext, get_rollout_context
from osmosis_ai.rollout.grader import Grader
from osmosis_ai.rollout.server import create_rollout_server
from osmosis_ai.rollout.types import AgentWorkflowConfig, AgentWorkflowOutput, ConcurrencyConfig

caller = Caller()


class OneCall(AgentWorkflow):
    async def run(self, ctx: AgentWorkflowContext) -> AgentWorkflowOutput:
        rollout = get_rollout_context()
        answer = await caller.ask(rollout.chat_completions_url, rollout.api_key, ctx.prompt)
        return AgentWorkflowOutput(messages=[*ctx.prompt, {"role": "assistant", "content": answer}])


class AnyAnswer(Grader):
    async def grade(self, ctx: GraderContext) -> None:
        ctx.set_reward(1.0 if ctx.sample.messages[-1]["content"] else 0.0)


if __name__ == "__main__":
    config = AgentWorkflowConfig(name="bench", concurrency=ConcurrencyConfig(max_concurrent=64))
    backend = LocalBackend(workflow=OneCall, workflow_config=config, grader=AnyAnswer)
    port = int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000"))
    uvicorn.run(create_rollout_server(backend=backend), host="127.0.0.1", port=port, log_level="warning")
