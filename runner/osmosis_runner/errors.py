"""The errors of the runner, each with the code that the command line shows and details for `--json`.

    RunnerError                  INTERNAL     message, details; the root
      ConfigError                VALIDATION   issues: every problem of a run file at once
        ConfigNotFound           NOT_FOUND    the run file does not exist
        RolloutFileError         VALIDATION   the same of a rollout.toml
      DatasetError               VALIDATION   issues: file, line, row, column, what was found, what to do
        DatasetNotFound          NOT_FOUND    the dataset file does not exist
      SelectionError             VALIDATION   a `--rows` text that cannot be read, or rows that do not exist
      DigestError                VALIDATION   a source tree that cannot be digested
      EndpointError              VALIDATION   a model path, address or key that leads to no model
      ResumeMismatch             CONFLICT     the named run was started with other inputs
      JournalCorrupt             CONFLICT     a damaged line in events.jsonl; names the repair command
      StorageError               INTERNAL     a write failed: disk full, read-only folder, permission
      RunDirError                VALIDATION   a run name or run directory that cannot be used
        RunNotFound              NOT_FOUND    no run of that name
        RunExists                CONFLICT     the name is taken
        RunLocked                CONFLICT     another process holds the run

Knows nothing of exit codes or terminals: the command line maps codes to both. Messages are whole sentences for
people; `details` repeats them for programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from osmosis_runner.jsontext import JsonObject, JsonValue
from osmosis_runner.problem_kinds import ProblemKinds

Code = Literal["VALIDATION", "CONFLICT", "NOT_FOUND", "INTERNAL"]

LISTED_ISSUES = 20
"""How many kinds of problems of one file the text of an error lists; the rest is counted."""
KEPT_ISSUES = 1_000
"""How many problems of one file `details` list one by one."""


class RunnerError(Exception):
    """Something the runner cannot go on from; `str(error)` is the text for the user."""

    code: ClassVar[Code] = "INTERNAL"

    def __init__(self, message: str, details: Mapping[str, JsonValue] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: JsonObject = dict(details or {})


class ConfigIssue(msgspec.Struct, frozen=True):
    """One problem of a run file."""

    key: str
    """`section.field`, `section`, or `` for the file itself."""
    message: str
    line: int | None = None
    """1-based line in the file, where it is known."""

    def __str__(self) -> str:
        place = f"{self.key}: " if self.key else ""
        return f"{place}{self.message}" + (f" (line {self.line})" if self.line else "")


class ConfigError(RunnerError):
    """A run file with problems; all of them in `issues`."""

    code = "VALIDATION"
    file_kind: ClassVar[str] = "eval config"

    def __init__(self, file: str, issues: Sequence[ConfigIssue]) -> None:
        self.file = file
        self.issues = tuple(issues)
        text = "\n".join([f"Invalid {self.file_kind}: {file}", *(f"  - {issue}" for issue in issues)])
        listed: list[JsonValue] = [_without_none(_config_issue_json(file, issue)) for issue in issues]
        super().__init__(text, {"error": "invalid_config", "file": file, "issues": listed})


class ConfigNotFound(ConfigError):
    """The run file does not exist."""

    code = "NOT_FOUND"


class RolloutFileError(ConfigError):
    """A `rollout.toml` with problems; all of them in `issues`."""

    file_kind = "rollout file"


class DatasetIssue(msgspec.Struct, frozen=True):
    """One problem of a dataset file, with its place."""

    found: str
    """What stands there, in words; bounded."""
    fix: str
    """What to do about it."""
    line: int | None = None
    """1-based line, for formats that have lines."""
    row: int | None = None
    """0-based offset of the row in the file, as `--rows` counts."""
    column: str | None = None
    """Name of the column, or a path inside it such as `metadata.user.id`."""

    def __str__(self) -> str:
        place = ", ".join(
            text
            for text in (
                f"line {self.line}" if self.line is not None else "",
                f"row {self.row}" if self.row is not None else "",
                self.column or "",
            )
            if text
        )
        return f"{place}: {self.found}; {self.fix}" if place else f"{self.found}; {self.fix}"


class DatasetError(RunnerError):
    """A dataset file with problems: the first `KEPT_ISSUES` in `issues`, all of them counted in `kinds`."""

    code = "VALIDATION"

    def __init__(self, file: str, issues: Sequence[DatasetIssue], kinds: ProblemKinds | None = None) -> None:
        self.file = file
        self.issues = tuple(issues[:KEPT_ISSUES])
        self.kinds = ProblemKinds.of(issues) if kinds is None else kinds
        super().__init__(
            _dataset_text(file, self.kinds),
            {
                "error": "invalid_dataset",
                "file": file,
                "total": self.kinds.total,
                "kinds": [kind.to_json() for kind in self.kinds.listed],
                "issues": [_without_none(_dataset_issue_json(file, issue)) for issue in self.issues],
            },
        )

    @property
    def total(self) -> int:
        """How many problems there are."""
        return self.kinds.total


class DatasetNotFound(DatasetError):
    """The dataset file does not exist."""

    code = "NOT_FOUND"


class SelectionError(RunnerError):
    """A row selector that cannot be read, or that names rows the dataset does not have."""

    code = "VALIDATION"


class DigestError(RunnerError):
    """A rollout's source tree cannot be digested."""

    code = "VALIDATION"


class EndpointError(RunnerError):
    """A model path, address or key that leads to no model; `details` hold the code of the routing."""

    code = "VALIDATION"


class Change(msgspec.Struct, frozen=True):
    """One input that differs between a recorded run and what was asked for now."""

    path: str
    """Dotted place in `manifest.inputs`, such as `dataset.sha256` or `env.LOG_LEVEL`."""
    old: JsonValue
    """Value of the recorded run; None where it had none, and for secrets."""
    new: JsonValue
    message: str
    """The difference in words, without any secret."""


class ResumeMismatch(RunnerError):
    """The run of that name was started with other inputs; nothing was touched."""

    code = "CONFLICT"

    def __init__(self, message: str, changes: Sequence[Change]) -> None:
        self.changes = tuple(changes)
        listed: list[JsonValue] = [
            {"path": change.path, "old": change.old, "new": change.new, "message": change.message}
            for change in changes
        ]
        super().__init__(message, {"error": "inputs_changed", "changes": listed})


class JournalCorrupt(RunnerError):
    """A committed line of the journal cannot be read; every good line is still there."""

    code = "CONFLICT"

    def __init__(self, file: str, line: int, reason: str, remedy: str) -> None:
        self.file = file
        self.line = line
        super().__init__(
            f"{file}:{line}: {reason}; {remedy}",
            {"error": "journal_corrupt", "file": file, "line": line, "reason": reason},
        )


class StorageError(RunnerError):
    """A file could not be written; `details` holds the path and the errno name."""

    @classmethod
    def of(cls, path: str, error: OSError, kept: str) -> StorageError:
        """Return the error for `path`; `kept` says what is safe and what to do."""
        reason = error.strerror or type(error).__name__
        return cls(
            f"cannot write {path}: {reason}; {kept}",
            {"error": "storage", "file": path, "errno": error.errno, "reason": reason},
        )


class RunDirError(RunnerError):
    """A run name or a run directory cannot be used."""

    code = "VALIDATION"


class RunNotFound(RunDirError):
    """No run of that name exists under the output folder."""

    code = "NOT_FOUND"


class RunExists(RunDirError):
    """A run of that name exists already."""

    code = "CONFLICT"


class RunLocked(RunDirError):
    """Another process holds the run; `details` name its pid, host and start."""

    code = "CONFLICT"


def _without_none(value: JsonObject) -> JsonObject:
    return {key: part for key, part in value.items() if part is not None}


def _config_issue_json(file: str, issue: ConfigIssue) -> JsonObject:
    return {"file": file, "line": issue.line, "key": issue.key, "message": issue.message}


def _dataset_issue_json(file: str, issue: DatasetIssue) -> JsonObject:
    return {
        "file": file,
        "line": issue.line,
        "row": issue.row,
        "column": issue.column,
        "found": issue.found,
        "fix": issue.fix,
    }


def _dataset_text(file: str, kinds: ProblemKinds) -> str:
    listed = kinds.listed
    if kinds.total == 1:
        return f"{file}: {listed[0]}"
    lines = [f"{file}: {kinds.total:,} problems", *(f"  - {kind}" for kind in listed[:LISTED_ISSUES])]
    more = kinds.total - sum(kind.count for kind in listed[:LISTED_ISSUES])
    if more:
        lines.append(f"  - and {more:,} more, of other kinds")
    return "\n".join(lines)
