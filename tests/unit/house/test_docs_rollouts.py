"""docs/rollouts.md: what it lists is what the code does."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

from osmosis_runner.attempt import DEADLINE_MARGIN_S
from osmosis_runner.config import DEFAULT_AGENT_TIMEOUT_S, DEFAULT_GRADER_TIMEOUT_S
from osmosis_runner.dispatch import Patience
from osmosis_runner.elsewhere import API_KEY_VARIABLE
from osmosis_runner.errors import RolloutFileError
from osmosis_runner.launch import (
    ALLOWED_PREFIXES,
    ALLOWED_VARIABLES,
    HEALTHY_WITHIN_S,
    STOP_GRACE_S,
    LaunchSpec,
    server_environ,
)
from osmosis_runner.orphans import MARK_VARIABLE
from osmosis_runner.output_lines import LINE_LIMIT
from osmosis_runner.protocol import RolloutInit
from osmosis_runner.rollout.agent import GraderContext, WorkflowContext
from osmosis_runner.rollout.author import BLOCKING_THREADS
from osmosis_runner.rollout.desk import CLEANUP_S
from osmosis_runner.rollout.host import STUCK_S
from osmosis_runner.rollout_file import parse_rollout_file
from osmosis_runner.runlog import OUTPUT_LIMIT
from osmosis_runner.uv_project import RUN_VARIABLES

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "rollouts.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def table_row(begin: str) -> list[str]:
    (row,) = re.findall(rf"^\| {re.escape(begin)} \| (.+) \|$", PAGE, re.MULTILINE)
    return re.findall(r"`([^`]+)`", row)


def test_every_variable_a_server_may_inherit_is_listed_and_no_other() -> None:
    named = set(table_row("the user's environment"))
    assert named == ALLOWED_VARIABLES | {f"{prefix}*" for prefix in ALLOWED_PREFIXES}


def test_every_variable_that_is_set_is_listed_and_no_other(tmp_path: Path) -> None:
    section = PAGE.partition("### The environment of a server")[2].partition("| from |")[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    spec = LaunchSpec(tmp_path, "main.py", Path("/t"), {}, {MARK_VARIABLE: "m"})
    assert listed == set(server_environ(spec, 1, "i", "k"))
    assert f"`{API_KEY_VARIABLE}`" in PAGE


def test_every_variable_of_uv_is_listed_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    whole = dict.fromkeys(["UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_PUBLISH_TOKEN", *RUN_VARIABLES], "x")
    spec = LaunchSpec(tmp_path, "main.py", Path("/t"), whole, {})
    seen = {name for name in server_environ(spec, 1, "i", "k") if name.startswith("UV_")}
    named = table_row("the user's environment, for a folder with a `pyproject.toml`")
    assert {name for name in named if name.startswith("UV_")} == seen


def test_what_the_page_says_cannot_be_taken_over_cannot_be() -> None:
    taking = dict.fromkeys(("_OSMOSIS_RUN_MARK", "_OSMOSIS_ROLLOUT_PORT", "_OSMOSIS_NEW"), "mine")
    lines = "\n".join(f'{name} = "{value}"' for name, value in taking.items())
    with pytest.raises(RolloutFileError) as caught:
        parse_rollout_file(f'command = ["x"]\n[env]\n{lines}\n', "rollout.toml")
    assert all(name in caught.value.message for name in taking)


def test_all_that_ctx_has_is_explained() -> None:
    tables = PAGE.partition("What `ctx` has:")[2].partition("`run` returns")[0]
    named = set(re.findall(r"`(\w+)(?:\(number\))?`", tables))
    has = {
        name for kind in (WorkflowContext, GraderContext) for name in dir(kind) if not name.startswith("_")
    }
    assert has | {"messages", "sample"} <= named
    assert named <= has | {"messages", "sample", "run", "grade", "metrics", "info", "remove_sample", "openai"}


def test_the_limits_are_those_of_the_code() -> None:
    limits = PAGE.partition("### Time limits")[2].partition("###")[0]
    for seconds in (DEFAULT_AGENT_TIMEOUT_S, DEFAULT_GRADER_TIMEOUT_S, DEADLINE_MARGIN_S, CLEANUP_S, STUCK_S):
        assert f"{seconds:g} s" in limits
    assert f"| {Patience().cancel_grace:g} s for all |" in limits
    life = PAGE.partition("### The life of a rollout")[2].partition("###")[0]
    for figure in (
        f"{HEALTHY_WITHIN_S:g} s",
        f"After {STOP_GRACE_S:g} s",
        f"most {BLOCKING_THREADS} of them",
    ):
        assert figure in life
    assert f"{LINE_LIMIT // 1024} KB" in PAGE
    assert f"{OUTPUT_LIMIT // 1024**2} MB" in PAGE


def test_every_field_of_a_rollout_is_explained() -> None:
    fields = [field.name for field in msgspec.structs.fields(RolloutInit)]
    assert [name for name in fields if f"`{name}`" not in PAGE] == []


def test_the_examples_are_what_they_say() -> None:
    for text in blocks("json"):
        json.loads(text)
    project, rollout = blocks("toml")
    assert "fastapi" in tomllib.loads(project)["project"]["dependencies"]
    assert parse_rollout_file(rollout, "rollout.toml").command == ("node", "main.js")
    for text in blocks("python"):
        compile(text, "docs/rollouts.md", "exec")


def test_the_files_it_points_at_are_there() -> None:
    for name in re.findall(r"`((?:tests|rollouts)/[a-z/]+\.[a-z]+)`", PAGE):
        assert (ROOT / name).is_file(), name
    assert f"after {STOP_GRACE_S:g} seconds" in PAGE
