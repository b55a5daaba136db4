from __future__ import annotations

import json
import os
import re
import resource
import secrets
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mock_provider import MockProvider
from osmosis_runner.faults import LaunchError, PreflightError
from osmosis_runner.orphans import MARK_VARIABLE, marked
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


def by_row(workspace: Workspace) -> dict[int, dict[str, Any]]:
    return {record["row_index"]: record for record in workspace.records()}


def run_mark(workspace: Workspace) -> str:
    return json.loads((workspace.run_dir() / "manifest.json").read_text())["local_run_id"]


def bridge_of(workspace: Workspace) -> int:
    pids = marked(run_mark(workspace))
    return next(pid for pid in pids if b"osmosis_bridge" in Path(f"/proc/{pid}/cmdline").read_bytes())


def test_every_item_gets_one_record_and_all_files_agree(tmp_path: Path, provider: MockProvider) -> None:
    rows = [row(str(number)) for number in range(10)]
    workspace = make_workspace(tmp_path, provider.url, rows, n=2, batch_size=4)
    watcher = Watcher()
    outcome = workspace.run(watcher)
    assert (outcome.ended, outcome.succeeded, outcome.failed, outcome.pending) == ("complete", 20, 0, 0)
    records = workspace.records()
    items = [(record["row_index"], record["run_index"]) for record in records]
    assert sorted(items) == [(row_index, run) for row_index in range(10) for run in range(2)]
    calls = json_lines(workspace.run_dir() / "calls.jsonl")
    spent = Counter({record["rollout_id"]: record["tokens"] for record in records})
    told = Counter[str]()
    for call in calls:
        if not call["rollout_id"].startswith("preflight-"):
            told[call["rollout_id"]] += call["usage"]["total_tokens"]
    assert spent == told
    assert workspace.metrics()["summary"]["tokens_used"] == 20 * 13
    assert len(workspace.index()) == 20
    assert len(provider.prompts) == 20
    assert len(watcher.items) == 20
    for record in records:
        kept = (
            workspace.run_dir() / "trajectories" / f"row_{record['row_index']}_run_{record['run_index']}.json"
        )
        trajectory = json.loads(kept.read_text())
        assert trajectory["session_id"] == record["rollout_id"]
        assert trajectory["agent"]["model_name"] == "openai/mock"
        assert trajectory["final_metrics"]["total_prompt_tokens"] == 10


def test_a_failing_row_is_recorded_with_phase_message_traceback_and_transcript(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(), row(mode="raise"), row(mode="grader_raise"), row(mode="remove"), row(mode="no_reward")]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=5)
    outcome = workspace.run()
    records = by_row(workspace)
    assert (outcome.ended, outcome.succeeded, outcome.failed, outcome.skipped) == ("complete", 1, 3, 1)
    assert re.fullmatch(
        r"RuntimeError: blew up on purpose second line \(main\.py:\d+ in run\)", records[1]["error_message"]
    )
    assert (records[1]["error_phase"], records[1]["error_type"]) == ("agent", "agent_error")
    assert "main.py" in records[1]["error_traceback"]
    assert (records[2]["error_phase"], records[2]["error_type"]) == ("grader", "validation_error")
    assert records[3]["status"] == "skipped"
    assert (records[4]["error_phase"], records[4]["error_type"]) == ("grader", "validation_error")
    assert "grade() set no reward" in records[4]["error_message"]
    told = (workspace.run_dir() / "rollout_trials" / records[1]["rollout_id"] / "error.txt").read_text()
    assert told.startswith("agent failed: RuntimeError: blew up on purpose")
    assert 'raise RuntimeError("blew up on purpose' in told
    log = (workspace.run_dir() / "logs.txt").read_text()
    assert "[rollout-server] [row 1 run 0] the workflow failed: RuntimeError: blew up on purpose" in log
    assert re.search(r"\[row 1 run 0\]   File .*main\.py", log)
    transcript = json.loads((workspace.run_dir() / "trajectories" / "row_1_run_0.json").read_text())
    assert [step["source"] for step in transcript["steps"]] == ["user", "agent"]
    failed = {failed.row_index: failed for failed in outcome.failed_rows}
    assert "blew up" in (failed[1].error_message or "")
    assert [skipped.row_index for skipped in outcome.skipped_rows] == [3]


def test_time_limits_hold_for_waiting_blocking_and_grading_rows(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(mode="sleep", arg=30), row(mode="block", arg=30), row(mode="grader_sleep"), row()]
    limits = {"agent_workflow_timeout_s": 1.0, "grader_timeout_s": 1.0}
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=4, **limits)
    watcher = Watcher()
    outcome = workspace.run(watcher)
    records = by_row(workspace)
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 1, 3)
    assert [records[place]["error_type"] for place in range(3)] == ["timeout"] * 3
    assert [records[place]["error_phase"] for place in range(3)] == ["agent", "agent", "grader"]
    assert any("blocks the event loop at main.py" in line.message for line in watcher.lines)


def test_as_many_rollouts_are_in_flight_as_are_allowed(tmp_path: Path, provider: MockProvider) -> None:
    rows = [row(prompt="SLEEP:0.5") for _ in range(32)]
    watcher = Watcher()
    workspace = make_workspace(tmp_path, provider.url, rows)
    outcome = workspace.run(watcher, max_in_flight=32)
    assert outcome.ended == "complete"
    assert watcher.most_in_flight == 32
    assert outcome.duration_ms < 8_000


@pytest.mark.parametrize(("named", "in_flight"), [(", max_concurrent=32", 32), ("", 1)])
def test_where_nobody_asks_the_server_says_how_many_are_in_flight(
    tmp_path: Path, provider: MockProvider, named: str, in_flight: int
) -> None:
    watcher = Watcher()
    workspace = make_workspace(tmp_path, provider.url, [row(prompt="SLEEP:0.2")] * (40 if named else 3))
    main = tmp_path / "rollouts/t/main.py"
    main.write_text(main.read_text().replace("serve(Workflow, Scorer", f"serve(Workflow, Scorer{named}"))
    workspace.run(watcher)
    assert watcher.most_in_flight == in_flight
    assert any(f"up to {in_flight} in flight" in stage for stage in watcher.stages)


def test_an_item_that_kills_the_server_twice_fails_and_the_others_go_on(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(mode="exit") if place == 3 else row(prompt="SLEEP:0.1") for place in range(10)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=8)
    outcome = workspace.run()
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 9, 1)
    final = {r["row_index"]: r for r in workspace.records() if r["status"] != "cancelled"}
    assert final[3]["error_type"] == "server_died"
    assert "exited with code 17" in final[3]["error_message"]
    finals = Counter(r["row_index"] for r in workspace.records() if r["status"] != "cancelled")
    assert set(finals.values()) == {1}


def test_a_server_that_cannot_start_again_halts_the_run(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(), row(mode="exit"), row()], batch_size=1)
    main = workspace.root / "rollouts/t/main.py"
    once = "import os, pathlib, sys\nflag = pathlib.Path(os.environ['_OSMOSIS_ROLLOUT_ARTIFACT_ROOT']) / 'started'\n"
    once += "sys.exit('only once') if flag.exists() else (flag.parent.mkdir(exist_ok=True), flag.touch())\n"
    main.write_text(once + main.read_text())
    outcome = workspace.run()
    assert outcome.ended == "halted"
    assert "only once" in (outcome.reason or "")
    assert (outcome.succeeded, outcome.pending) == (1, 2)


def test_output_of_any_size_and_encoding_does_not_stall_a_run(tmp_path: Path, provider: MockProvider) -> None:
    rows = [row(mode="longline", arg=1_000_000), row(mode="binary"), row(), row()]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=2)
    outcome = workspace.run()
    assert (outcome.ended, outcome.succeeded) == ("complete", 4)
    log = (workspace.run_dir() / "logs.txt").read_text()
    assert "more bytes of this line" in log
    assert max(map(len, log.splitlines())) < 40_000


def test_processes_that_rollouts_leave_behind_die_with_the_run(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(mode="child", arg=True), row(mode="child", arg=False)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=2)
    outcome = workspace.run()
    assert outcome.succeeded == 2
    assert marked(run_mark(workspace)) == []


def test_artifacts_are_copied_without_links_and_reserved_names(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(mode="artifact")])
    workspace.run()
    kept = workspace.run_dir() / "artifacts" / "row_0_run_0"
    assert [str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()] == ["deep/out.txt"]


def test_the_rollout_sees_no_provider_key(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(mode="environ")])
    watcher = Watcher()
    workspace.run(watcher)
    shown = next(line.message for line in watcher.lines if "_OSMOSIS_ROLLOUT_PORT" in line.message)
    assert "sk-provider-key-0123456789" not in shown
    assert "OPENAI_API_KEY" not in shown
    assert "OSMOSIS_BRIDGE_TOKEN" not in shown
    assert provider.keys == {"sk-provider-key-0123456789"}
    for path in workspace.run_dir().rglob("*"):
        assert not path.is_file() or b"sk-provider-key-0123456789" not in path.read_bytes()


def test_a_key_that_secrets_names_stays_with_the_bridge_unless_it_is_passed_on(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(mode="environ")])
    text = workspace.config.read_text()
    workspace.config.write_text(
        text.replace("required = []", 'required = ["OPENAI_API_KEY", "COPY_OF_IT", "JUDGE_KEY"]')
    )
    key = workspace.options().environ["OPENAI_API_KEY"]
    secrets = {"OPENAI_API_KEY": key, "COPY_OF_IT": key, "JUDGE_KEY": "sk-of-the-judge-0123"}
    for name, passed in (("kept", False), ("given", True)):
        watcher = Watcher()
        workspace.run(watcher, name=name, secrets=secrets, pass_provider_key=passed)
        shown = next(line.message for line in watcher.lines if "_OSMOSIS_ROLLOUT_PORT" in line.message)
        assert ("OPENAI_API_KEY" in shown, "COPY_OF_IT" in shown) == (passed, passed)
        assert "JUDGE_KEY" in shown
        [said] = [warning.text for warning in watcher.warnings if warning.code == "PROVIDER_KEY"]
        assert "OPENAI_API_KEY, COPY_OF_IT" in said
        assert "--pass-provider-key" in said


def test_a_rollout_that_misses_the_bridges_key_says_how_to_give_it(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row()])
    workspace.config.write_text(
        workspace.config.read_text().replace("required = []", 'required = ["OPENAI_API_KEY"]')
    )
    (tmp_path / "rollouts/t/main.py").write_text('import os\n\nprint(os.environ["OPENAI_API_KEY"])\n')
    key = workspace.options().environ["OPENAI_API_KEY"]
    with pytest.raises(LaunchError) as caught:
        workspace.run(secrets={"OPENAI_API_KEY": key})
    first = caught.value.message.splitlines()[0]
    assert "KeyError: 'OPENAI_API_KEY'" in first
    assert "--pass-provider-key" in first


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_model_that_does_not_answer_fails_once_and_leaves_nothing(
    tmp_path: Path, provider: MockProvider, status: int
) -> None:
    provider.status = status
    workspace = make_workspace(tmp_path, provider.url, [row()] * 5)
    with pytest.raises(PreflightError, match=str(status)):
        workspace.run()
    assert len(provider.bodies) == 1
    assert not workspace.run_dir().parent.exists()


def test_a_provider_that_is_not_there_fails_the_preflight(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path, "http://127.0.0.1:9/v1", [row()])
    with pytest.raises(PreflightError, match="does not answer"):
        workspace.run()
    assert not workspace.run_dir().exists()


def test_a_rollout_that_does_not_start_is_named_with_its_last_words_and_leaves_nothing(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row()])
    (tmp_path / "rollouts/t/main.py").write_text("raise SystemExit('no such thing')\n")
    with pytest.raises(LaunchError, match="no such thing"):
        workspace.run()
    assert not workspace.run_dir().exists()


def test_an_outage_stops_the_run_with_the_rest_pending_and_a_resume_finishes_it(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row() for _ in range(4)] + [row(prompt="SLEEP:0.2") for _ in range(16)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=4)

    class Cutter(Watcher):
        def item_finished(self, item: Any, progress: Any) -> None:
            super().item_finished(item, progress)
            if len(self.items) == 4:
                provider.status = 503

    first = workspace.run(Cutter())
    assert first.ended == "halted"
    assert "the provider is out" in (first.reason or "")
    assert first.failed == 0
    assert first.pending == 20 - first.succeeded
    assert workspace.metrics()["eval_run"]["status"] == "incomplete"
    provider.status = None
    second = workspace.run()
    assert (second.ended, second.succeeded, second.resumed) == ("complete", 20, first.succeeded)
    finals = Counter(r["row_index"] for r in workspace.records() if r["status"] == "success")
    assert finals == Counter(range(20))


def test_items_that_fail_with_the_provider_run_again_once_it_answers(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row() for _ in range(8)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=2)

    class Blip(Watcher):
        def started(self, progress: Any) -> None:
            provider.status = 503

        def stage(self, text: str) -> None:
            super().stage(text)
            if text.startswith("waiting for the provider"):
                provider.status = None

    watcher = Blip()
    outcome = workspace.run(watcher)
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 8, 0)
    assert any(stage.startswith("waiting for the provider") for stage in watcher.stages)


def test_a_row_whose_own_call_always_fails_is_failed_by_the_provider(
    tmp_path: Path, provider: MockProvider
) -> None:
    faults = ["ERR:503", "CUT", "BROKEN", "ERR:401", "ERR:404", "ERR:400"]
    rows = [one for fault in faults for one in (row(prompt=fault), row())]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=1)
    outcome = workspace.run()
    records = {r["row_index"]: r for r in workspace.records() if r["status"] != "cancelled"}
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 6, 6)
    for number, fault in enumerate(faults[:-1]):
        found = records[2 * number]
        assert (found["error_type"], found["error_phase"]) == ("provider_error", "provider"), fault
        assert fault.removeprefix("ERR:") in found["error_message"] or not fault.startswith("ERR:")
    # What the agent asked for was wrong: that is its own doing, and is not tried again.
    assert records[10]["error_phase"] == "agent"
    assert "400" in records[10]["error_message"]
    assert sum("ERR:400" in text for text in provider.prompts) == 1


def test_unknown_usage_is_absent_and_not_zero(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(prompt="NOUSAGE")])
    workspace.run()
    record = workspace.records()[0]
    assert record["calls"] == 1
    assert "tokens" not in record
    assert "max_context_tokens" not in record


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_process_and_a_run_that_can_be_finished(
    tmp_path: Path, provider: MockProvider, number: signal.Signals
) -> None:
    rows = [row() for _ in range(4)] + [row(mode="sleep", arg=60) for _ in range(8)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=4)
    process = workspace.start()
    eventually(lambda: len(workspace.records()) == 4)
    process.send_signal(number)
    said, complaint = process.communicate(timeout=20)
    assert json.loads(said) == {"ended": "interrupted", "signal": number, "pending": 8}, complaint
    assert marked(run_mark(workspace)) == []
    assert workspace.metrics()["eval_run"]["status"] == "incomplete"
    config = workspace.root / "data" / "t.jsonl"
    assert config.exists()
    recorded = [r["rollout_id"] for r in workspace.records() if r["status"] == "success"]
    assert len(recorded) == 4


def test_a_second_signal_does_not_wait_for_rollouts(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(mode="block", arg=60)])
    workspace.patience = workspace.patience
    process = workspace.start()
    eventually(lambda: "running 1 work items" in read(workspace.run_dir() / "logs.txt"))
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=20)
    assert json.loads(said)["ended"] == "interrupted", complaint
    assert marked(run_mark(workspace)) == []


PLAIN = """
import time
from osmosis_runner.rollout import AgentWorkflow, serve
class Workflow(AgentWorkflow):
    def run(self, ctx):
        time.sleep(ctx.metadata["s"])
        return [*ctx.prompt, {"role": "assistant", "content": "done"}]
serve(Workflow)
"""


def test_a_plain_function_that_blocks_is_failed_in_time_and_its_thread_is_named_at_the_end(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [{**row(), "metadata": {"s": seconds}} for seconds in (60, 0)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=2, agent_workflow_timeout_s=1.0)
    (workspace.root / "rollouts/t/main.py").write_text(PLAIN)
    watcher = Watcher()
    outcome = workspace.run(watcher)
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 1, 1)
    assert by_row(workspace)[0]["error_type"] == "timeout"
    said = "[row 0 run 0] does not stop at main.py:6 in run: a plain function cannot be interrupted"
    assert any(said in line.message for line in watcher.lines)


def test_a_killed_supervisor_loses_nothing_and_a_resume_runs_only_what_is_pending(
    tmp_path: Path, provider: MockProvider
) -> None:
    rows = [row(prompt="SLEEP:0.2") for _ in range(24)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=4)
    process = workspace.start()
    eventually(lambda: len(workspace.records()) >= 6)
    process.kill()
    process.communicate(timeout=10)
    kept = {record["row_index"]: record["rollout_id"] for record in workspace.records()}
    outcome = workspace.run()
    assert (outcome.ended, outcome.succeeded, outcome.resumed) == ("complete", 24, len(kept))
    after = {record["row_index"]: record["rollout_id"] for record in workspace.records()}
    assert after | kept == after
    assert Counter(r["row_index"] for r in workspace.records()) == Counter(range(24))
    assert marked(run_mark(workspace)) == []


def test_the_processes_of_a_killed_supervisor_end_by_themselves(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(mode="sleep", arg=60)])
    process = workspace.start()
    eventually(lambda: "running 1 work items" in read(workspace.run_dir() / "logs.txt"))
    mark = run_mark(workspace)
    assert len(marked(mark)) == 2
    process.kill()
    process.communicate(timeout=10)
    # The rollout server lets its rollout finish for a while; what matters is that it was told.
    eventually(lambda: len(marked(mark)) <= 1)
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)


def test_a_dead_bridge_is_replaced_and_the_run_goes_on(tmp_path: Path, provider: MockProvider) -> None:
    rows = [row(prompt="SLEEP:0.1") for _ in range(16)]
    workspace = make_workspace(tmp_path, provider.url, rows, batch_size=4)

    class Killer(Watcher):
        def item_finished(self, item: Any, progress: Any) -> None:
            super().item_finished(item, progress)
            if len(self.items) == 3:
                os.kill(bridge_of(workspace), signal.SIGKILL)

    watcher = Killer()
    outcome = workspace.run(watcher)
    assert (outcome.ended, outcome.succeeded, outcome.failed) == ("complete", 16, 0)
    assert "restarting the bridge" in watcher.stages
    assert "the bridge was killed by SIGKILL" in read(workspace.run_dir() / "logs.txt")
    finals = Counter(r["row_index"] for r in workspace.records() if r["status"] != "cancelled")
    assert set(finals.values()) == {1}
    told = sum(
        call["usage"]["total_tokens"]
        for call in json_lines(workspace.run_dir() / "calls.jsonl")
        if not call["rollout_id"].startswith("preflight-") and "usage" in call
    )
    assert workspace.metrics()["summary"]["tokens_spent"] == told
    assert len(provider.prompts) * 13 - told <= 4 * 13


def test_a_complete_run_is_left_alone(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(), row()])
    workspace.run()
    before = (workspace.run_dir() / "events.jsonl").read_bytes()
    calls = len(provider.bodies)
    outcome = workspace.run()
    assert (outcome.ended, outcome.succeeded, outcome.dispatched) == ("already_complete", 2, 0)
    assert outcome.metrics == workspace.metrics()["summary"]
    assert (workspace.run_dir() / "events.jsonl").read_bytes() == before
    assert len(provider.bodies) == calls


def test_failed_items_run_again_when_asked_and_what_they_spent_stays_counted(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row(), row(mode="raise")])
    workspace.run()
    second = workspace.run(retry_failed=True)
    assert (second.ended, second.dispatched, second.failed) == ("complete", 1, 1)
    summary = workspace.metrics()["summary"]
    assert (summary["tokens_used"], summary["tokens_spent"]) == (26, 39)
    assert [record.get("attempt", 1) for record in workspace.records()] == [1, 1, 2]


def test_declining_the_plan_creates_nothing(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row()])
    outcome = workspace.run(approve=lambda _plan: None)
    assert outcome.ended == "declined"
    assert provider.bodies == []
    assert not workspace.run_dir().exists()


def test_a_fresh_start_archives_the_old_run(tmp_path: Path, provider: MockProvider) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row()])
    first = workspace.run()
    second = workspace.run(fresh=True)
    assert second.ended == "complete"
    assert second.local_run_id != first.local_run_id
    archived = list(workspace.run_dir().parent.glob("r.archive-*"))
    assert len(archived) == 1
    assert (archived[0] / "events.jsonl").read_text()


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_the_mark_is_in_the_environment_of_what_is_started() -> None:
    mark = secrets.token_hex(16)
    sleeper = subprocess.Popen(["sleep", "30"], env={**os.environ, MARK_VARIABLE: mark})
    try:
        eventually(lambda: marked(mark) == [sleeper.pid])
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.fixture
def few_files() -> Iterator[None]:
    """This process, and what it starts, may open few files at first."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_files")
def test_every_process_of_a_run_may_open_what_its_rollouts_want(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row() for _ in range(600)])
    main = workspace.root / "rollouts/t/main.py"
    main.write_text(
        "import resource; print('may open', resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
        + main.read_text()
    )

    class Looker(Watcher):
        bridge = 0

        def started(self, progress: Any) -> None:
            super().started(progress)
            [bridge] = [
                process
                for process in psutil.Process().children()
                if "osmosis_bridge" in " ".join(process.cmdline())
            ]
            self.bridge = bridge.rlimit(resource.RLIMIT_NOFILE)[0]

    watcher = Looker()
    outcome = workspace.run(watcher, max_in_flight=600)
    assert (outcome.succeeded, watcher.most_in_flight) == (600, 600)
    wanted = 128 + 4 * 600
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= wanted
    assert watcher.bridge >= wanted
    [told] = [line.message for line in watcher.lines if "may open" in line.message]
    assert int(told.split()[-1]) >= wanted


def test_a_machine_that_allows_too_few_files_is_told_before_anything_starts(
    tmp_path: Path, provider: MockProvider
) -> None:
    workspace = make_workspace(tmp_path, provider.url, [row() for _ in range(300)])
    process = workspace.start(within=("sh", "-c", 'ulimit -n 700; exec "$@"', "sh"), max_in_flight=300)
    process.communicate(timeout=50)
    log = read(workspace.run_dir() / "logs.txt")
    wanted = "300 rollouts in flight: 1,328 open files may be wanted, and this process may have 700; run with"
    assert f"{wanted} --max-in-flight 143" in log
    assert log.index(wanted) < log.index("starting the bridge")
