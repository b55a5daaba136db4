from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from osmosis_bridge.upstream import TransportError
from osmosis_runner import preflight
from osmosis_runner.faults import PreflightError
from osmosis_runner.preflight import BODY, check_model, judge, probe
from osmosis_runner.sidecar import Sidecar
from osmosis_runner.web import Answer
from runner_fakes import GOOD, FakeSidecar, Step, failed


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "RETRY_DELAYS_S", (0.0, 0.0))


def check(*steps: Step) -> tuple[str | None, FakeSidecar]:
    sidecar = FakeSidecar(*steps)
    return asyncio.run(check_model(cast("Sidecar", sidecar), "openai/x")), sidecar


def test_a_model_that_answers_is_asked_once_under_an_id_that_is_closed() -> None:
    warning, sidecar = check(GOOD)
    assert warning is None
    assert sidecar.asked == sidecar.closed
    assert sidecar.asked[0].startswith("preflight-")
    assert json.loads(BODY)["max_tokens"] == 16


def test_a_rate_limit_is_a_warning() -> None:
    warning, _ = check(failed(429, "rate_limit_exceeded", "slow down"))
    assert warning == "openai/x limits the rate of calls at the moment: 429 slow down"


@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
def test_a_fault_that_may_pass_is_tried_again(status: int) -> None:
    warning, sidecar = check(failed(status), failed(status), GOOD)
    assert warning is None
    assert len(sidecar.asked) == 3


@pytest.mark.parametrize(
    ("answer", "tries"),
    [
        (failed(401, message="bad key"), 1),
        (failed(404), 1),
        (failed(400), 1),
        (failed(429, "insufficient_quota"), 1),
        (failed(502, "upstream_unreachable"), 1),
        (failed(503), 3),
        (Answer(502, [], b"<html>"), 3),
    ],
)
def test_a_model_that_does_not_answer_fails_with_its_own_words(answer: Answer, tries: int) -> None:
    sidecar = FakeSidecar(*[answer] * 3)
    with pytest.raises(PreflightError) as caught:
        asyncio.run(check_model(cast("Sidecar", sidecar), "openai/x"))
    assert len(sidecar.asked) == tries
    assert caught.value.message.startswith(f"openai/x does not answer: {answer.status}")
    assert caught.value.details["status"] == answer.status


@pytest.mark.parametrize(
    ("api_base", "words"),
    [
        ("http://127.0.0.1:19200/v1", "openai/x does not answer at http://127.0.0.1:19200: 502"),
        ("https://user:pass@models.corp/v1?key=k", "openai/x does not answer at https://models.corp: 502"),
        ("http://[::1]:8000", "openai/x does not answer at http://[::1]:8000: 502"),
        (None, "openai/x does not answer: 502"),
        ("http://x:nan", "openai/x does not answer: 502"),
    ],
)
def test_the_endpoint_that_the_user_gave_is_named_without_its_secrets(
    api_base: str | None, words: str
) -> None:
    sidecar = FakeSidecar(failed(502, "upstream_unreachable", "refused"))
    with pytest.raises(PreflightError) as caught:
        asyncio.run(check_model(cast("Sidecar", sidecar), "openai/x", api_base))
    assert caught.value.message == f"{words} refused"


def test_a_bridge_that_died_is_named() -> None:
    sidecar = FakeSidecar(TransportError("cut", "gone"))
    sidecar.child.exited.set()
    finding = asyncio.run(probe(cast("Sidecar", sidecar)))
    assert (finding.verdict, finding.text) == ("bad", "the process exited with code 1")


def test_an_endpoint_nobody_listens_at_is_down_and_not_busy() -> None:
    found: list[Any] = [judge(failed(502, "upstream_unreachable")).verdict, judge(failed(429)).verdict]
    assert found == ["down", "busy"]


def test_a_model_that_is_silent_is_asked_once_and_the_limit_and_the_way_round_it_are_named() -> None:
    sidecar = FakeSidecar(TransportError("timeout_total", "no whole reply"), GOOD)
    with pytest.raises(PreflightError, match=r"within 120 s.*--skip-preflight"):
        asyncio.run(check_model(cast("Sidecar", sidecar), "openai/x"))
    assert len(sidecar.asked) == 1


def test_all_tries_together_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "RETRY_DELAYS_S", (1000.0,))
    with pytest.raises(PreflightError):
        check(failed(503), GOOD)
