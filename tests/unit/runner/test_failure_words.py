from __future__ import annotations

from typing import get_args

import pytest

from osmosis_runner.failure_words import PLACES, failure_words
from osmosis_runner.journal_record import ErrorPhase


@pytest.mark.parametrize(
    ("kind", "phase", "words"),
    [
        ("agent_error", "agent", "agent failed"),
        ("agent_error", "grader", "grader failed"),
        ("validation_error", "grader", "grader failed (validation_error)"),
        ("timeout", "grader", "grader timed out"),
        ("provider_error", "provider", "model call failed"),
        ("server_lost", "server", "rollout server failed (server_lost)"),
        ("agent_error", None, "agent_error"),
        (None, "agent", "agent failed"),
        (None, None, "failed"),
    ],
)
def test_the_phase_says_what_broke_and_the_type_only_what_it_does_not(
    kind: str | None, phase: str | None, words: str
) -> None:
    assert failure_words(kind, phase) == words


def test_every_phase_has_its_words() -> None:
    assert set(PLACES) == set(get_args(ErrorPhase))
