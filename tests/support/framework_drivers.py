"""Agent frameworks, each as a function that asks it one question with one tool, plain or streamed.

Each is imported when it is driven, since none is installed but for the tests that are about them (`make frameworks`).
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MODEL = "model-of-my-choice"
ASKED = "7 + 8?"
Drive = Callable[["Place", bool], str]


@dataclass(frozen=True)
class Place:
    """Where a rollout's calls go, and its bearer."""

    base_url: str
    api_key: str


def module(name: str) -> Any:
    return importlib.import_module(name)


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


# --- OpenAI Agents SDK


def openai_agents(responses: bool) -> Callable[[Place, bool], str]:
    def drive(place: Place, stream: bool) -> str:
        agents = module("agents")
        client = module("openai").AsyncOpenAI(base_url=place.base_url, api_key=place.api_key, max_retries=0)
        kind = agents.OpenAIResponsesModel if responses else agents.OpenAIChatCompletionsModel
        agent = agents.Agent(
            name="adder",
            instructions="be brief",
            model=kind(model=MODEL, openai_client=client),
            tools=[agents.function_tool(add)],
        )
        config = agents.RunConfig(tracing_disabled=True)

        async def run() -> str:
            if not stream:
                return (await agents.Runner.run(agent, ASKED, run_config=config)).final_output
            streamed = agents.Runner.run_streamed(agent, ASKED, run_config=config)
            async for _ in streamed.stream_events():
                pass
            return streamed.final_output

        return asyncio.run(run())

    return drive


# --- Strands: always streams


def strands(kind: str) -> Callable[[Place, bool], str]:
    def drive(place: Place, stream: bool) -> str:
        agents = module("strands")
        options = {"base_url": place.base_url, "api_key": place.api_key, "max_retries": 0}
        if kind == "anthropic":
            made = module("strands.models.anthropic").AnthropicModel(
                client_args=options, model_id=MODEL, max_tokens=99
            )
        elif kind == "responses":
            made = module("strands.models.openai_responses").OpenAIResponsesModel(
                client_args=options, model_id=MODEL
            )
        else:
            made = module("strands.models.openai").OpenAIModel(client_args=options, model_id=MODEL)
        agent = agents.Agent(
            model=made, tools=[agents.tool(add)], system_prompt="be brief", callback_handler=None
        )
        return str(agent(ASKED)).strip()

    return drive


# --- pydantic-ai


def pydantic_ai(kind: str) -> Callable[[Place, bool], str]:
    def drive(place: Place, stream: bool) -> str:
        ai = module("pydantic_ai")
        options = {"base_url": place.base_url, "api_key": place.api_key}
        if kind == "anthropic":
            provider = module("pydantic_ai.providers.anthropic").AnthropicProvider(**options)
            made = module("pydantic_ai.models.anthropic").AnthropicModel(MODEL, provider=provider)
        else:
            provider = module("pydantic_ai.providers.openai").OpenAIProvider(**options)
            models = module("pydantic_ai.models.openai")
            kinds = {"chat": models.OpenAIChatModel, "responses": models.OpenAIResponsesModel}
            made = kinds[kind](MODEL, provider=provider)
        agent = ai.Agent(made, instructions="be brief", tools=[add])

        async def run() -> str:
            if not stream:
                return (await agent.run(ASKED)).output
            async with agent.run_stream(ASKED) as streamed:
                return await streamed.get_output()

        return asyncio.run(run())

    return drive


# --- LangChain


def langchain(kind: str) -> Callable[[Place, bool], str]:
    def drive(place: Place, stream: bool) -> str:
        options = {"model": MODEL, "base_url": place.base_url, "api_key": place.api_key, "max_retries": 0}
        if kind == "anthropic":
            chat = module("langchain_anthropic").ChatAnthropic(max_tokens=99, **options)
        else:
            chat = module("langchain_openai").ChatOpenAI(use_responses_api=kind == "responses", **options)
        tool = module("langchain_core.tools").tool(add)
        asker = chat.bind_tools([tool])
        messages: list[Any] = [("system", "be brief"), ("human", ASKED)]

        def ask() -> Any:
            if not stream:
                return asker.invoke(messages)
            first, *rest = list(asker.stream(messages))
            for part in rest:
                first += part
            return first

        call = ask()
        messages += [call, *(tool.invoke(each) for each in call.tool_calls)]
        return ask().text

    return drive


DRIVERS: dict[str, tuple[str, Callable[[Place, bool], str]]] = {
    "openai-agents chat": ("chat", openai_agents(responses=False)),
    "openai-agents responses": ("responses", openai_agents(responses=True)),
    "strands chat": ("chat", strands("chat")),
    "strands responses": ("responses", strands("responses")),
    "strands anthropic": ("messages", strands("anthropic")),
    "pydantic-ai chat": ("chat", pydantic_ai("chat")),
    "pydantic-ai responses": ("responses", pydantic_ai("responses")),
    "pydantic-ai anthropic": ("messages", pydantic_ai("anthropic")),
    "langchain chat": ("chat", langchain("chat")),
    "langchain responses": ("responses", langchain("responses")),
    "langchain anthropic": ("messages", langchain("anthropic")),
}
