"""Names of runs: the rule for given ones, those that were meant, and generated ones (`quiet-otter-07`). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from random import Random

from osmosis_runner.errors import RunDirError

LONGEST_NAME = 96
TRIES = 100

ADJECTIVES = (
    "amber", "brisk", "calm", "candid", "clever", "copper", "crisp", "dapper", "deft", "eager",
    "early", "fabled", "fleet", "fond", "frosty", "gentle", "glad", "golden", "hardy", "hazel",
    "humble", "ivory", "jolly", "keen", "lively", "lucid", "mellow", "merry", "nimble", "noble",
    "patient", "plucky", "quiet", "rapid", "rustic", "silver", "steady", "sunny", "vivid", "witty",
)  # fmt: skip

ANIMALS = (
    "alpaca", "badger", "beaver", "bison", "bobcat", "caribou", "condor", "cormorant", "coyote", "dingo",
    "dolphin", "egret", "ermine", "falcon", "ferret", "gannet", "gazelle", "gecko", "heron", "ibex",
    "jackdaw", "kestrel", "lemur", "lynx", "magpie", "marmot", "marten", "newt", "ocelot", "osprey",
    "otter", "petrel", "plover", "puffin", "quokka", "raven", "salmon", "tapir", "walrus", "wombat",
)  # fmt: skip

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def check_run_name(name: str) -> str:
    """Return `name` if a run may be called so; raises `RunDirError` saying which rule it breaks."""
    if not name:
        raise RunDirError("the run's name is empty; give one such as my-run-1", {"name": name})
    if len(name) > LONGEST_NAME:
        raise RunDirError(
            f"the run's name has {len(name)} characters; at most {LONGEST_NAME} are allowed", {"name": name}
        )
    if not _NAME.fullmatch(name):
        raise RunDirError(
            f"{name!r} cannot be a run's name; begin with a letter or a digit and go on with letters, digits, "
            "'.', '_' and '-'",
            {"name": name},
        )
    return name


def nearest_first(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names, those most like `name` first."""
    likeness = {other: SequenceMatcher(None, name.lower(), other.lower()).ratio() for other in known}
    return sorted(likeness, key=lambda other: (-likeness[other], other))


def generate_run_name(random: Random, taken: Callable[[str], bool]) -> str:
    """Return an unused `adjective-animal-NN`; raises `RunDirError` after 100 names that are taken."""
    for _ in range(TRIES):
        name = f"{random.choice(ADJECTIVES)}-{random.choice(ANIMALS)}-{random.randrange(100):02d}"
        if not taken(name):
            return name
    raise RunDirError("no generated name is free; choose one with --name")
