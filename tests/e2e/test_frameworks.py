"""Agent frameworks drive the bridge unchanged: each calls a tool and answers with its result, plain and streamed.

They are installed for these tests alone (`make frameworks`), so each is imported where it is used.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bridge_process import BridgeProcess, bridge_process
from dialect_provider import ARGUMENTS, SIGNATURE, THOUGHT, TOTALS, DialectProvider

# What frameworks warn of is theirs to mend.
pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]

MODEL = "model-of-my-choice"
ASKED = "7 + 8?"


@pytest.fixture(scope="module")
def serving() -> Iterator[DialectProvider]:
    with DialectProvider().serving() as provider:
        yield provider


@pytest.fixture
def provider(serving: DialectProvider) -> DialectProvider:
    serving.clear()
    return serving


@pytest.fixture(scope="module")
def bridge(serving: DialectProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeProcess]:
    with bridge_process(tmp_path_factory.mktemp("bridge"), serving.url) as running:
        yield running


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
EVERY = pytest.mark.parametrize("name", DRIVERS)
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
ROLLOUTS = iter(range(1, 10_000))


def place_of(bridge: BridgeProcess, rollout_id: str) -> Place:
    return Place(bridge.base_url(rollout_id), bridge.bearer(rollout_id))


@EVERY
@BOTH
def test_a_framework_calls_a_tool_and_answers_with_its_result(
    name: str, stream: bool, bridge: BridgeProcess, provider: DialectProvider
) -> None:
    dialect, drive = DRIVERS[name]
    rollout_id = f"f-{next(ROLLOUTS)}"
    assert drive(place_of(bridge, rollout_id), stream) == "the tool said 15"
    assert [asked.dialect for asked in provider.asked] == [dialect, dialect]
    assert [asked.tools for asked in provider.asked] == [["add"], ["add"]]
    assert provider.asked[1].results == ["15"]
    assert all(bool(asked.body.get("stream")) is (stream or "strands" in name) for asked in provider.asked)
    assert all(asked.body["model"] == "upstream-model" for asked in provider.asked)
    records = bridge.records(rollout_id)
    assert [(record["status"], record["dialect"], record["alias"]) for record in records] == [
        ("ok", dialect, MODEL)
    ] * 2
    assert [record["usage"]["total_tokens"] for record in records] == [TOTALS[dialect]] * 2
    assert not any("stripped" in record for record in records)


TROUBLES: list[tuple[str, bool, Any]] = [
    (name, stream, trouble)
    for name, (dialect, _) in DRIVERS.items()
    for stream, trouble in (
        (False, "overloaded"), (True, "overloaded"), (True, "told in the stream"), (True, "cut"), (True, "failed"),
    )
    if trouble != "failed" or dialect == "responses"
]  # fmt: skip


@pytest.mark.parametrize(("name", "stream", "trouble"), TROUBLES)
def test_a_framework_does_not_take_a_failure_for_an_answer(
    name: str, stream: bool, trouble: Any, bridge: BridgeProcess, provider: DialectProvider
) -> None:
    dialect, drive = DRIVERS[name]
    provider.trouble = trouble
    rollout_id = f"f-{next(ROLLOUTS)}"
    with pytest.raises(Exception):  # noqa: B017 - each has an error of its own
        drive(place_of(bridge, rollout_id), stream)
    records = bridge.records(rollout_id)
    status = "truncated" if trouble == "cut" else "upstream_error"
    assert {(record["status"], record["dialect"]) for record in records} == {(status, dialect)}


@BOTH
def test_a_signed_thought_goes_back_as_it_came(
    stream: bool, bridge: BridgeProcess, provider: DialectProvider
) -> None:
    provider.thinks = True
    for name in ("pydantic-ai anthropic", "langchain anthropic", "strands anthropic"):
        provider.asked.clear()
        DRIVERS[name][1](place_of(bridge, f"f-{next(ROLLOUTS)}"), stream)
        (block,) = [
            block
            for message in provider.asked[1].body["messages"]
            if message["role"] == "assistant"
            for block in message["content"]
            if block["type"] == "thinking"
        ]
        assert (block["thinking"], block["signature"]) == (THOUGHT, SIGNATURE)


@BOTH
def test_encrypted_reasoning_goes_back_as_it_came(
    stream: bool, bridge: BridgeProcess, provider: DialectProvider
) -> None:
    provider.thinks = True
    DRIVERS["openai-agents responses"][1](place_of(bridge, f"f-{next(ROLLOUTS)}"), stream)
    items = provider.asked[1].body["input"]
    (reasoning,) = [item for item in items if item.get("type") == "reasoning"]
    assert reasoning["encrypted_content"] == SIGNATURE
    (call,) = [item for item in items if item.get("type") == "function_call"]
    assert json.loads(call["arguments"]) == ARGUMENTS
