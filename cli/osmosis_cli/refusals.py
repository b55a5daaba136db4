"""The runner's errors as ours, in one place: the same code, message and details."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from osmosis_cli.errors import CLIError, Code
from osmosis_runner.errors import RunnerError


@contextmanager
def refusals() -> Generator[None]:
    """Raise a `RunnerError` of the block as the `CLIError` that says the same."""
    try:
        yield
    except RunnerError as error:
        code = Code.__members__.get(error.code, Code.INTERNAL)
        raise CLIError(error.message, code=code, details=error.details) from error
