"""`osmosis bridge bearer`: one line that a shell can take, or an error with what to do."""

from __future__ import annotations

import pytest

from osmosis_bridge.bearers import Caller, identify
from osmosis_typed import osmosis

TOKEN = "run-token-0123456789"
ENVIRON = {"OSMOSIS_BRIDGE_TOKEN": TOKEN}


@pytest.mark.parametrize("flags", [[], ["--plain"]])
def test_the_bearer_stands_alone_and_is_good_for_its_rollout(flags: list[str]) -> None:
    done = osmosis(*flags, "bridge", "bearer", "row-7.run_0", environ=ENVIRON)
    assert (done.code, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert identify(b"Bearer " + done.stdout.strip().encode(), TOKEN) == Caller("rollout", "row-7.run_0")
    assert TOKEN not in done.stdout


def test_for_programs_it_is_one_document() -> None:
    done = osmosis("--json", "bridge", "bearer", "r-1", environ=ENVIRON)
    resource = done.document["resource"]
    assert resource["rollout_id"] == "r-1"
    assert identify(b"Bearer " + resource["bearer"].encode(), TOKEN) == Caller("rollout", "r-1")


@pytest.mark.parametrize("environ", [{}, {"OSMOSIS_BRIDGE_TOKEN": ""}])
def test_without_the_runs_token_it_says_what_to_set(environ: dict[str, str]) -> None:
    done = osmosis("bridge", "bearer", "r-1", environ=environ)
    assert (done.code, done.stdout) == (1, "")
    assert "OSMOSIS_BRIDGE_TOKEN is not set" in done.stderr
    assert "what the bridge was started with" in done.stderr


def test_a_token_that_no_bridge_takes_and_an_unsafe_id_are_refused() -> None:
    short = osmosis("bridge", "bearer", "r-1", environ={"OSMOSIS_BRIDGE_TOKEN": "short"})
    assert (short.code, short.stdout) == (1, "")
    assert "at least 8" in short.stderr
    unsafe = osmosis("bridge", "bearer", "../x", environ=ENVIRON)
    assert (unsafe.code, unsafe.stdout) == (1, "")
    assert "'../x' is not a rollout id" in unsafe.stderr
