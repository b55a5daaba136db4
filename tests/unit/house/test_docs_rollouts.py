"""docs/rollouts.md: what it lists is what the code does."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import msgspec

from osmosis_runner.elsewhere import API_KEY_VARIABLE
from osmosis_runner.launch import (
    ALLOWED_PREFIXES,
    ALLOWED_VARIABLES,
    STOP_GRACE_S,
    LaunchSpec,
    server_environ,
)
from osmosis_runner.protocol import RolloutInit
from osmosis_runner.rollout_file import parse_rollout_file

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "rollouts.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_variable_a_server_may_see_is_listed_and_no_other() -> None:
    (row,) = re.findall(r"^\| inherited \| (.+); nothing else \|$", PAGE, re.MULTILINE)
    named = set(re.findall(r"`([^`]+)`", row))
    assert named == ALLOWED_VARIABLES | {f"{prefix}*" for prefix in ALLOWED_PREFIXES}


def test_every_variable_that_is_set_is_explained() -> None:
    spec = LaunchSpec(Path("/r"), "main.py", Path("/t"), {}, {})
    assert [name for name in server_environ(spec, 1, "i", "k") if f"`{name}" not in PAGE] == []
    assert f"`{API_KEY_VARIABLE}`" in PAGE


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
