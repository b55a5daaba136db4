"""Rollouts written for osmosis-ai run unchanged under our `osmosis eval run`, in environments of their own."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from interop_workspace import Bench, eventually, finished, rows_of
from mini_proxy import free_port
from osmosis_runner.orphans import marked
from osmosis_runner.trajectory import validate_trajectory
from tool_provider import ToolProvider

pytestmark = pytest.mark.timeout(300)

AGENTS = ("openai-agents", "strands")


@pytest.mark.parametrize("rollout", ["plain", "lean", *AGENTS])
def test_every_kind_of_rollout_is_scored_and_counted_exactly(
    bench: Bench, provider: ToolProvider, rollout: str
) -> None:
    prompt = "TOOL {a} x 7" if rollout in AGENTS else "{a} x 7"
    rows = rows_of(*["ask"] * 8, prompt=prompt)
    done = bench.run(rollout, rows)
    assert done.code == 0, done.err
    assert (done.resource["succeeded"], done.resource["failed"]) == (8, 0)
    records = bench.last
    assert [records[row]["reward"] for row in range(8)] == [1.0] * 8
    assert len(provider.billed) == 8 * (2 if rollout in AGENTS else 1)
    assert sum(record["tokens"] for record in records.values()) == provider.tokens
    for place, row in enumerate(rows):
        assert records[place]["max_context_tokens"] == provider.largest(row["user_prompt"])
    for place in range(8):
        trajectory = bench.trajectory(place)
        assert validate_trajectory(trajectory, records[place]["rollout_id"]) == []
        assert trajectory["agent"]["name"] == "osmosis-rollout-sdk"
        assert trajectory["agent"]["model_name"] == "hosted_vllm/mock"
        assert trajectory["extra"]["osmosis"]["reward"] == 1.0
        steps = [step for step in trajectory["steps"] if step["source"] == "agent"]
        spent = [step["metrics"]["prompt_tokens"] + step["metrics"]["completion_tokens"] for step in steps]
        assert sum(spent) == records[place]["tokens"]


@pytest.mark.parametrize("rollout", AGENTS)
def test_agents_stream_call_their_tools_and_run_at_most_as_many_as_their_server_takes(
    bench: Bench, provider: ToolProvider, rollout: str
) -> None:
    done = bench.run(rollout, rows_of("ask", "ask", prompt="TOOL {a} x 7"), "--max-in-flight", "32")
    assert done.code == 0, done.err
    assert all(call.streamed for call in provider.billed)
    steps = bench.trajectory(0)["steps"]
    calling = next(step for step in steps if step.get("tool_calls"))
    assert calling["tool_calls"][0]["function_name"] == "product"
    assert calling["tool_calls"][0]["arguments"] == {"a": 2, "b": 7}
    assert calling["observation"]["results"][0]["content"] == "14"
    assert "up to 4 in flight" in bench.log


def test_every_way_to_end_has_its_place_in_the_records(bench: Bench, provider: ToolProvider) -> None:
    modes = [
        *("ask", "raise", ("grader_sleep", 30), "grader_raise", "no_reward", "remove", "nan"),
        *("nothing", "stream", "twice", "artifact", ("block", 1.5)),
    ]
    done = bench.run("plain", rows_of(*modes), "--max-in-flight", "12")
    assert done.code == 0, done.err
    named = dict(zip([mode if isinstance(mode, str) else mode[0] for mode in modes], range(99), strict=False))
    ends = {
        mode: (
            bench.last[place]["status"],
            bench.last[place].get("error_type"),
            bench.last[place].get("error_phase"),
        )
        for mode, place in named.items()
    }
    fine = ("success", None, None)
    assert ends == {
        "ask": fine,
        "raise": ("failed", "agent_error", "agent"),
        "grader_sleep": ("failed", "timeout", "grader"),
        "grader_raise": ("failed", "agent_error", "grader"),
        "no_reward": ("failed", "validation_error", "grader"),
        "remove": ("skipped", None, None),
        "nan": ("failed", "validation_error", "grader"),
        # A workflow that hands nothing over has its grader fail, without a sample to tell the phase by.
        "nothing": ("failed", "agent_error", ends["nothing"][2]),
        "stream": fine,
        "twice": fine,
        "artifact": fine,
        "block": fine,
    }
    said = {mode: bench.last[place].get("error_message") for mode, place in named.items()}
    assert said["raise"] == "the agent broke on purpose"
    assert said["grader_raise"] == "the grader broke on purpose"
    assert said["grader_sleep"] == "grader exceeded its 2.0s deadline"
    assert {row["error_message"] for row in done.resource["failed_rows"]} >= {said["raise"]}
    assert [row["row_index"] for row in done.resource["skipped_rows"]] == [named["remove"]]
    assert bench.last[named["twice"]]["calls"] == 2
    assert sum(record.get("tokens", 0) for record in bench.last.values()) == provider.tokens
    # What the agent said is kept although its grader failed.
    assert bench.trajectory(named["grader_raise"])["steps"][-1]["source"] == "agent"
    kept = bench.run_dir / "artifacts" / f"row_{named['artifact']}_run_0"
    assert [str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()] == ["deep/note.txt"]


def test_trouble_of_the_provider_is_told_from_trouble_of_the_agent(
    bench: Bench, provider: ToolProvider
) -> None:
    words = [
        "",
        "ERR:500",
        "ERR:429",
        "ERR:401",
        "ERR:400",
        "BADJSON",
        "CUT",
        "NOUSAGE",
        "FLAKY:k:1",
        "SLEEP:1",
    ]
    rows = [row | {"user_prompt": f"{word} 2 x 7", "ground_truth": "14"} for word, row in zip(
        words, rows_of(*[("retries", 1)] * len(words)), strict=True)]  # fmt: skip
    done = bench.run("plain", rows, "--max-in-flight", "4")
    assert done.code == 0, done.err
    ends = {word: bench.last[place] for place, word in enumerate(words)}
    fine = ("", "NOUSAGE", "FLAKY:k:1", "SLEEP:1")
    assert {word: ends[word]["status"] for word in fine} == dict.fromkeys(fine, "success")
    provider_errors = ("ERR:500", "ERR:429", "ERR:401", "BADJSON", "CUT")
    assert {ends[word]["error_type"] for word in provider_errors} == {"provider_error"}
    assert ends["ERR:400"]["error_type"] == "agent_error"
    assert "mock 400" in ends["ERR:400"]["error_message"]
    assert "tokens" not in ends["NOUSAGE"]
    assert ends["FLAKY:k:1"]["calls"] == 2


def test_a_line_of_a_megabyte_stalls_nothing(bench: Bench) -> None:
    done = bench.run("plain", rows_of("ask", ("noise", 1_000_000), "ask", ("noise", 1_000_000)))
    assert (done.code, done.resource["succeeded"]) == (0, 4), done.err
    assert "more bytes of this line" in bench.log


def test_what_rollouts_leave_behind_ends_with_the_run(bench: Bench) -> None:
    done = bench.run("plain", rows_of(("child", True), ("child", False)))
    assert (done.code, done.resource["succeeded"]) == (0, 2), done.err
    assert marked(bench.mark) == []


def test_a_row_that_ends_the_server_is_failed_and_the_others_go_on(
    bench: Bench, provider: ToolProvider
) -> None:
    done = bench.run("plain", rows_of("ask", "ask", "exit", "ask", "ask", "ask"), "--max-in-flight", "3")
    assert done.code == 0, done.err
    assert (done.resource["succeeded"], done.resource["failed"]) == (5, 1)
    assert bench.last[2]["error_type"] == "server_died"
    assert "exited with code 17" in bench.last[2]["error_message"]
    assert max(Counter(r["row_index"] for r in bench.records if r["status"] != "cancelled").values()) == 1
    # What attempts spent that died with the server is counted, too.
    assert done.resource["metrics"]["tokens_spent"] == provider.tokens


def test_no_key_of_the_provider_reaches_the_rollout(bench: Bench, provider: ToolProvider) -> None:
    done = bench.run("plain", rows_of("environ"))
    assert done.code == 0, done.err
    (line,) = [line for line in bench.log.splitlines() if "variables:" in line]
    assert "_OSMOSIS_ROLLOUT_PORT" in line
    assert "MOCK_KEY" not in line
    assert "OSMOSIS_BRIDGE_TOKEN" not in line
    assert provider.keys == {"Bearer sk-the-providers-own-key"}
    held = [path for path in bench.run_dir.rglob("*") if path.is_file()]
    assert [path for path in held if b"sk-the-providers-own-key" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_leaves_no_process_and_the_rest_pending(
    bench: Bench, provider: ToolProvider, number: signal.Signals, code: int
) -> None:
    rows = rows_of(*["ask"] * 4, *[("sleep", 60)] * 8)
    process = bench.ours("plain", rows, "--max-in-flight", "4")
    eventually(lambda: len(bench.records) == 4)
    process.send_signal(number)
    done = finished(process)
    assert done.code == code
    assert (done.resource["succeeded"], done.resource["pending"]) == (4, 8)
    assert marked(bench.mark) == []


def test_an_agent_that_will_not_be_cancelled_is_not_waited_for_after_a_second_signal(bench: Bench) -> None:
    process = bench.ours("plain", rows_of(("stubborn", 60)))
    eventually(lambda: "here to stay" in bench.log)
    process.send_signal(signal.SIGINT)
    eventually(lambda: "not now" in bench.log)
    process.send_signal(signal.SIGINT)
    done = finished(process, within_s=20)
    assert (done.code, done.resource["pending"]) == (130, 1)
    assert marked(bench.mark) == []


def test_a_killed_supervisor_loses_nothing_and_a_resume_runs_only_the_rest(
    bench: Bench, provider: ToolProvider
) -> None:
    rows = rows_of(*[("sleep", 0.2)] * 24)
    process = bench.ours("plain", rows, "--max-in-flight", "4")
    eventually(lambda: len(bench.records) >= 6)
    process.kill()
    process.communicate()
    kept = {record["row_index"]: record["rollout_id"] for record in bench.records}
    done = bench.run("plain", rows, "--max-in-flight", "4")
    assert (done.code, done.resource["succeeded"], done.resource["resumed"]) == (0, 24, len(kept)), done.err
    after = {row: record["rollout_id"] for row, record in bench.last.items()}
    assert after | kept == after
    assert Counter(record["row_index"] for record in bench.records) == Counter(range(24))
    assert marked(bench.mark) == []


def test_a_server_of_osmosis_ai_that_runs_already_is_used(
    bench: Bench, provider: ToolProvider, tmp_path: Path
) -> None:
    # The first run makes the environment; then somebody starts the server by hand.
    assert bench.run("lean", rows_of("ask")).code == 0
    folder = bench.workspace / "rollouts" / "lean"
    port = free_port()
    bench.output = tmp_path / "second"
    bench.output.mkdir()
    bench.environ |= {
        "_OSMOSIS_ROLLOUT_PORT": str(port),
        "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT": str(tmp_path / "t"),
    }
    server = bench.start([str(folder / ".venv" / "bin" / "python"), str(folder / "main.py")])
    try:
        done = bench.run("lean", rows_of("ask", "ask", "ask"), "--rollout-url", f"http://127.0.0.1:{port}")
        assert (done.code, done.resource["succeeded"]) == (0, 3), done.err
        assert server.poll() is None
        # It keeps its trajectories where it was told to; ours come from what it says.
        assert bench.trajectory(2)["steps"][-1]["message"] == "#### 28"
    finally:
        server.kill()
        server.communicate()
