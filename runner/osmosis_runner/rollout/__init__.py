"""Everything a rollout is written with: `from osmosis_runner.rollout import AgentWorkflow, Grader, serve`."""

from __future__ import annotations

from osmosis_runner.rollout.agent import (
    AgentWorkflow,
    AgentWorkflowOutput,
    Grader,
    GraderContext,
    Message,
    Sample,
    WorkflowContext,
)
from osmosis_runner.rollout.host import serve

__all__ = [
    "AgentWorkflow",
    "AgentWorkflowOutput",
    "Grader",
    "GraderContext",
    "Message",
    "Sample",
    "WorkflowContext",
    "serve",
]
