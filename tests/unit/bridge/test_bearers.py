"""Bearers: who a header speaks for, and that no rollout speaks for another."""

from __future__ import annotations

import pytest

from osmosis_bridge.bearers import RUN, Caller, identify, rollout_bearer, valid_rollout_id

TOKEN = "run-token-0123456789"


def header(bearer: str) -> bytes:
    return b"Bearer " + bearer.encode()


def test_the_runs_bearer_speaks_for_the_run() -> None:
    assert identify(header(TOKEN), TOKEN) == RUN == Caller("run", None)


def test_a_rollouts_bearer_speaks_for_that_rollout() -> None:
    assert identify(header(rollout_bearer(TOKEN, "r-1.a_B")), TOKEN) == Caller("rollout", "r-1.a_B")


def test_a_rollouts_bearer_carries_its_id_and_nothing_of_the_token() -> None:
    bearer = rollout_bearer(TOKEN, "r-1")
    assert bearer.startswith("orb-r-1.")
    assert TOKEN not in bearer
    assert rollout_bearer(TOKEN, "r-1") == bearer
    assert rollout_bearer(TOKEN, "r-2")[-40:] != bearer[-40:]


@pytest.mark.parametrize("scheme", [b"bearer ", b"BEARER ", b"Bearer   "])
def test_the_scheme_is_read_in_any_case_and_spaces_are_passed_over(scheme: bytes) -> None:
    assert identify(scheme + TOKEN.encode() + b" ", TOKEN) == RUN


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"Bearer", b"Bearer ", b"Basic " + TOKEN.encode(), TOKEN.encode(),
        b"Bearer " + TOKEN.encode() + b"x",
        b"Bearer " + TOKEN[:-1].encode(), b"Bearer \xff\xfe", b"Bearer orb-", b"Bearer orb-.", b"Bearer orb-r-1.",
        b"Bearer orb-r-1", b"Bearer orb-r-1." + b"0" * 40, b"Bearer orb-../x." + b"0" * 40,
    ],
)  # fmt: skip
def test_anything_else_proves_nothing(value: bytes | None) -> None:
    assert identify(value, TOKEN) is None


def test_a_bearer_of_one_rollout_or_run_is_worth_nothing_elsewhere() -> None:
    bearer = rollout_bearer(TOKEN, "r-1")
    assert identify(header(bearer.replace("r-1", "r-2")), TOKEN) is None
    assert identify(header(bearer), "another-run-token") is None
    assert identify(header(bearer.removeprefix("orb-")), TOKEN) is None
    assert identify(header(bearer[:-1]), TOKEN) is None


@pytest.mark.parametrize("rollout_id", ["a", "0", "r-1", "row_1.run_2", "A" * 128, "a..b", "9-"])
def test_a_rollout_id_is_one_safe_path_segment(rollout_id: str) -> None:
    assert valid_rollout_id(rollout_id)


@pytest.mark.parametrize(
    "rollout_id",
    ["", ".", "..", "-a", "_a", "a/b", "a b", "a\n", "a\x00", "ä", "A" * 129, "a%2fb", "../x", "a?b"],
)
def test_hostile_rollout_ids_are_refused_and_get_no_bearer(rollout_id: str) -> None:
    assert not valid_rollout_id(rollout_id)
    with pytest.raises(ValueError, match="not a rollout id"):
        rollout_bearer(TOKEN, rollout_id)
