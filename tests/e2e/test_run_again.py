"""Runs that go on: extended, retried, resumed after trouble; and what is left of a rollout that never told a word."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mock_provider import MockProvider
from osmosis_runner.atif import shape_problems
from osmosis_runner.dispatch import Patience
from osmosis_runner.errors import ResumeMismatch
from osmosis_runner.faults import LaunchError
from osmosis_runner.orphans import marked
from rollouts_under_test import Watcher, Workspace, json_lines, make_workspace, row


@pytest.fixture
def provider() -> Iterator[MockProvider]:
    with MockProvider() as running:
        yield running


def eventually(holds: Callable[[], Any], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)


def asks_for(workspace: Workspace, **evaluation: Any) -> None:
    """Change what the run file asks for."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in evaluation.items()]
    before, _, _ = workspace.config.read_text().partition("[evaluation]")
    workspace.config.write_text(before + "[evaluation]\n" + "\n".join(lines) + "\n[secrets]\nrequired = []\n")


def items(workspace: Workspace) -> Counter[tuple[int, int]]:
    return Counter((record["row_index"], record["run_index"]) for record in workspace.records())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_extended_run_runs_only_what_was_added(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row()] * 8, n=2, limit=3)
    workspace.run()
    before = workspace.records()
    asks_for(workspace, n=4, limit=5)
    outcome = workspace.run(extend=True)
    assert (outcome.ended, outcome.dispatched, outcome.resumed) == ("complete", 20 - 6, 6)
    assert workspace.records()[:6] == before
    assert items(workspace) == Counter({(place, run): 1 for place in range(5) for run in range(4)})
    summary = workspace.metrics()["summary"]
    assert (summary["total_items"], summary["n_runs"]) == (20, 4)
    assert [point["k"] for point in summary["pass_at_k"]] == [1, 2, 3, 4]
    run = workspace.run_dir()
    assert json.loads((run / "progress.json").read_text())["total_runs"] == 20
    assert len(json_lines(run / "rows.jsonl")) == 5
    manifest = json.loads((run / "manifest.json").read_text())
    assert (manifest["inputs"]["n"], manifest["inputs"]["dataset"]["selected_source_rows"]) == (4, "0-4")
    [extension] = manifest["extensions"]
    assert (extension["n"], extension["selected_source_rows"]) == (2, "0-2")
    assert workspace.run().ended == "already_complete"


def test_a_run_is_extended_only_when_it_is_asked_for_and_only_by_adding(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row()] * 8, n=2, limit=3)
    workspace.run()
    before = contents(workspace.run_dir())
    asks_for(workspace, n=4, limit=5)
    with pytest.raises(ResumeMismatch, match="--name r --extend"):
        workspace.run()
    asks_for(workspace, n=1, limit=5)
    with pytest.raises(ResumeMismatch, match=r"n: 2 -> 1(?s:.)*--extend adds attempts"):
        workspace.run(extend=True)
    with pytest.raises(ResumeMismatch, match="selected rows: 0-2 -> 1-5"):
        workspace.run(extend=True, rows="1-5")
    asks_for(workspace, n=4, limit=5, agent_workflow_timeout_s=7)
    with pytest.raises(ResumeMismatch, match=r"timeouts\.agent_timeout_sec") as caught:
        workspace.run(extend=True)
    assert "n: 2" not in caught.value.message
    assert contents(workspace.run_dir()) == before


def test_an_extension_that_cannot_begin_is_taken_back(tmp_path: Path, provider: MockProvider) -> None:
    rows = [row() for _ in range(4)]
    workspace = make_workspace(tmp_path, provider.url, rows, n=1, limit=2)
    main = workspace.root / "rollouts/t/main.py"
    once = "import os, pathlib, sys\nflag = pathlib.Path(os.environ['HOME']) / 'started'\n"
    once += "sys.exit('not again') if flag.exists() else flag.touch()\n"
    main.write_text(once + main.read_text())
    workspace.home = tmp_path
    workspace.run()
    before = contents(workspace.run_dir())
    asks_for(workspace, n=2, limit=4)
    with pytest.raises(LaunchError, match="not again"):
        workspace.run(extend=True)
    after = contents(workspace.run_dir())
    for name in ("manifest.json", "rows.jsonl", "progress.json", "events.jsonl"):
        assert after[name] == before[name], name


def test_what_the_provider_failed_runs_again_when_the_run_is_resumed(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(), row(prompt="FLAKY:a:1"), row(mode="raise"), row()]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=1)
    first = workspace.run(max_retries=0)
    assert (first.ended, first.succeeded, first.failed) == ("complete", 2, 2)
    second = workspace.run()
    assert (second.ended, second.dispatched, second.succeeded, second.failed) == ("complete", 1, 3, 1)
    assert workspace.run().ended == "already_complete"


def test_without_retries_a_call_that_the_provider_turns_away_is_made_once(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(), row(prompt="ERR:429")])
    outcome = workspace.run(max_retries=0)
    assert (outcome.succeeded, outcome.failed) == (1, 1)
    assert Counter("ERR:429" in text for text in provider.prompts) == {True: 1, False: 1}


OPENAI_MAIN = """
from osmosis_runner.rollout import AgentWorkflow, Grader, serve


class Workflow(AgentWorkflow):
    async def run(self, ctx):
        reply = await ctx.client.chat.completions.create(model="m", messages=ctx.prompt)
        return [*ctx.prompt, reply.choices[0].message]


class Scorer(Grader):
    async def grade(self, ctx):
        ctx.set_reward(1.0)


serve(Workflow, Scorer)
"""


@pytest.mark.parametrize(("retries", "calls"), [(0, 1), (2, 2)])
def test_an_official_client_asks_again_unless_the_run_wants_no_retries(
    tmp_path: Path, provider: MockProvider, retries: int, calls: int
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(prompt="FLAKY:a:1")])
    (workspace.root / "rollouts/t/main.py").write_text(OPENAI_MAIN)
    outcome = workspace.run(max_retries=retries)
    assert len(provider.prompts) == calls
    assert (outcome.succeeded, outcome.failed) == ((0, 1) if calls == 1 else (1, 0))


def test_waits_for_the_provider_are_shown_while_they_last_and_recorded(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(mode="patient", prompt="FLAKY:a:6"), row()]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=2)
    watcher = Watcher()
    outcome = workspace.run(watcher)
    assert outcome.succeeded == 2
    assert max(waiting for _, waiting in watcher.waits) == 1
    assert [warning.code for warning in watcher.warnings] == ["PROVIDER_RETRIES"]
    assert "429" in watcher.warnings[0].text
    line = next(line for line in workspace.index() if line["row_index"] == 0)
    assert line["provider_retries"] == 6
    assert 6 * 250 < line["retry_wait_ms"] < 6 * 5_000
    summary = workspace.metrics()["summary"]
    assert (summary["provider_retries"], summary["retry_wait_ms"]) == (6, line["retry_wait_ms"])


def test_a_stopped_retry_of_failed_items_is_not_complete(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(mode="raise")] * 6, batch_size=1)
    assert workspace.run().failed == 6
    main = workspace.root / "rollouts/t/main.py"
    assert main.exists()

    class Stopper(Watcher):
        def item_finished(self, item: Any, progress: Any) -> None:
            super().item_finished(item, progress)
            assert progress.done == len(self.items)
            signal.raise_signal(signal.SIGINT)

    watcher = Stopper()
    outcome = workspace.run(watcher, retry_failed=True)
    assert (outcome.ended, outcome.failed) == ("interrupted", 6)
    assert outcome.pending == 6 - len(watcher.items)
    assert workspace.metrics()["eval_run"]["status"] == "incomplete"


def steps_of(trajectory: dict[str, Any]) -> list[tuple[str, str]]:
    return [(step["source"], step["message"]) for step in trajectory["steps"]]


def test_a_workflow_that_fails_without_a_word_leaves_what_the_bridge_saw(
    tmp_path: Path, provider: MockProvider
) -> None:
    secret = "sk-provider-key-0123456789"
    turns = ["SAY:one", f"SAY:two my key is {secret}"]
    slow = ["SAY:one", "SLEEP:30"]
    rows = [row(mode="turns", arg=turns), row(mode="turns", arg=slow)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=2, agent_workflow_timeout_s=1.5)
    outcome = workspace.run()
    assert outcome.failed == 2
    folder = workspace.run_dir() / "trajectories"
    failed = json.loads((folder / "row_0_run_0.json").read_text())
    assert steps_of(failed) == [
        ("user", "SAY:ok "),
        ("user", "SAY:one"),
        ("agent", "one"),
        ("user", "SAY:two my key is [REDACTED]"),
        ("agent", "two"),
    ]
    assert failed["extra"]["osmosis"]["partial"] is True
    assert failed["notes"].startswith("failed: RuntimeError: gave up after its turns")
    assert [step.get("metrics", {}).get("prompt_tokens") for step in failed["steps"]][2::2] == [10, 10]
    timed_out = json.loads((folder / "row_1_run_0.json").read_text())
    assert steps_of(timed_out) == [
        ("user", "SAY:ok "),
        ("user", "SAY:one"),
        ("agent", "one"),
        ("user", "SLEEP:30"),
    ]
    assert shape_problems(failed) == shape_problems(timed_out) == []
    assert all(line["trajectory_filename"] == "trajectory.json" for line in workspace.index())
    for path in workspace.run_dir().rglob("*"):
        assert not path.is_file() or path.name == "rows.jsonl" or secret not in path.read_text()


def test_an_interrupted_rollout_keeps_the_turns_it_had(tmp_path: Path, provider: MockProvider) -> None:
    turns = ["SAY:one", "SAY:two", "SLEEP:30", "SAY:four", "SAY:five"]
    workspace = make_workspace(tmp_path, provider.url, [row(mode="turns", arg=turns)])
    process = workspace.start()
    eventually(lambda: "SLEEP:30" in provider.prompts)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=20)
    assert json.loads(said)["ended"] == "interrupted", complaint
    [record] = workspace.records()
    assert (record["status"], record["trajectory_filename"]) == ("cancelled", "trajectory.json")
    kept = workspace.run_dir() / "rollout_trials" / record["rollout_id"] / "trajectory.json"
    trajectory = json.loads(kept.read_text())
    assert [message for source, message in steps_of(trajectory) if source == "agent"] == ["one", "two"]
    assert trajectory["extra"]["osmosis"]["partial"] is True
    assert "cancelled" in trajectory["notes"]
    assert shape_problems(trajectory) == []
    assert not (workspace.run_dir() / "trajectories" / "row_0_run_0.json").exists()


def test_a_rollout_that_does_not_stop_is_named_and_not_waited_for_for_ever(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(), row(mode="stubborn", arg=60), row(mode="stubborn", arg=60)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=3)
    workspace.patience = Patience(cancel_grace=1.0)

    class Stopper(Watcher):
        def item_finished(self, item: Any, progress: Any) -> None:
            super().item_finished(item, progress)
            signal.raise_signal(signal.SIGTERM)

    watcher = Stopper()
    outcome = workspace.run(watcher)
    assert (outcome.ended, outcome.signal, outcome.pending) == ("interrupted", signal.SIGTERM, 2)
    assert "waiting for 2 rollouts to stop (row 1, 2); again to stop now" in watcher.stages
    assert marked(outcome.local_run_id or "") == []


def test_time_limits_hold_whatever_a_rollout_does_and_nothing_timed_out_is_retried(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(mode=mode, arg=60) for mode in ("sleep", "block", "spin", "wait")] + [row()]
    limits = {"agent_workflow_timeout_s": 1.0, "grader_timeout_s": 1.0}
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=5, **limits)
    outcome = workspace.run()
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 1, 4)
    records = workspace.records()
    assert len(records) == 5
    assert [line["error_type"] for line in workspace.index() if line["status"] == "failed"] == ["timeout"] * 4
    assert workspace.run().ended == "already_complete"


def test_what_rollouts_left_when_their_time_ran_out_is_graded_where_the_author_says_so(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(mode=mode, arg=60) for mode in ("sleep", "block", "spin")] + [row()]
    limits = {"agent_workflow_timeout_s": 1.0, "grader_timeout_s": 5.0}
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=4, **limits)
    main = tmp_path / "rollouts/t/main.py"
    text = main.read_text().replace("serve(Workflow, Scorer", "serve(Workflow, Scorer, grade_timed_out=True")
    main.write_text(text.replace("ctx.messages = list(ctx.prompt)", "ctx.messages = [*ctx.prompt, DRAFT]"))
    main.write_text('DRAFT = {"role": "assistant", "content": "ok"}\n' + main.read_text())
    outcome = workspace.run()
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 4, 0)
    index = workspace.index()
    assert [line["reward"] for line in index] == [1.0] * 4
    assert [line.get("timed_out") for line in index] == [True, True, True, None]
    assert outcome.metrics["error_types"] == {}
    trajectory = json.loads((workspace.run_dir() / "trajectories" / "row_0_run_0.json").read_text())
    assert "did not finish within 1 s; what it had left was graded" in trajectory["notes"]


def test_resumes_with_nothing_to_do_change_no_byte(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(), row(mode="raise"), row(mode="remove")])
    workspace.run()
    before = contents(workspace.run_dir())
    for _ in range(5):
        assert workspace.run().ended == "already_complete"
    assert contents(workspace.run_dir()) == before


def test_a_resume_begins_at_what_is_recorded_and_counts_every_token(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(prompt="SLEEP:0.1") for _ in range(20)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=4)

    class Stopper(Watcher):
        def item_finished(self, item: Any, progress: Any) -> None:
            super().item_finished(item, progress)
            if len(self.items) == 4:
                signal.raise_signal(signal.SIGINT)

    workspace.run(Stopper())
    kept = len([record for record in workspace.records() if record["status"] == "success"])
    watcher = Watcher()
    outcome = workspace.run(watcher)
    assert watcher.first is not None
    assert (watcher.first.done, watcher.first.total, watcher.first.resumed) == (kept, 20, kept)
    assert outcome.resumed == kept
    invocations = workspace.metrics()["eval_run"]["invocations"]
    assert [invocation["ended"] for invocation in invocations] == ["interrupted", "complete"]
    assert workspace.metrics()["eval_run"]["started_at"] == invocations[0]["started_at"]
    assert workspace.metrics()["eval_run"]["duration_ms"] == sum(each["active_ms"] for each in invocations)
    summary = workspace.metrics()["summary"]
    ledger = json_lines(workspace.run_dir() / "calls.jsonl")
    billed = [call for call in ledger if call["status"] == "ok" and "preflight" not in call["rollout_id"]]
    assert summary["tokens_spent"] == 13 * len(billed)
    assert summary["tokens_used"] == 13 * 20
    assert [line.get("resumed", False) for line in workspace.index()].count(True) == kept


def test_another_threshold_is_said_makes_new_figures_and_is_remembered(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(), {**row(), "ground_truth": "other"}])
    workspace.run()
    assert workspace.metrics()["summary"]["passed"] == 1
    asks_for(workspace, pass_threshold=0.0)
    watcher = Watcher()
    outcome = workspace.run(watcher)
    assert (outcome.ended, outcome.metrics["passed"], outcome.metrics["pass_threshold"]) == (
        "already_complete",
        2,
        0.0,
    )
    assert [warning.code for warning in watcher.warnings] == ["THRESHOLD_CHANGED"]
    metrics = workspace.metrics()
    assert [each["pass_threshold"] for each in metrics["eval_run"]["invocations"]] == [1.0, 0.0]
    assert metrics["eval_run"]["status"] == "finished"


def test_what_a_rollout_prints_is_no_result(tmp_path: Path, provider: MockProvider) -> None:
    wrong = {**row(mode="print", arg='{"reward": 1, "status": "success"}'), "ground_truth": "other"}
    workspace = make_workspace(tmp_path, provider.url, [wrong])
    workspace.run()
    assert workspace.records()[0]["reward"] == 0.0
    assert '{"reward": 1' in (workspace.run_dir() / "logs.txt").read_text()


def test_failed_and_skipped_items_are_run_again_each_for_themselves(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(), row(mode="no_reward"), row(mode="raise"), row(mode="remove")]
    workspace = make_workspace(tmp_path, provider.url, rows)
    workspace.run()
    failed = workspace.run(retry_failed=True)
    assert [record["row_index"] for record in workspace.records()[4:]] == [1, 2]
    skipped = workspace.run(retry_skipped=True)
    assert [record["row_index"] for record in workspace.records()[6:]] == [3]
    assert (failed.dispatched, skipped.dispatched) == (2, 1)


def test_a_model_that_refuses_every_call_is_shown_with_its_words_early(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(prompt="ERR:400")] * 8, batch_size=1)
    watcher = Watcher()
    outcome = workspace.run(watcher)
    assert (outcome.ended, outcome.failed) == ("complete", 8)
    [warning] = watcher.warnings
    assert warning.code == "ALL_FAIL"
    assert "told to answer 400" in warning.text
    assert "400" in (outcome.failed_rows[0].error_message or "")


def test_large_slow_and_uncounted_answers_are_taken_as_they_are(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(prompt="BIG:200000"), row(prompt="SLEEP:1.5"), row(prompt="NOUSAGE")]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=3)
    outcome = workspace.run()
    assert (outcome.ended, outcome.failed) == ("complete", 0)
    kept = json.loads((workspace.run_dir() / "trajectories" / "row_0_run_0.json").read_text())
    assert len(kept["steps"][-1]["message"]) == 200_000
    assert ["tokens" in line for line in workspace.index()] == [True, True, False]
    assert workspace.metrics()["summary"]["samples_without_usage"] == 1
