"""A rollout for osmosis-ai that speaks to its model with the openai package; each row says how it behaves.

Metadata: `{"mode": MODE, "arg": VALUE}`; without it one call, graded by the product in the answer.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from typing import Any

import uvicorn
from openai import AsyncOpenAI
from osmosis_ai.rollout.agent_workflow import AgentWorkflow
from osmosis_ai.rollout.backend.local import LocalBackend
from osmosis_ai.rollout.context import AgentWorkflowContext, GraderContext, get_rollout_context
from osmosis_ai.rollout.grader import Grader
from osmosis_ai.rollout.server import create_rollout_server
from osmosis_ai.rollout.types import AgentWorkflowConfig, AgentWorkflowOutput, ConcurrencyConfig

MANY = AgentWorkflowConfig(name="plain", concurrency=ConcurrencyConfig(max_concurrent=32))


def behaviour(metadata: dict[str, Any] | None) -> tuple[str, Any]:
    metadata = metadata or {}
    return metadata.get("mode", "ask"), metadata.get("arg")


async def misbehave(mode: str, arg: Any) -> None:
    """What some agents do before they ask anything."""
    if mode == "raise":
        raise RuntimeError("the agent broke on purpose")
    if mode == "exit":
        os._exit(17)
    if mode == "noise":
        print("y" * arg, flush=True)
    if mode == "environ":
        print("variables:", *sorted(os.environ), flush=True)
    if mode == "child":
        subprocess.Popen(["sleep", "300"], start_new_session=bool(arg))
    if mode == "block":
        time.sleep(arg)
    if mode == "sleep":
        await asyncio.sleep(arg)
    if mode == "stubborn":
        print("here to stay", flush=True)
        for _ in range(arg):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                print("not now", flush=True)


class Asker(AgentWorkflow):
    async def run(self, ctx: AgentWorkflowContext) -> AgentWorkflowOutput | None:
        mode, arg = behaviour(ctx.metadata)
        await misbehave(mode, arg)
        if mode == "artifact":
            (ctx.artifacts_dir / "deep").mkdir()
            (ctx.artifacts_dir / "deep" / "note.txt").write_text("kept")
            (ctx.artifacts_dir / "link").symlink_to("/etc/hostname")
        rollout = get_rollout_context()
        retries = arg if mode == "retries" else 2
        async with AsyncOpenAI(
            base_url=rollout.chat_completions_url, api_key=rollout.api_key, max_retries=retries
        ) as client:
            messages = list(ctx.prompt)
            for _ in range(2 if mode == "twice" else 1):
                messages.append(await (streamed if mode == "stream" else asked)(client, messages))
        if mode == "nothing":
            return None
        return AgentWorkflowOutput(messages=messages, metrics={"messages": len(messages)})


async def asked(client: AsyncOpenAI, messages: list[Any]) -> dict[str, Any]:
    reply = await client.chat.completions.create(model="policy", messages=messages, temperature=0.5)
    return {"role": "assistant", "content": reply.choices[0].message.content}


async def streamed(client: AsyncOpenAI, messages: list[Any]) -> dict[str, Any]:
    text = ""
    async for chunk in await client.chat.completions.create(model="policy", messages=messages, stream=True):
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    return {"role": "assistant", "content": text}


class Checker(Grader):
    async def grade(self, ctx: GraderContext) -> None:
        mode, arg = behaviour(ctx.metadata)
        if mode == "grader_sleep":
            await asyncio.sleep(arg)
        if mode == "grader_raise":
            raise RuntimeError("the grader broke on purpose")
        if mode == "remove":
            ctx.sample.remove_sample = True
        if mode == "nan":
            ctx.set_reward(float("nan"))
        if mode != "no_reward":
            ctx.set_reward(1.0 if ctx.sample.messages[-1]["content"] == f"#### {ctx.label}" else 0.0)


if __name__ == "__main__":
    uvicorn.run(
        create_rollout_server(backend=LocalBackend(workflow=Asker, workflow_config=MANY, grader=Checker)),
        host="127.0.0.1",
        port=int(os.environ.get("_OSMOSIS_ROLLOUT_PORT", "8000")),
    )
