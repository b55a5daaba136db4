"""Agent frameworks drive the bridge unchanged: each calls a tool and answers with its result, plain and streamed.

They are installed for these tests alone (`make frameworks`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bridge_process import BridgeProcess, bridge_process
from dialect_provider import ARGUMENTS, SIGNATURE, THOUGHT, TOTALS, DialectProvider
from framework_drivers import DRIVERS, MODEL, Place

# What frameworks warn of is theirs to mend.
pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


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
