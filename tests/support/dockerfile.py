"""Reads a Dockerfile: its stages, and their instructions with continued lines joined; runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, e.g. `RUN` and everything that follows it."""

    word: str
    rest: str

    def listed(self) -> list[str]:
        """The arguments of the exec form, `["osmosis", "bridge"]`; `CMD` before them (HEALTHCHECK) is passed over."""
        return json.loads(self.rest[self.rest.index("[") :])


@dataclass(frozen=True, slots=True)
class Stage:
    """What stands between one FROM and the next."""

    base: str
    name: str
    steps: tuple[Step, ...]

    def all(self, word: str) -> list[Step]:
        return [step for step in self.steps if step.word == word]

    def environment(self) -> dict[str, str]:
        """The pairs of its ENV and ARG instructions, in order, values without quotes."""
        pairs = (
            re.findall(r'(\w+)=("[^"]*"|\S*)', step.rest)
            for step in self.steps
            if step.word in ("ENV", "ARG")
        )
        return {name: value.strip('"') for found in pairs for name, value in found}


def read(text: str) -> list[Stage]:
    """The stages of a Dockerfile's text."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    steps = [Step(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]
    return list(_stages(steps))


def _stages(steps: Iterable[Step]) -> Iterable[Stage]:
    base, name, found = "", "", []
    for step in steps:
        if step.word != "FROM":
            found.append(step)
            continue
        if base:
            yield Stage(base, name, tuple(found))
        base, _, name = step.rest.partition(" AS ")
        found = []
    yield Stage(base, name, tuple(found))
