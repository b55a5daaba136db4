"""What was observed, and what it comes to: medians over rounds, differences to no proxy, ratios within one run.

The book is written to disk after every observation, so that a run that fails half-way leaves what it has.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from benchmarks.machine import describe, load_average

HERE = Path(__file__).resolve().parent

Summary = dict[str, dict[str, dict[str, float]]]
"""measure -> contestant -> name of a value -> its median."""

NOISY_PCT = 8.0
"""A measure is noisy when others used more than this share of one core meanwhile."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One measure of one contestant in one round; `foreign_pct` is what others used of one core meanwhile."""

    measure: str
    contestant: str
    round: int
    values: Mapping[str, float]
    foreign_pct: float = 0.0
    at: float = 0.0
    load: float = 0.0


@dataclass(slots=True)
class Book:
    """Everything one run of the benchmark found; `head` says where, when and with what."""

    path: Path
    head: dict[str, object]
    observations: list[Observation] = field(default_factory=list[Observation])
    notes: list[str] = field(default_factory=list[str])

    def observe(
        self,
        measure: str,
        contestant: str,
        round_: int,
        values: Mapping[str, float],
        foreign_pct: float = 0.0,
    ) -> None:
        """Keep one observation, on disk too."""
        self.observations.append(
            Observation(measure, contestant, round_, dict(values), foreign_pct, time.time(), load_average())
        )
        self.save()

    def note(self, text: str) -> None:
        """Keep a note, once; it is published, so it names no folder of this machine."""
        text = text.replace(f"{HERE.parent}/", "")
        if text not in self.notes:
            self.notes.append(text)
            self.save()

    def save(self) -> None:
        """Write the whole book; the file is always complete."""
        document = {
            **self.head,
            "notes": self.notes,
            "summary": summarise(self.observations),
            "observations": [asdict(observation) for observation in self.observations],
        }
        whole = self.path.with_suffix(".part")
        whole.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
        whole.replace(self.path)

    @property
    def summary(self) -> Summary:
        """Medians over the rounds so far."""
        return summarise(self.observations)

    @property
    def noisy(self) -> list[Observation]:
        """Observations during which others worked on this machine."""
        return [one for one in self.observations if one.foreign_pct > NOISY_PCT]


def new_book(form: str) -> Book:
    """An empty book about this machine and moment."""
    folder = HERE / ".results"
    folder.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    head: dict[str, object] = {
        "started": f"{now:%Y-%m-%d %H:%M} UTC",
        "form": form,
        "machine": describe(),
        "versions": {},
        "titles": {},
        "quiet": False,
    }
    return Book(folder / f"{now:%Y%m%dT%H%M%S}-{form}.json", head)


def read_book(path: Path) -> Book:
    """A book that an earlier run wrote."""
    document = cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8")))
    observations = [Observation(**one) for one in document.pop("observations")]
    notes = document.pop("notes")
    document.pop("summary", None)
    return Book(path, document, observations, notes)


def summarise(observations: Iterable[Observation], against: str = "direct") -> Summary:
    """Medians of every value, with `added_*` for latencies of paced calls: what came on top of `against`.

    The difference is taken within a round, where both stand, and then the median of the differences.
    """
    kept = list(observations)
    values: dict[tuple[str, str, str], list[float]] = {}
    for one in [*kept, *_added(kept, against)]:
        for name, value in one.values.items():
            values.setdefault((one.measure, one.contestant, name), []).append(value)
    summary: Summary = {}
    for (measure, contestant, name), found in values.items():
        summary.setdefault(measure, {}).setdefault(contestant, {})[name] = statistics.median(found)
    return summary


def _added(observations: Sequence[Observation], against: str) -> list[Observation]:
    bare = {(one.measure, one.round): one for one in observations if one.contestant == against}
    added: list[Observation] = []
    for one in observations:
        base = bare.get((one.measure, one.round))
        if base is None or one.contestant == against:
            continue
        values = {
            f"added_{name}": one.values[name] - base.values[name]
            for name in ("p50_ms", "p99_ms")
            if name in one.values and name in base.values
        }
        added.append(Observation(one.measure, one.contestant, one.round, values))
    return added


def value_of(summary: Summary, measure: str, contestant: str, name: str) -> float | None:
    """One median; None where it was not measured."""
    return summary.get(measure, {}).get(contestant, {}).get(name)


def ratio(summary: Summary, measure: str, name: str, contestant: str, against: str) -> float | None:
    """A contestant's median as a multiple of another's of the same run; None where one is missing or zero."""
    ours = value_of(summary, measure, contestant, name)
    theirs = value_of(summary, measure, against, name)
    return ours / theirs if ours is not None and theirs else None
