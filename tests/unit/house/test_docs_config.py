"""docs/config.md: the keys, types and defaults that it lists are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from osmosis_runner.config import EvalConfig, parse_config
from osmosis_runner.config_fields import LARGEST_N, REQUIRED_EXPERIMENT, SECTIONS
from osmosis_runner.errors import ConfigError
from osmosis_runner.rollout_file import KEYS, parse_rollout_file

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "config.md").read_text()
RUN_PAGE, ROLLOUT_PAGE = PAGE.split("# Rollout files\n")
[EXAMPLE] = re.findall(r"^```toml\n(.*?)^```", RUN_PAGE, re.MULTILINE | re.DOTALL)
[ROLLOUT_EXAMPLE] = re.findall(r"^```toml\n(.*?)^```", ROLLOUT_PAGE, re.MULTILINE | re.DOTALL)
WRONG = {"text": "7", "whole number": "1.5", "number": '"x"', "list of texts": '"x"'}
"""A value that is not of a type, as TOML."""


def keys_of(text: str) -> dict[str, tuple[str, str]]:
    """Type and default of every key of a part of the page."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", text, re.MULTILINE)
    return {key: (kind.strip(), default.strip()) for key, kind, default in rows}


def sections() -> dict[str, dict[str, tuple[str, str]]]:
    parts = re.split(r"^## `\[(\w+)\]`$", RUN_PAGE, flags=re.MULTILINE)[1:]
    return {name: keys_of(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


LISTED = [(section, key) for section, keys in sections().items() for key in keys]


def test_the_page_lists_every_section_and_key_and_no_other() -> None:
    listed = sections()
    assert list(listed) == list(SECTIONS)
    assert {name: tuple(keys) for name, keys in listed.items()} == {
        name: known or () for name, known in SECTIONS.items()
    }


def test_the_example_names_every_key_and_is_in_order() -> None:
    config = parse_config(EXAMPLE, Path("a.toml"))
    assert config.explicit - {"env.LOG_LEVEL", "advanced.priority"} | {"experiment.commit_sha"} == {
        f"{section}.{key}" for section, key in LISTED
    }


def test_the_defaults_are_those_of_a_file_that_leaves_everything_out() -> None:
    required = "".join(f'{key} = "x"\n' for key in REQUIRED_EXPERIMENT)
    config = parse_config(f"[experiment]\n{required}[secrets]\nrequired = []\n", Path("a.toml"))
    fields = {"agent_workflow_timeout_s": "agent_timeout_s", "required": "required_secrets"}
    for section, key in LISTED:
        default = sections()[section][key][1]
        if default == "required":
            continue
        found = getattr(config, fields.get(key, key))
        assert default == ("none" if found is None else str(found)), key
    assert f"up to {LARGEST_N:,}" in PAGE
    assert set(EvalConfig.__struct_fields__) >= set(fields.values())


@pytest.mark.parametrize(("section", "key"), LISTED)
def test_a_key_that_is_required_is_missed_and_one_of_another_type_refused(section: str, key: str) -> None:
    kind, default = sections()[section][key]
    line = re.compile(rf"^{key} = .*$", re.MULTILINE)
    text = EXAMPLE if key != "commit_sha" else EXAMPLE.replace('branch = "main"', 'commit_sha = "0123456"')
    assert line.search(text)
    if default == "required":
        with pytest.raises(ConfigError, match=rf"{section}\.{key}: missing"):
            parse_config(line.sub("", text), Path("a.toml"))
    with pytest.raises(ConfigError, match=rf"{section}\.{key}: must be a"):
        parse_config(line.sub(f"{key} = {WRONG[kind]}", text), Path("a.toml"))


def test_the_keys_of_a_rollout_file_are_listed_too() -> None:
    assert tuple(keys_of(ROLLOUT_PAGE)) == KEYS
    read = parse_rollout_file(ROLLOUT_EXAMPLE, "rollout.toml")
    assert (read.command, read.env) == (("node", "main.js"), {"LOG_LEVEL": "info"})
