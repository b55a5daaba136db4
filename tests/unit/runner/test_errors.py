from __future__ import annotations

import json

import pytest

from osmosis_runner import errors
from osmosis_runner.errors import (
    Change,
    ConfigError,
    ConfigIssue,
    DatasetError,
    DatasetIssue,
    ResumeMismatch,
    RunnerError,
    StorageError,
)


def _tree() -> list[type[RunnerError]]:
    found = [RunnerError]
    for known in found:
        found.extend(known.__subclasses__())
    return [known for known in found if known.__module__ == errors.__name__]


def test_every_error_has_a_code_and_stands_in_the_drawn_tree() -> None:
    drawn = errors.__doc__ or ""
    for known in _tree():
        assert known.code in {"VALIDATION", "CONFLICT", "NOT_FOUND", "INTERNAL"}
        line = next(line for line in drawn.splitlines() if line.split()[:1] == [known.__name__])
        assert line.split()[1] == known.code


def test_all_config_issues_stand_in_the_text_and_in_the_details() -> None:
    error = ConfigError(
        "a.toml", [ConfigIssue("evaluation.n", "must be at least 1", 7), ConfigIssue("", "odd")]
    )
    assert str(error).splitlines() == [
        "Invalid eval config: a.toml",
        "  - evaluation.n: must be at least 1 (line 7)",
        "  - odd",
    ]
    assert error.details["issues"] == [
        {"file": "a.toml", "line": 7, "key": "evaluation.n", "message": "must be at least 1"},
        {"file": "a.toml", "key": "", "message": "odd"},
    ]


def test_a_dataset_error_tells_twenty_kinds_of_problems_and_counts_the_rest() -> None:
    columns = [f"column_{'x' * i}" for i in range(30)]
    issues = [DatasetIssue("found", "fix", line=i, row=i - 1, column=columns[i % 30]) for i in range(1, 61)]
    error = DatasetError("d.jsonl", issues)
    lines = str(error).splitlines()
    assert lines[0] == "d.jsonl: 60 problems"
    assert lines[1] == "  - 2 rows (0, 30 from line 1), column_x: found; fix"
    assert lines[-1] == "  - and 20 more, of other kinds"
    assert len(lines) == 22
    assert (error.details["total"], len(error.issues)) == (60, 60)


def test_a_single_dataset_problem_is_one_line() -> None:
    assert str(DatasetError("d.csv", [DatasetIssue("is empty", "fill it")])) == "d.csv: is empty; fill it"


def test_details_are_json() -> None:
    change = Change("env.A", "1", None, "env.A: 1 -> absent")
    for error in (
        ResumeMismatch("no", [change]),
        DatasetError("d", [DatasetIssue("a", "b", row=0)]),
        StorageError.of("/x", OSError(28, "No space left on device"), "results are safe"),
    ):
        json.dumps(error.details)


def test_a_storage_error_names_the_file_the_reason_and_what_is_safe() -> None:
    error = StorageError.of("/run/events.jsonl", OSError(28, "No space left on device"), "results are safe")
    assert str(error) == "cannot write /run/events.jsonl: No space left on device; results are safe"
    assert error.details["errno"] == 28


@pytest.mark.parametrize("known", _tree())
def test_every_error_is_a_runner_error(known: type[RunnerError]) -> None:
    assert issubclass(known, RunnerError)
