from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.config import parse_config
from osmosis_runner.config_fields import commit_rule, dataset_rule, entrypoint_rule, n_rule, rollout_rule
from osmosis_runner.errors import ConfigError

BASE = """[experiment]
rollout = "r"
entrypoint = "main.py"
model_path = "openai/m"
dataset = "d"
"""


def messages(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, Path("a.toml"))
    return str(caught.value)


@pytest.mark.parametrize("value", ["a/b", "a\\b", ".", ".."])
def test_a_rollout_is_one_folder_name(value: str) -> None:
    assert rollout_rule(value)


@pytest.mark.parametrize("value", ["../x.py", "a/../../x.py", "/abs.py", "C:/x.py", "a\\b.py", ".", "a/.."])
def test_an_entrypoint_stays_inside_its_folder(value: str) -> None:
    assert entrypoint_rule(value)


@pytest.mark.parametrize("value", ["main.py", "src/main.py", "./main.py", "a/../main.py"])
def test_an_entrypoint_may_lie_in_a_subfolder(value: str) -> None:
    assert entrypoint_rule(value) is None


def test_the_other_rules_take_what_they_should() -> None:
    assert commit_rule("a" * 40) is None
    assert commit_rule("a" * 41)
    assert commit_rule("a" * 6)
    assert dataset_rule("my-data.v2") is None
    assert dataset_rule("data/x.jsonl")
    assert n_rule(1) is None
    assert n_rule(10**9)


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("limit = true", "evaluation.limit: must be a whole number, not true"),
        ("limit = 1.0", "evaluation.limit: must be a whole number, not 1.0"),
        ('n = "4"', "evaluation.n: must be a whole number, not '4'"),
        ("batch_size = [1]", "evaluation.batch_size: must be a whole number"),
        ("pass_threshold = inf", "must be a finite number, not inf"),
        ("pass_threshold = false", "must be a number, not false"),
        (f"pass_threshold = {10**400}", "must be a finite number"),
        ("agent_workflow_timeout_s = 0", "must be more than 0 seconds, not 0"),
        ("grader_timeout_s = -1.5", "must be more than 0 seconds, not -1.5"),
        ("agent_timeout_s = 3", "did you mean 'agent_workflow_timeout_s'?"),
        ("rollout = 'x'", "evaluation.rollout: unknown key; it belongs in [experiment]"),
        ("zzzzzz = 1", "known are limit, n, batch_size"),
    ],
)
def test_a_wrong_value_says_what_was_wanted(field: str, says: str) -> None:
    assert says in messages(f"{BASE}[secrets]\nrequired = []\n[evaluation]\n{field}\n")


@pytest.mark.parametrize(
    ("secrets", "says"),
    [
        ("required = 'A'", "must be a list of names"),
        ("required = [1]", "every entry must be a string, not a int"),
        ("required = ['lower']", "must be the name of a variable in capitals"),
        ("required = ['_OSMOSIS_X']", "must be the name of a variable in capitals"),
        ("required = ['A', 'A']", "A is listed twice"),
        ("required = ['SHARED']", "SHARED also stands in [env]"),
        ("required = []\nvalues = 1", "secrets.values: unknown key"),
    ],
)
def test_wrong_secrets_are_told(secrets: str, says: str) -> None:
    assert says in messages(f"{BASE}[env]\nSHARED = 'x'\n[secrets]\n{secrets}\n")


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ('"a b" = "x"', "must be named with capitals"),
        ("1A = 'x'", "must be named with capitals"),
        ("_OSMOSIS_ROLLOUT_PORT = '1'", "are the runner's own"),
        ("A = 1", "must be a string, not 1"),
        ("A = true", "must be a string, not true"),
        ("A = ['x']", "must be a string"),
        ('A = "x\\u0000y"', "NUL"),
    ],
)
def test_wrong_variables_are_told(env: str, says: str) -> None:
    assert says in messages(f"{BASE}[secrets]\nrequired = []\n[env]\n{env}\n")


@pytest.mark.parametrize("value", ['""', '"  "', '"a\\tb"', "3", "['x']"])
def test_a_text_is_a_string_without_control_characters(value: str) -> None:
    assert "experiment.branch" in messages(f"{BASE}branch = {value}\n[secrets]\nrequired = []\n")


def test_a_key_outside_of_its_section_is_told_where_it_belongs() -> None:
    assert "n: must stand in a section; move it below [evaluation]" in messages(
        f"n = 3\n{BASE}[secrets]\nrequired = []\n"
    )


def test_a_section_that_is_no_section_is_told() -> None:
    text = messages("experiment = 3\nevaluation = 4\nenv = 5\nsecrets = 6\nadvanced = 7\n")
    for name in ("experiment", "evaluation", "env", "secrets", "advanced"):
        assert f"- {name}: must be a section" in text


def test_advanced_takes_any_key_but_no_number_that_json_lacks() -> None:
    text = f"{BASE}[secrets]\nrequired = []\n[advanced]\n"
    config = parse_config(f"{text}a.b = 1\nd = 2020-01-02\nt = 10:00:00\n", Path("a.toml"))
    assert config.advanced == {"a": {"b": 1}, "d": "2020-01-02", "t": "10:00:00"}
    assert "advanced.x: must be a finite number" in messages(f"{text}x = [nan]\n")
