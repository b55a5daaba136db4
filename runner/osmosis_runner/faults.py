"""The errors of a run's live half: what keeps it from beginning, or ends it for a reason of its own.

RunnerError
  LaunchError              the rollout server did not start, or not again
  SidecarError             the bridge did not start, or died
    LedgerUnavailable      the bridge cannot write its ledger at present
  PreflightError           the model did not answer the one call that checks it
  SecretsMissing           a name in `[secrets] required` has no value
"""

from __future__ import annotations

from osmosis_runner.errors import RunnerError


class LaunchError(RunnerError):
    """The rollout server did not start; the message holds its last lines of output, on lines of their own."""

    code = "VALIDATION"


class SidecarError(RunnerError):
    """The bridge did not start, or died; the message holds its last line of output."""

    code = "INTERNAL"


class LedgerUnavailable(SidecarError):
    """The bridge cannot write its ledger at present; it keeps what is to be recorded, and serves no calls."""


class PreflightError(RunnerError):
    """The model did not answer a small call; `details` hold status and code of the reply."""

    code = "VALIDATION"


class SecretsMissing(RunnerError):
    """Names in `[secrets] required` without a value; `details` hold `missing`."""

    code = "VALIDATION"
