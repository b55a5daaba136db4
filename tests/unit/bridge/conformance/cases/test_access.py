"""The cases of access catch a proxy that opens to the wrong bearer."""

from __future__ import annotations

import pytest

from mini_proxy import Faults, failed, judged

DOORS = ("C-no-bearer", "C-wrong-bearer", "C-basic", "C-longer-bearer", "C-latin-bearer")


def test_a_proxy_that_asks_for_its_bearer_passes() -> None:
    assert failed(*DOORS) == []


def test_an_open_proxy_is_caught() -> None:
    assert failed(*DOORS, faults=Faults(open_to_all=True)) == sorted(DOORS)


def test_a_scheme_read_by_its_letters_is_caught() -> None:
    assert failed("C-scheme-case") == ["C-scheme-case"]


@pytest.mark.parametrize("case_id", ["C-closed", "C-id-dots", "C-host-evil", "C-404", "C-surface"])
def test_our_own_surface_is_not_asked_of_others(case_id: str) -> None:
    assert judged(case_id)[case_id].result == "skipped"
