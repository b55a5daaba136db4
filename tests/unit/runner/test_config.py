from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.config import EvalConfig, load_config, parse_config, rollout_directory
from osmosis_runner.errors import ConfigError, ConfigNotFound

MINIMAL = """
[experiment]
rollout = "math"
entrypoint = "main.py"
model_path = "openai/gpt-5"
dataset = "sums"

[secrets]
required = []
"""
PATH = Path("configs/eval/a.toml")


def issues_of(text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, PATH)
    return {issue.key: issue.message for issue in caught.value.issues}


def test_a_minimal_file_takes_the_documented_defaults() -> None:
    config = parse_config(MINIMAL, PATH)
    assert (config.rollout, config.entrypoint, config.model_path, config.dataset) == (
        "math", "main.py", "openai/gpt-5", "sums",
    )  # fmt: skip
    assert (config.n, config.limit, config.batch_size, config.pass_threshold) == (1, None, None, 1.0)
    assert (config.agent_timeout_s, config.grader_timeout_s) == (450.0, 150.0)
    assert config.env == {}
    assert config.required_secrets == ()
    assert "evaluation.n" not in config.explicit
    assert "experiment.rollout" in config.explicit


def test_a_full_file_is_read_whole() -> None:
    text = MINIMAL.replace('dataset = "sums"', 'dataset = "sums"\ncommit_sha = "0123abC"').replace(
        "required = []", 'required = ["OPENAI_API_KEY", "B2"]'
    )
    config = parse_config(
        text
        + """
[evaluation]
limit = 10
n = 4
batch_size = 8
pass_threshold = 0
agent_workflow_timeout_s = 30
grader_timeout_s = 2.5
[env]
ZETA = "1"
ALPHA = ""
[advanced]
anything = [1, { when = 1979-05-27T07:32:00Z }]
""",
        PATH,
    )
    assert (config.limit, config.n, config.batch_size) == (10, 4, 8)
    assert config.pass_threshold == 0.0
    assert "evaluation.pass_threshold" in config.explicit
    assert (config.agent_timeout_s, config.grader_timeout_s) == (30.0, 2.5)
    assert list(config.env.items()) == [("ALPHA", ""), ("ZETA", "1")]
    assert config.required_secrets == ("OPENAI_API_KEY", "B2")
    assert config.commit_sha == "0123abC"
    assert config.advanced == {"anything": [1, {"when": "1979-05-27T07:32:00+00:00"}]}


def test_a_limit_or_batch_size_of_zero_or_less_counts_as_not_given() -> None:
    config = parse_config(MINIMAL + "[evaluation]\nlimit = 0\nbatch_size = -1\n", PATH)
    assert config.limit is None
    assert config.batch_size is None
    assert "evaluation.limit" in config.explicit


def test_every_problem_is_told_at_once_with_its_line() -> None:
    text = """[experiment]
rollout = "a/b"
model_path = 7
dataset = "../x.jsonl"
branch = "main"
commit_sha = "zz"
[evaluation]
n = 0
limt = 3
pass_threshold = nan
grader_timeout_s = true
[env]
lower = "x"
_OSMOSIS_X = "y"
N = 3
[secret]
required = []
"""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, PATH)
    found = {issue.key: (issue.line, issue.message) for issue in caught.value.issues}
    assert set(found) == {
        "experiment.rollout", "experiment.entrypoint", "experiment.model_path", "experiment.dataset",
        "experiment.commit_sha", "evaluation.n", "evaluation.limt", "evaluation.pass_threshold",
        "evaluation.grader_timeout_s", "env.lower", "env._OSMOSIS_X", "env.N", "secret", "secrets",
    }  # fmt: skip
    assert found["experiment.rollout"][0] == 2
    assert found["evaluation.limt"] == (9, "unknown key; did you mean 'limit'?")
    assert found["secret"] == (16, "unknown section; did you mean 'secrets'?")
    assert found["experiment.entrypoint"] == (1, "missing; it is required")
    assert "--dataset-file" in found["experiment.dataset"][1]
    assert caught.value.code == "VALIDATION"


def test_an_empty_file_names_both_missing_sections() -> None:
    assert set(issues_of("")) == {"experiment", "secrets"}
    assert set(issues_of("[experiment]\n[secrets]\n")) == {
        "experiment.rollout", "experiment.entrypoint", "experiment.model_path", "experiment.dataset",
        "secrets.required",
    }  # fmt: skip


def test_a_branch_and_a_commit_exclude_each_other() -> None:
    text = MINIMAL.replace('dataset = "sums"', 'dataset = "sums"\nbranch = "x"\ncommit_sha = "0123456"')
    assert "cannot stand beside" in issues_of(text)["experiment.commit_sha"]


def test_invalid_toml_names_line_and_column() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config("[experiment]\nrollout = \n", PATH)
    [issue] = [issue for issue in caught.value.issues if not issue.key]
    assert issue.line == 2
    assert issue.message == "invalid TOML: Invalid value at column 11"


def test_mistakes_of_syntax_and_of_fields_are_told_together() -> None:
    text = MINIMAL.replace('rollout = "', "rollout = ").replace("[secrets]", "[evaluation]\nn = 0\n[secrets]")
    with pytest.raises(ConfigError) as caught:
        parse_config(text, PATH)
    said = [str(issue) for issue in caught.value.issues]
    assert len(said) == 2
    assert "invalid TOML" in said[0]
    assert said[1].startswith("evaluation.n: must be at least 1, not 0 (line")


def test_a_key_given_twice_names_both_lines() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config("[evaluation]\nn = 1\nn = 2\n", PATH)
    assert str(caught.value.issues[0]) == "evaluation.n: stands twice, first in line 2; keep one (line 3)"


def test_a_pasted_secret_value_is_not_repeated() -> None:
    canary = "sk-live-canary-7777777777777777"
    text = MINIMAL.replace("required = []", f'required = ["{canary}"]')
    with pytest.raises(ConfigError) as caught:
        parse_config(text, PATH)
    assert canary not in str(caught.value)
    assert canary not in str(caught.value.details)


def workspace(tmp_path: Path) -> Path:
    (tmp_path / "configs" / "eval").mkdir(parents=True)
    (tmp_path / "configs" / "eval" / "quickstart.toml").write_text(MINIMAL)
    (tmp_path / "rollouts" / "math").mkdir(parents=True)
    (tmp_path / "rollouts" / "math" / "main.py").write_text("")
    return tmp_path


def test_a_file_is_loaded_with_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    path = root / "configs" / "eval" / "bom.toml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load_config(path, root) == load_config(root / "configs/eval/quickstart.toml", root).__class__(
        **{
            field: getattr(load_config(root / "configs/eval/quickstart.toml", root), field)
            for field in EvalConfig.__struct_fields__
            if field != "path"
        },
        path=path,
    )


def test_a_missing_file_names_the_nearest_one(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    with pytest.raises(ConfigNotFound) as caught:
        load_config(root / "configs/eval/quikstart.toml", root)
    assert "did you mean quickstart.toml?" in str(caught.value)
    assert caught.value.code == "NOT_FOUND"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("configs/eval/a.yaml", b"", "must end .toml"),
        ("elsewhere.toml", MINIMAL.encode(), "must lie under"),
        ("configs/eval/u.toml", MINIMAL.encode("utf-16"), "UTF-16"),
        ("configs/eval/l.toml", b'x = 1\ny = "caf\xe9"', "byte 0xE9 is not UTF-8"),
    ],
)
def test_a_file_of_the_wrong_kind_or_place_is_refused(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    root = workspace(tmp_path)
    (root / name).write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(root / name, root)
    assert says in str(caught.value)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "configs/eval/d.toml").mkdir()
    with pytest.raises(ConfigError, match="is not a file"):
        load_config(root / "configs/eval/d.toml", root)


def test_the_rollout_and_its_entrypoint_must_exist_inside_their_folder(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    config = load_config(root / "configs/eval/quickstart.toml", root)
    assert rollout_directory(config, root) == root / "rollouts" / "math"
    (root / "rollouts/math/main.py").unlink()
    with pytest.raises(ConfigError, match=r"no file .*main\.py"):
        rollout_directory(config, root)
    outside = root / "outside.py"
    outside.write_text("")
    (root / "rollouts/math/main.py").symlink_to(outside)
    with pytest.raises(ConfigError, match="leads out of"):
        rollout_directory(config, root)
    other = parse_config(MINIMAL.replace('"math"', '"maths"'), PATH)
    with pytest.raises(ConfigError, match="there are: math"):
        rollout_directory(other, root)
