"""The fields of a run file, section by section: what each must be, and every way it is not.

Pure: a parsed TOML mapping in, plain values and a list of issues out. Knows nothing of files.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from typing import cast

from osmosis_runner.errors import ConfigIssue
from osmosis_runner.jsontext import JsonObject, JsonValue
from osmosis_runner.toml_lines import TomlLines

REQUIRED_EXPERIMENT = ("rollout", "entrypoint", "model_path", "dataset")
SECTIONS: Mapping[str, tuple[str, ...] | None] = {
    "experiment": (*REQUIRED_EXPERIMENT, "branch", "commit_sha"),
    "evaluation": (
        "limit",
        "n",
        "batch_size",
        "pass_threshold",
        "agent_workflow_timeout_s",
        "grader_timeout_s",
    ),
    "env": None,
    "secrets": ("required",),
    "advanced": None,
}
"""Known keys of each section; None where any key may stand."""

LARGEST_N = 100_000

_ENV_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_SECRET_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_COMMIT = re.compile(r"[0-9a-fA-F]{7,40}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OWN_PREFIX = "_OSMOSIS_"


class FieldReader:
    """Reads typed values out of one run file and gathers what is wrong with them."""

    def __init__(self, table: Mapping[str, object], lines: TomlLines) -> None:
        self._table = table
        self._lines = lines
        self.issues: list[ConfigIssue] = []

    def problem(self, key: str, message: str) -> None:
        """Note one problem at `key`."""
        self.issues.append(ConfigIssue(key, message, self._lines.of(key)))

    def section(self, name: str) -> Mapping[str, object] | None:
        """Return the section's keys; None when it is missing or not a section (which is noted)."""
        value = self._table.get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.problem(name, f"must be a section; write [{name}] on a line of its own")
            return None
        return cast("Mapping[str, object]", value)

    def explicit(self) -> frozenset[str]:
        """Return `section.key` of everything written out."""
        return frozenset(f"{name}.{key}" for name in SECTIONS for key in self._keys_of(name))

    def _keys_of(self, name: str) -> Iterable[str]:
        value = self._table.get(name)
        return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else ()

    def unknown_names(self) -> None:
        """Note every section and key that no rule knows, with the nearest one that is known."""
        for name in self._table:
            if name not in SECTIONS:
                self.problem(name, _unknown_section(name, self._table[name]))
                continue
            known = SECTIONS[name]
            for key in self._keys_of(name) if known is not None else ():
                if key not in (known or ()):
                    self.problem(f"{name}.{key}", _unknown_key(key, name))

    def text(self, key: str, rule: Callable[[str], str | None]) -> str | None:
        """Return the string at `section.key`; None when absent or wrong. `rule` returns what is wrong with it."""
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.problem(key, f"must be a string, not {_shown(value)}; put it in double quotes")
            return None
        wrong = "must not be empty" if not value.strip() else _control_problem(value) or rule(value)
        if wrong:
            self.problem(key, wrong)
            return None
        return value

    def whole(self, key: str, rule: Callable[[int], str | None]) -> int | None:
        """Return the integer at `section.key`; None when absent or wrong."""
        value = self._value(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(key, f"must be a whole number, not {_shown(value)}")
            return None
        wrong = rule(value)
        if wrong:
            self.problem(key, wrong)
            return None
        return value

    def number(self, key: str, rule: Callable[[float], str | None]) -> float | None:
        """Return the finite number at `section.key`; None when absent or wrong."""
        value = self._value(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.problem(key, f"must be a number, not {_shown(value)}")
            return None
        finite = _finite(value)
        wrong = f"must be a finite number, not {_shown(value)}" if finite is None else rule(finite)
        if wrong:
            self.problem(key, wrong)
            return None
        return finite

    def env(self) -> dict[str, str]:
        """Return [env] sorted by name, without the entries that are wrong (which are noted)."""
        found: dict[str, str] = {}
        for name, value in (self.section("env") or {}).items():
            wrong = _env_problem(name, value)
            if wrong:
                self.problem(f"env.{name}", wrong)
            else:
                found[name] = cast("str", value)
        return dict(sorted(found.items()))

    def required_secrets(self) -> tuple[str, ...]:
        """Return the names of secrets.required in their order; what is wrong is noted."""
        value = self._value("secrets.required")
        if not isinstance(value, list):
            self.problem("secrets.required", f"must be a list of names, not {_shown(value)}")
            return ()
        env = set(self._keys_of("env"))
        names: list[str] = []
        for entry in cast("list[object]", value):
            wrong = _secret_problem(entry, names, env)
            if wrong:
                self.problem("secrets.required", wrong)
            else:
                names.append(cast("str", entry))
        return tuple(names)

    def advanced(self) -> JsonObject:
        """Return [advanced] as JSON: dates as ISO text."""
        found: JsonObject = {}
        for key, value in (self.section("advanced") or {}).items():
            try:
                found[key] = _json_of(value)
            except ValueError as error:
                self.problem(f"advanced.{key}", str(error))
        return found

    def missing_sections(self) -> None:
        """Note the required sections and keys that are not there, all of them."""
        experiment = self._table.get("experiment")
        if experiment is None:
            self.problem("experiment", f"missing section [experiment] with {', '.join(REQUIRED_EXPERIMENT)}")
        elif isinstance(experiment, Mapping):
            for key in REQUIRED_EXPERIMENT:
                if key not in experiment:
                    self.problem(f"experiment.{key}", "missing; it is required")
        if self._table.get("secrets") is None:
            self.problem(
                "secrets",
                "missing section [secrets]; when the rollout needs no secret, add these two lines at the end "
                "of the file: `[secrets]` and `required = []`",
            )
        elif isinstance(self._table["secrets"], Mapping) and "required" not in self._keys_of("secrets"):
            self.problem("secrets.required", "missing; write `required = []` when no secret is needed")

    def _value(self, key: str) -> object:
        section, _, name = key.partition(".")
        value = self._table.get(section)
        return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None


def rollout_rule(value: str) -> str | None:
    """Say what is wrong with experiment.rollout: it is one folder name under rollouts/."""
    if "/" in value or "\\" in value or value in {".", ".."}:
        return f"must be the name of a folder under rollouts/, not a path: {_shown(value)}"
    return None


def entrypoint_rule(value: str) -> str | None:
    """Say what is wrong with experiment.entrypoint: it is a file inside the rollout's folder."""
    if "\\" in value:
        return f"must use forward slashes: {_shown(value)}"
    if value.startswith("/") or re.match(r"[A-Za-z]:", value):
        return f"must be relative to the rollout's folder: {_shown(value)}"
    depth = 0
    for part in value.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return f"must stay inside the rollout's folder: {_shown(value)}"
    return None if depth > 0 else f"must name a file, such as main.py: {_shown(value)}"


def model_rule(value: str) -> str | None:
    """Say what is wrong with experiment.model_path as text; whether the model exists the preflight tells."""
    return "must not hold spaces" if re.search(r"\s", value) else None


def dataset_rule(value: str) -> str | None:
    """Say what is wrong with experiment.dataset: a name, never a path."""
    if "/" in value or "\\" in value or value in {".", ".."}:
        return f"must be a dataset's name, not a path: {_shown(value)}; give a local file with --dataset-file"
    return None


def branch_rule(value: str) -> str | None:
    """Say what is wrong with experiment.branch."""
    return "must not hold spaces" if re.search(r"\s", value) else None


def commit_rule(value: str) -> str | None:
    """Say what is wrong with experiment.commit_sha."""
    return None if _COMMIT.fullmatch(value) else f"must be 7 to 40 hex characters, not {_shown(value)}"


def n_rule(value: int) -> str | None:
    """Say what is wrong with evaluation.n."""
    if value < 1:
        return f"must be at least 1, not {value}"
    return None if value <= LARGEST_N else f"must be at most {LARGEST_N}, not {value}"


def positive_rule(value: float) -> str | None:
    """Say what is wrong with a time-out."""
    return None if value > 0 else f"must be more than 0 seconds, not {value:g}"


def any_rule(_: object) -> str | None:
    """Find nothing wrong."""
    return None


def _unknown_section(name: str, value: object) -> str:
    if not isinstance(value, Mapping):
        homes = [section for section, keys in SECTIONS.items() if name in (keys or ())]
        if homes:
            return f"must stand in a section; move it below [{homes[0]}]"
        return f"unknown key outside of any section{nearest(name, _every_key())}"
    return f"unknown section{nearest(name, SECTIONS) or '; known are ' + ', '.join(SECTIONS)}"


def _unknown_key(key: str, section: str) -> str:
    homes = [other for other, keys in SECTIONS.items() if other != section and key in (keys or ())]
    if homes:
        return f"unknown key; it belongs in [{homes[0]}]"
    known = SECTIONS[section] or ()
    return f"unknown key{nearest(key, known) or '; known are ' + ', '.join(known)}"


def _every_key() -> list[str]:
    return [key for keys in SECTIONS.values() for key in keys or ()]


def nearest(name: str, known: Iterable[str]) -> str:
    """Ask whether the known name most like `name` was meant; empty where none is like it."""
    parts = set(name.lower().split("_"))
    close = [key for key in known if len(parts) > 1 and parts <= set(key.split("_"))]
    close += difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _env_problem(name: str, value: object) -> str | None:
    if not _ENV_NAME.fullmatch(name):
        return "must be named with capitals, digits and underscores, such as LOG_LEVEL"
    if name.startswith(_OWN_PREFIX):
        return f"names that begin {_OWN_PREFIX} are the runner's own"
    if not isinstance(value, str):
        return f"must be a string, not {_shown(value)}; put it in double quotes"
    return "must not hold a NUL character" if "\0" in value else None


def _secret_problem(entry: object, before: list[str], env: set[str]) -> str | None:
    # Only something shaped like a name is shown: a value pasted here by mistake must not be.
    if not isinstance(entry, str):
        return f"every entry must be a string, not a {type(entry).__name__}"
    if not _SECRET_NAME.fullmatch(entry):
        return (
            "every entry must be the name of a variable in capitals, such as OPENAI_API_KEY, never its value"
        )
    if entry in before:
        return f"{entry} is listed twice"
    return (
        f"{entry} also stands in [env]; a secret's value never stands in this file" if entry in env else None
    )


def _control_problem(value: str) -> str | None:
    return "must not hold control characters" if _CONTROL.search(value) else None


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _json_of(value: object) -> JsonValue:
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {value}")
    if isinstance(value, Mapping):
        return {key: _json_of(part) for key, part in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list):
        return [_json_of(part) for part in cast("list[object]", value)]
    return cast("str | int | float | bool", value)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a table"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
