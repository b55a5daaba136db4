"""The rollout whose rows are counted: one call a row, and a reward for any answer. For our runner."""

from __future__ import annotations

from one_call import Caller

from osmosis_runner.rollout import (
    AgentWorkflow,
    AgentWorkflowOutput,
    Grader,
    GraderContext,
    WorkflowContext,
    serve,
)

caller = Caller()


class OneCall(AgentWorkflow):
    """Asks once."""

    async def run(self, ctx: WorkflowContext) -> AgentWorkflowOutput:
        """Send the prompt as it is."""
        answer = await caller.ask(ctx.base_url, ctx.api_key, [*ctx.prompt])
        return AgentWorkflowOutput(messages=[*ctx.prompt, {"role": "assistant", "content": answer}])


class AnyAnswer(Grader):
    """Content with any answer."""

    async def grade(self, ctx: GraderContext) -> None:
        """1 when something was said."""
        ctx.set_reward(1.0 if ctx.sample.messages[-1]["content"] else 0.0)


if __name__ == "__main__":
    serve(OneCall, AnyAnswer)
