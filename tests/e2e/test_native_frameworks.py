"""Agent frameworks drive the native lane unchanged: tools and streams, at providers that speak their own dialects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from bridge_process import TOKEN, BridgeProcess, bridge_process
from framework_drivers import DRIVERS, MODEL, Place
from native_providers import Answer, Asked, NativeProviders, native_providers, uses_the_tool

# What frameworks warn of is theirs to mend.
pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(180)]

LANES = {
    "claude": ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY", 23),
    "gemini": ("gemini/gemini-2.5-flash", "GEMINI_API_KEY", 18),
}
"""Model path, the key's variable, and the tokens that the provider counts for a call."""
WAYS = [(name, lane) for name in DRIVERS for lane in LANES]
EVERY = pytest.mark.parametrize(("name", "lane"), WAYS)
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
ROLLOUTS = iter(range(1, 10_000))


@pytest.fixture(scope="module")
def providers() -> Iterator[NativeProviders]:
    with native_providers() as server:
        yield server


@pytest.fixture
def provider(providers: NativeProviders) -> NativeProviders:
    providers.decide = uses_the_tool
    providers.asked.clear()
    return providers


@pytest.fixture(scope="module")
def bridges(
    providers: NativeProviders, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, BridgeProcess]]:
    with contextlib.ExitStack() as stack:
        yield {
            lane: stack.enter_context(
                bridge_process(
                    tmp_path_factory.mktemp(lane),
                    providers.url,
                    model=model,
                    environ={"OSMOSIS_BRIDGE_TOKEN": TOKEN, variable: "native-test-key-1"},
                )
            )
            for lane, (model, variable, _) in LANES.items()
        }


def place_of(bridge: BridgeProcess, rollout_id: str) -> Place:
    return Place(bridge.base_url(rollout_id), bridge.bearer(rollout_id))


@EVERY
@BOTH
def test_a_framework_calls_a_tool_and_answers_with_its_result(
    name: str, lane: str, stream: bool, bridges: dict[str, BridgeProcess], provider: NativeProviders
) -> None:
    dialect, drive = DRIVERS[name]
    rollout_id = f"n-{next(ROLLOUTS)}"
    assert drive(place_of(bridges[lane], rollout_id), stream) == "the tool said 15"
    assert len(provider.calls) == 2
    streamed = stream or "strands" in name
    assert all(
        ("stream" in asked.path or bool(asked.body.get("stream"))) is streamed for asked in provider.calls
    )
    records = bridges[lane].records(rollout_id)
    assert [(record["status"], record["dialect"], record["alias"]) for record in records] == [
        ("ok", dialect, MODEL)
    ] * 2
    assert [record["usage"]["total_tokens"] for record in records] == [LANES[lane][2]] * 2
    assert not any("stripped" in record for record in records)


@pytest.mark.parametrize("name", ["openai-agents chat", "openai-agents responses"])
def test_strict_tools_of_openai_s_agents_are_held_to_their_schemas_by_gemini(
    name: str, bridges: dict[str, BridgeProcess], provider: NativeProviders
) -> None:
    DRIVERS[name][1](place_of(bridges["gemini"], f"n-{next(ROLLOUTS)}"), False)
    modes = [asked.body["toolConfig"]["functionCallingConfig"]["mode"] for asked in provider.calls]
    assert modes == ["VALIDATED", "VALIDATED"]


@EVERY
@pytest.mark.parametrize(("stream", "trouble"), [(False, "busy"), (True, "busy"), (True, "cut")])
def test_a_framework_does_not_take_a_failure_for_an_answer(
    name: str,
    lane: str,
    stream: bool,
    trouble: str,
    bridges: dict[str, BridgeProcess],
    provider: NativeProviders,
) -> None:
    busy = Answer(status=529, body={"error": {"message": "come back later"}})
    cut = Answer(text=("the", "tool", "said", "15"), cut_after=6 if lane == "claude" else 2)
    dialect, drive = DRIVERS[name]

    def decide(asked: Asked) -> Answer:
        return busy if trouble == "busy" else cut

    provider.decide = decide
    rollout_id = f"n-{next(ROLLOUTS)}"
    with pytest.raises(Exception):  # noqa: B017 - each has an error of its own
        drive(place_of(bridges[lane], rollout_id), stream)
    status = "truncated" if trouble == "cut" else "upstream_error"
    records: Any = bridges[lane].records(rollout_id)
    assert {(record["status"], record["dialect"]) for record in records} == {(status, dialect)}
