from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from osmosis_runner.config import EvalConfig
from osmosis_runner.digest import SourceDigest, digest_contents
from osmosis_runner.errors import ResumeMismatch
from osmosis_runner.inputs import build_inputs, check_resumable, compare_inputs, pinned_value
from osmosis_runner.row_store import RowStore
from osmosis_runner.rows import RowSet
from osmosis_runner.selection import parse_rows

CONFIG = EvalConfig(
    path=Path("configs/eval/a.toml"), rollout="math", entrypoint="main.py", model_path="openai/m", dataset="sums",
    n=2, env={"LOG_LEVEL": "info", "MY_TOKEN": "canary-4711"}, required_secrets=("ZETA", "ALPHA"),
)  # fmt: skip
ROWS = RowSet(
    rows=RowStore(), sha256="a" * 64, total_rows=20, selection=parse_rows("0-9,12"), file=Path("d.jsonl"),
    dataset_format="jsonl",
)  # fmt: skip
CONTENTS = {"main.py": b"1", "tool.py": b"2"}


def source(contents: dict[str, bytes] | None = None, locks: dict[str, str] | None = None) -> SourceDigest:
    contents = CONTENTS if contents is None else contents
    hashes = {path: content.hex() for path, content in contents.items()}
    return SourceDigest(digest_contents(contents), hashes, locks or {})


def inputs(config: EvalConfig = CONFIG, rows: RowSet = ROWS, code: SourceDigest | None = None) -> dict:
    return json.loads(json.dumps(build_inputs(config, rows, code or source())))


def messages(old: dict, new: dict) -> list[str]:
    return [change.message for change in compare_inputs(old, new)]


def test_the_inputs_pin_what_decides_a_result_and_nothing_else() -> None:
    found = inputs()
    assert set(found) == {
        "model_path", "dataset", "n", "rollout", "env", "secret_names", "timeouts", "versions",
    }  # fmt: skip
    assert found["dataset"] == {"sha256": "a" * 64, "selected_source_rows": "0-9,12"}
    assert found["secret_names"] == ["ALPHA", "ZETA"]
    assert found["timeouts"] == {"agent_timeout_sec": 450.0, "grader_timeout_sec": 150.0}
    other = replace(
        CONFIG, pass_threshold=0.1, batch_size=64, branch="dev", dataset="other", advanced={"x": 1},
        path=Path("b.toml"), limit=3,
    )  # fmt: skip
    assert compare_inputs(found, inputs(other, replace(ROWS, file=Path("e.csv")))) == []


def test_values_that_sound_secret_enter_as_a_digest_only() -> None:
    text = json.dumps(inputs())
    assert "canary" not in text
    assert "info" in text
    changed = inputs(replace(CONFIG, env={**CONFIG.env, "MY_TOKEN": "canary-4712"}))
    assert messages(inputs(), changed) == ["env.MY_TOKEN has another value (values of secrets are not shown)"]
    assert pinned_value("LOG_LEVEL", "x") == "x"
    assert pinned_value("DB_PASSWORD", "x") != pinned_value("DB_PASSWORD2", "x")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (replace(CONFIG, n=4), "n: 2 -> 4"),
        (replace(CONFIG, model_path="openai/x"), "model_path: openai/m -> openai/x"),
        (replace(CONFIG, env={"MY_TOKEN": "canary-4711"}), "env.LOG_LEVEL: info -> absent"),
        (replace(CONFIG, env={**CONFIG.env, "A": ""}), "env.A: absent -> ''"),
        (replace(CONFIG, required_secrets=("ALPHA",)), "secrets.required: ALPHA, ZETA -> ALPHA"),
        (replace(CONFIG, agent_timeout_s=1.0), "timeouts.agent_timeout_sec: 450.0 -> 1.0"),
        (replace(CONFIG, entrypoint="b.py"), "rollout.entrypoint: main.py -> b.py"),
        (replace(CONFIG, rollout="law"), "rollout.name: math -> law"),
    ],
)
def test_each_difference_names_its_place_and_both_values(config: EvalConfig, says: str) -> None:
    assert messages(inputs(), inputs(config)) == [says]


def test_a_changed_dataset_and_selection_are_told_apart() -> None:
    changed = replace(ROWS, sha256="b" * 64, selection=parse_rows("0-9"))
    assert messages(inputs(), inputs(rows=changed)) == [
        "selected rows: 0-9,12 -> 0-9",
        "dataset content: sha256 aaaaaaaaaaaa -> bbbbbbbbbbbb",
    ]


def test_a_change_of_code_names_the_files() -> None:
    new = inputs(code=source({"main.py": b"changed", "extra.py": b"3"}))
    assert messages(inputs(), new) == ["rollout source: changed main.py; added extra.py; removed tool.py"]


def test_a_change_of_the_digests_algorithm_is_told_apart_from_a_change_of_code() -> None:
    old = inputs()
    old["rollout"] = {"name": "math", "entrypoint": "main.py", "source_digest": "c" * 64}
    [change] = compare_inputs(old, inputs())
    assert change.path == "rollout.source_digest.format"
    assert "format changed (sha256-v1 -> sha256-v2), not necessarily your code" in change.message
    with pytest.raises(ResumeMismatch, match="was recorded by another version"):
        check_resumable("quiet-otter-07", "osmosis eval run configs/eval/a.toml", old, inputs())


def test_a_lock_file_counts_when_both_have_one() -> None:
    without, one, two = (
        inputs(code=source(locks=locks)) for locks in ({}, {"uv.lock": "1"}, {"uv.lock": "2"})
    )
    assert compare_inputs(without, one) == []
    assert messages(one, two) == ["rollout dependencies: uv.lock changed"]


def test_another_way_to_start_the_server_is_a_difference() -> None:
    elsewhere = json.loads(json.dumps(build_inputs(CONFIG, ROWS, None)))
    assert "by --rollout-url" in messages(inputs(), elsewhere)[0]
    assert compare_inputs(elsewhere, elsewhere) == []


def test_another_endpoint_is_a_difference_unless_one_of_both_is_unknown() -> None:
    ours, theirs = ({"lane": "wire", "origin": f"https://{host}"} for host in ("a.test", "b.test:8443"))
    before, now, unknown = (build_inputs(CONFIG, ROWS, source(), found) for found in (ours, theirs, None))
    assert [change.path for change in compare_inputs(before, now)] == ["endpoint.origin"]
    assert messages(before, now)[0].startswith("endpoint: https://a.test -> https://b.test:8443 (--api-base")
    assert compare_inputs(unknown, now) == compare_inputs(before, unknown) == []
    native = build_inputs(CONFIG, ROWS, source(), {"lane": "native"})
    assert messages(before, native)[0] == "endpoint.lane: wire -> native"


def test_the_refusal_names_every_change_and_both_ways_on() -> None:
    with pytest.raises(ResumeMismatch) as caught:
        command = "osmosis eval run 'configs/eval/a b.toml' --limit 3"
        check_resumable("my-run", command, inputs(), inputs(replace(CONFIG, n=3)))
    text = str(caught.value)
    assert "Run 'my-run' was started with other inputs" in text
    assert "- n: 2 -> 3" in text
    assert "osmosis eval run 'configs/eval/a b.toml' --limit 3 --name NEW" in text
    assert "--name my-run --fresh" in text
    assert caught.value.code == "CONFLICT"
    assert caught.value.details["changes"] == [{"path": "n", "old": 2, "new": 3, "message": "n: 2 -> 3"}]
    check_resumable("my-run", "a.toml", inputs(), inputs())


def test_other_versions_and_unknown_keys_of_another_release_are_differences() -> None:
    old = inputs()
    old["versions"]["rollout_protocol"] = "0.3"
    old["later"] = {"x": [1]}
    assert messages(old, inputs()) == ["later: {'x': [1]} -> absent", "versions.rollout_protocol: 0.3 -> 0.4"]
