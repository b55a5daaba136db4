"""The runner's errors as ours."""

from __future__ import annotations

import pytest

from osmosis_cli.errors import CLIError, Code
from osmosis_cli.refusals import refusals
from osmosis_runner.errors import RunLocked, RunnerError, RunNotFound


@pytest.mark.parametrize(
    ("kind", "code"),
    [(RunLocked, Code.CONFLICT), (RunNotFound, Code.NOT_FOUND), (RunnerError, Code.INTERNAL)],
)
def test_message_code_and_details_are_kept(kind: type[RunnerError], code: Code) -> None:
    with pytest.raises(CLIError) as caught, refusals():
        raise kind("no", {"pid": 7})
    assert (caught.value.message, caught.value.code, caught.value.details) == ("no", code, {"pid": 7})


def test_a_code_that_is_not_ours_is_internal() -> None:
    class Odd(RunnerError):
        code = "ODD"  # type: ignore[assignment]

    with pytest.raises(CLIError) as caught, refusals():
        raise Odd("no")
    assert caught.value.code is Code.INTERNAL


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), refusals():
        raise KeyError("x")
