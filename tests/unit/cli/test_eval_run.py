"""`osmosis eval run` over a run that runs nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from fake_runs import FAILED, FakeRun, one_after_another, outcome, plan
from osmosis_cli import eval_run
from osmosis_runner.errors import RunLocked
from osmosis_typed import Said, osmosis


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("rollouts", "configs/eval"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "configs" / "eval" / "quick.toml").touch()
    (tmp_path / ".env").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


CONFIG = "configs/eval/quick.toml"


def test_options_are_what_was_typed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRun(outcome())
    monkeypatch.setattr(eval_run, "run_evaluation", fake)
    osmosis(
        "eval", "run", CONFIG, "--dataset-file", "d.jsonl", "--name", "n", "--limit", "9", "-o", "out",
        "--max-in-flight", "8", "--retry-failed", "--api-base", "http://x/v1", "--api-key-env", "K", environ={"K": "v"},
    )  # fmt: skip
    options = fake.options
    assert options is not None
    assert options.config_path == workspace / CONFIG
    assert options.workspace == workspace
    assert options.dataset_file == workspace / "d.jsonl"
    assert options.output_root == workspace / "out"
    assert (options.name, options.limit, options.max_in_flight) == ("n", 9, 8)
    assert (options.retry_failed, options.retry_skipped, options.fresh) == (True, False, False)
    assert (options.api_base, options.api_key_env) == ("http://x/v1", "K")
    assert dict(options.environ) == {"K": "v"}


def test_people_see_the_plan_the_stages_the_items_and_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eval_run, "run_evaluation", FakeRun(outcome(failed=1, failed_rows=(FAILED,))))
    said = osmosis("eval", "run", CONFIG)
    assert said.code == 0
    parts = (
        "→ checking model",
        "Local Evaluation",
        "0/20 pass",
        "20/20 pass 100%",
        "Failed rows",
        "Results",
        "Retry failures: ",
    )
    places = [said.stdout.index(part) for part in parts]
    assert places == sorted(places)
    assert said.stderr == "⚠ the provider sends no usage\n"


def test_programs_get_one_document_and_warnings_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eval_run, "run_evaluation", FakeRun(outcome()))
    said = osmosis("eval", "run", CONFIG, "--json")
    assert said.code == 0
    assert said.document["operation"] == "eval.run"
    assert said.document["resource"]["metrics"]["pass_rate"] == 0.75
    assert json.loads(said.stderr)["warning"]["code"] == "NO_USAGE"


def test_scripts_get_lines_and_stages_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eval_run, "run_evaluation", FakeRun(outcome()))
    said = osmosis("eval", "run", CONFIG, "--plain")
    assert said.stdout.splitlines()[0] == "Evaluation run finished: /ws/.osmosis/evals/quick-otter-07"
    assert said.stderr.splitlines()[0] == "checking model local/tiny"


PAID = outcome(plan=plan(model_path="openai/big"))


@pytest.mark.parametrize(
    ("answer", "code", "ran"), [("y\n", 0, True), ("n\n", 0, False), ("\n", 0, False), ("", 0, False)]
)
def test_a_paid_model_is_asked_about_and_the_default_is_no(
    monkeypatch: pytest.MonkeyPatch, answer: str, code: int, ran: bool
) -> None:
    monkeypatch.setattr(eval_run, "run_evaluation", FakeRun(PAID))
    said = osmosis("eval", "run", CONFIG, stdin=answer, terminal=True)
    assert said.code == code
    assert "20 rollouts x model openai/big — continue? [y/N]: " in said.stderr
    assert ("Evaluation run finished" in said.stdout) is ran
    assert ("Cancelled." in said.stderr) is not ran


@pytest.mark.parametrize("form", ["--json", "--plain", "--env-file=.env"])
def test_a_paid_model_needs_yes_where_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(eval_run, "run_evaluation", FakeRun(PAID))
    refused = osmosis(*((form, "eval", "run", CONFIG)))
    assert refused.code == 1
    assert osmosis(form, "eval", "run", CONFIG, "--yes").code == 0
    if form == "--json":
        assert refused.error["error"]["code"] == "INTERACTIVE_REQUIRED"
        assert refused.error["error"]["details"]["prompt"] == "20 rollouts x model openai/big — continue?"
        assert refused.stdout == ""
    else:
        assert "Use --yes" in refused.stderr
    if form == "--plain":
        assert "Model: openai/big" in refused.stderr


def test_secrets_are_found_after_the_question_and_never_shown(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeRun(outcome(plan=plan(secret_names=("A_KEY", "B_KEY"))))
    monkeypatch.setattr(eval_run, "run_evaluation", fake)
    (workspace / "s.env").write_text("A_KEY=canary-file\n")
    said = osmosis("eval", "run", CONFIG, "--secrets-file", "s.env", environ={"B_KEY": "canary-process"})
    assert fake.secrets == {"A_KEY": "canary-file", "B_KEY": "canary-process"}
    assert "canary" not in said.stdout + said.stderr
    missing = osmosis("eval", "run", CONFIG, "--json")
    assert missing.error["error"]["details"]["missing"] == ["A_KEY", "B_KEY"]


def test_mistakes_are_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRun(outcome())
    monkeypatch.setattr(eval_run, "run_evaluation", fake)
    for arguments, code in (
        (("none.toml",), 1),
        ((CONFIG, "--secrets-file", "none"), 1),
        ((CONFIG, "--retry-failed"), 2),
        ((CONFIG, "--rows", "3-1"), 2),
        ((), 2),
    ):
        assert osmosis("eval", "run", *arguments).code == code
    assert fake.options is None


def test_a_refusal_of_the_runner_keeps_its_code_and_details(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise RunLocked("run 'x' is held by process 7", {"pid": 7})

    monkeypatch.setattr(eval_run, "run_evaluation", refuse)
    said = osmosis("eval", "run", CONFIG, "--json")
    assert said.code == 1
    assert said.error["error"] == {
        "code": "CONFLICT",
        "message": "run 'x' is held by process 7",
        "details": {"pid": 7},
    }


@pytest.mark.parametrize(
    ("ended", "number", "code"), [("halted", None, 3), ("interrupted", 15, 143), ("interrupted", 2, 130)]
)
def test_a_partial_run_is_a_result_with_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, ended: str, number: int | None, code: int
) -> None:
    fake = FakeRun(outcome(ended, signal=number, pending=3, reason="Because."))  # type: ignore[arg-type]
    monkeypatch.setattr(eval_run, "run_evaluation", fake)
    said = osmosis("eval", "run", CONFIG, "--json")
    assert (said.code, said.document["status"], said.document["resource"]["reason"]) == (
        code,
        "partial",
        "Because.",
    )


def test_demands_are_checked_when_the_run_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eval_run, "run_evaluation", FakeRun(outcome(failed=1)))
    assert osmosis("eval", "run", CONFIG, "--fail-under", "75%").code == 0
    assert osmosis("eval", "run", CONFIG, "--fail-under", "0.76").code == 1
    assert osmosis("eval", "run", CONFIG, "--fail-on", "failed").code == 1


def rerun(
    monkeypatch: pytest.MonkeyPatch, *flags: str, answer: str = "", terminal: bool = True
) -> tuple[Said, FakeRun]:
    """Run a named run that is complete already; the second run is a new one."""
    again = FakeRun(outcome(plan=plan(run_name="new-name-01")))
    monkeypatch.setattr(
        eval_run, "run_evaluation", one_after_another(FakeRun(outcome("already_complete")), again)
    )
    return osmosis("eval", "run", CONFIG, "--name", "old", *flags, stdin=answer, terminal=terminal), again


def test_a_person_may_start_a_new_run_when_the_named_one_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    said, again = rerun(monkeypatch, answer="\n")
    assert "Start a new run? [Y/n]" in said.stderr
    assert again.options is not None
    assert again.options.name is None
    assert "new-name-01" in said.stdout


@pytest.mark.parametrize(
    ("flags", "answer", "terminal"),
    [((), "n\n", True), (("--yes",), "", True), ((), "", False), (("--json",), "", True)],
)
def test_a_complete_run_is_otherwise_left_alone(
    monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], answer: str, terminal: bool
) -> None:
    said, again = rerun(monkeypatch, *flags, answer=answer, terminal=terminal)
    assert said.code == 0
    assert again.options is None
    assert "was already complete; nothing ran" in said.stdout


def test_an_interrupt_ends_a_prompt_although_a_loop_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)

    def press_ctrl_c(*_: object, **__: object) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
        return True

    monkeypatch.setattr(eval_run, "run_evaluation", FakeRun(PAID))
    monkeypatch.setattr("osmosis_cli.render.Output.ask", press_ctrl_c)
    said = osmosis("eval", "run", CONFIG, terminal=True)
    assert said.code == 130
    assert signal.getsignal(signal.SIGINT) is before
