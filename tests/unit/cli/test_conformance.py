"""`osmosis bridge conformance`: flags to a target, a report to words."""

from __future__ import annotations

import socket
from dataclasses import fields
from pathlib import Path

import pytest

from osmosis_bridge.conformance import CaseResult, Knobs, Report
from osmosis_bridge.conformance import run as running
from osmosis_bridge.conformance.run import NO_BEARER, unknown_knob
from osmosis_cli import conformance
from osmosis_cli.conformance import report_result
from osmosis_typed import Said, osmosis

PASSED = CaseResult("F1-x", "F", "Fields survive.", "passed")
FAILED = CaseResult("S4-reset", "S", "A cut stream is an error.", "failed", "an error event", "[DONE]")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Replaces the suite by one that keeps what it was asked for and finds one failure."""
    kept: list[dict[str, object]] = []

    async def suite(target: object, **asked_for: object) -> Report:
        kept.append({"target": target, **asked_for})
        return Report("http://127.0.0.1:1", (PASSED, FAILED), 1.5)

    monkeypatch.setattr(conformance, "run_suite", suite)
    return kept


def typed(*arguments: str, **environ: str) -> Said:
    command = ("bridge", "conformance", "--target", "http://127.0.0.1:1/v1/", "--upstream-port", "2")
    return osmosis(*command, *arguments, environ=environ)


def test_a_report_is_a_line_a_kind_and_the_failures() -> None:
    result = report_result(Report("http://x", (PASSED, FAILED), 1.5))
    assert (result.exit_code, result.status) == (1, "failed")
    assert result.rows == (
        ("F  fields reach the provider", "1 passed, 0 failed, 0 skipped"),
        ("S  streams: framing, errors, endings", "0 passed, 1 failed, 0 skipped"),
    )
    assert result.sections[0].lines == (
        "S4-reset: A cut stream is an error. | wanted an error event | seen [DONE]",
    )
    assert report_result(Report("http://x", (PASSED,), 1.5)).exit_code == 0


def test_what_was_skipped_is_told_with_its_reason_and_what_to_do() -> None:
    open_to_all = CaseResult("C-a", "C", "t", "skipped", seen=NO_BEARER)
    no_limit = CaseResult("C-b", "C", "t", "skipped", seen=unknown_knob("max_body"))
    foreign = CaseResult("C-c", "C", "t", "skipped", seen="needs the surface of osmosis bridge")
    section = report_result(Report("http://x", (open_to_all, no_limit, open_to_all, foreign), 1.5)).sections[
        0
    ]
    assert section.title == "Skipped cases"
    assert section.lines == (
        "2: needs the proxy's bearer; start the proxy with one and put it into the variable of --bearer-env",
        "1: needs to know the target's max body; tell it with --max-body-mb",
        "1: needs the surface of osmosis bridge",
    )


def test_every_knob_has_its_flag() -> None:
    assert {*conformance.KNOB_FLAGS} == {field.name for field in fields(Knobs)}


def test_the_target_is_what_was_typed(asked: list[dict[str, object]], tmp_path: Path) -> None:
    said = typed(
        "--max-body-mb",
        "2",
        "--upstream-model",
        "m-9",
        "--ledger",
        str(tmp_path / "l"),
        "--json",
        OSMOSIS_BRIDGE_TOKEN="canary-1234",
    )
    assert said.code == 1
    assert said.document["resource"]["failed"] == 1
    assert "canary" not in said.stdout + said.stderr
    target = asked[0]["target"]
    assert target.url == "http://127.0.0.1:1"  # type: ignore[attr-defined]
    assert target.bearer == "canary-1234"  # type: ignore[attr-defined]
    assert target.upstream_model == "m-9"  # type: ignore[attr-defined]
    assert target.knobs.max_body == 2 * 1024 * 1024  # type: ignore[attr-defined]
    assert asked[0]["upstream_port"] == 2


def test_cases_may_be_chosen(asked: list[dict[str, object]]) -> None:
    typed("--only", "S*")
    cases = asked[0]["cases"]
    assert cases
    assert all(case.id.startswith("S") for case in cases)  # type: ignore[attr-defined]
    assert typed("--only", "nothing*").code == 2


def test_a_target_that_is_no_url_is_a_usage_error() -> None:
    said = osmosis("bridge", "conformance", "--target", "localhost:1", "--upstream-port", "2")
    assert said.code == 2
    assert "http://127.0.0.1:8400" in said.stderr


def test_a_target_that_does_not_answer_is_an_error_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    monkeypatch.setattr(running, "STARTING", 0.2)
    said = osmosis(
        "bridge", "conformance", "--target", "http://127.0.0.1:9", "--upstream-port", port, "--json"
    )
    assert (said.code, said.error["error"]["code"]) == (1, "NETWORK")


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = osmosis("bridge", "conformance", "--target", "http://127.0.0.1:9", "--upstream-port", port)
    assert said.code == 1
    assert f"Port {port} cannot be served" in said.stderr
