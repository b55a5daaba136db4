from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from osmosis_bridge.upstream import TransportError
from osmosis_runner.protocol import (
    Admission,
    AdmissionRefused,
    Health,
    ResultReply,
    RolloutClient,
    RolloutInit,
    ServerLost,
)
from runner_fakes import ScriptedTransport, site

CUT = TransportError("cut", "gone")
REQUEST = RolloutInit("r1", [{"role": "user", "content": "hi"}], "http://x", "key")
PROMISE = {"rollout_id": "r1", "status": "queued", "polling_lease_token": "t0k"}
RUNNING = (200, {"rollout_id": "r1", "status": "running"})
DONE = (200, {"rollout_id": "r1", "status": "success", "sample": {"reward": 1, "messages": []}})


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(_seconds: float) -> None: ...

    monkeypatch.setattr("osmosis_runner.protocol.asyncio.sleep", at_once)


def client(*script: Any, headers: Any = ()) -> tuple[RolloutClient, ScriptedTransport]:
    there, transport = site(*script, headers=headers)
    return RolloutClient(there), transport


def admit(*script: Any) -> Admission:
    return asyncio.run(client(*script)[0].admit(REQUEST))


def result(*script: Any, lease_s: float = 120.0) -> ResultReply:
    admission = Admission("t0k", polling_lease_timeout_sec=lease_s)
    return asyncio.run(client(*script)[0].result("r1", admission))


def test_admission_sends_what_is_known_and_leaves_the_rest_out() -> None:
    speaking, transport = client((202, PROMISE))
    admission = asyncio.run(speaking.admit(REQUEST))
    assert admission.polling_lease_token == "t0k"
    sent = json.loads(transport.asked[0][3])
    assert sent["rollout_id"] == "r1"
    assert "label" not in sent


def test_a_full_server_is_asked_again() -> None:
    assert admit((429, {}), (429, {}), (202, PROMISE)).polling_lease_token == "t0k"


@pytest.mark.parametrize("status", [400, 401, 409, 422])
def test_a_refusal_is_the_requests_fault(status: int) -> None:
    with pytest.raises(AdmissionRefused, match="told you"):
        admit((status, {"detail": "told you"}))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"plain\n words", ": plain words"),
        ({"error": "broken"}, ": broken"),
        ({"other": 1}, ': {"other":1}'),
        ([1], ": [1]"),
        (
            {"detail": [{"loc": ["body", "label"], "msg": "must be text", "input": {"prompt": "private"}}]},
            ": body.label: must be text",
        ),
    ],
)
def test_a_refusal_is_told_in_few_words(body: Any, words: str) -> None:
    with pytest.raises(AdmissionRefused) as caught:
        admit((422, body))
    assert str(caught.value).endswith(words)


def test_a_server_of_the_protocol_before_is_recognised() -> None:
    missing = {"detail": [{"loc": ["body", "completion_callback_url"], "msg": "Field required", "input": {}}]}
    with pytest.raises(AdmissionRefused, match="take a newer osmosis-ai"):
        admit((422, missing))


@pytest.mark.parametrize("step", [(500, {}), (503, {}), CUT, (202, b"no json"), (202, {"status": "queued"})])
def test_anything_else_is_the_servers_and_is_not_tried_again(step: Any) -> None:
    with pytest.raises(ServerLost):
        admit(step)


def test_polling_goes_on_until_the_end() -> None:
    reply = result(RUNNING, RUNNING, DONE)
    assert reply.status == "success"
    assert reply.sample is not None
    assert reply.sample.reward == 1.0


def test_a_poll_carries_the_lease() -> None:
    speaking, transport = client(DONE)
    asyncio.run(speaking.result("r1", Admission("t0k")))
    _, path, headers, _ = transport.asked[0]
    assert path == b"/rollout/r1/result?wait=terminal"
    assert (b"x-osmosis-rollout-lease", b"t0k") in headers


@pytest.mark.parametrize(
    "script",
    [(CUT, DONE), (CUT, CUT, DONE), ((502, {}), (503, {}), (504, {}), DONE), (CUT, RUNNING, CUT, CUT, DONE)],
)
def test_passing_faults_of_a_poll_are_tried_again(script: Any) -> None:
    assert result(*script).status == "success"


@pytest.mark.parametrize(
    "script", [(CUT, CUT, CUT), ((503, {}),) * 7, ((404, {}),), ((403, {}),), ((200, b"x"),)]
)
def test_a_server_that_does_not_come_back_is_lost(script: Any) -> None:
    with pytest.raises(ServerLost):
        result(*script)


def test_no_try_is_made_beyond_the_lease() -> None:
    with pytest.raises(ServerLost):
        result(CUT, DONE, lease_s=0.05)


def test_a_reply_may_hold_less_or_more_than_is_known() -> None:
    reply = result((200, {"status": "failure", "err_message": "x", "err_category": "timeout", "new": [1]}))
    assert (reply.err_category, reply.sample) == ("timeout", None)


GRADING = (200, {"rollout_id": "r1", "status": "grading"})


def failure(**fields: Any) -> tuple[int, dict[str, Any]]:
    return 200, {"rollout_id": "r1", "status": "failure", "err_category": "agent_error", **fields}


@pytest.mark.parametrize(
    ("script", "phase"),
    [
        ((RUNNING, failure()), "workflow"),
        ((RUNNING, failure(sample={"messages": []})), "grader"),
        ((RUNNING, GRADING, failure()), "grader"),
        ((GRADING, failure(err_phase="workflow")), "workflow"),
        ((failure(err_category="lease_expired"),), None),
        ((failure(err_category=None),), None),
        ((RUNNING, GRADING, DONE), None),
    ],
)
def test_the_phase_of_a_failure_is_told_from_what_a_server_lets_see(script: Any, phase: str | None) -> None:
    assert result(*script).err_phase == phase


def test_what_a_record_does_not_need_stays_as_it_came() -> None:
    reply = result((200, {"status": "success", "sample": {"messages": [{"a": 1}], "metrics": {"b": 2}}}))
    assert reply.sample is not None
    assert (bytes(reply.sample.messages), bytes(reply.sample.metrics)) == (b'[{"a":1}]', b'{"b":2}')
    assert bytes(reply.sample.extra_fields) == b"null"


@pytest.mark.parametrize(
    ("body", "capacity"),
    [
        ({"status": "ok"}, None),
        ({"concurrency": {"max_concurrent": 4, "queued": 0}}, 4),
        ({"concurrency": {"max_concurrent": None}}, None),
        ({"max_queue_depth": 7, "concurrency": {"max_concurrent": 4}}, 7),
    ],
)
def test_capacity_is_read_wherever_a_server_says_it(body: Any, capacity: int | None) -> None:
    assert asyncio.run(client((200, body))[0].health()).capacity == capacity


def test_the_instance_may_be_named_in_a_header() -> None:
    speaking, _ = client((200, {"status": "ok"}), headers=[(b"x-osmosis-rollout-instance-id", b"inst")])
    assert asyncio.run(speaking.health()).instance_id == "inst"


def test_a_sandbox_that_cannot_reach_us_is_noticed() -> None:
    speaking, _ = client((200, {"chat_endpoint": {"requires_public_url": True}}))
    assert asyncio.run(speaking.health()).needs_public_url
    assert not Health().needs_public_url


def test_an_unhealthy_server_is_lost_with_its_words() -> None:
    with pytest.raises(ServerLost, match="not now"):
        asyncio.run(client((500, {"error": "not now"}))[0].health())


def test_cancelling_does_not_wait_for_a_server_that_is_gone() -> None:
    speaking, transport = client(CUT, (200, {}))
    asyncio.run(speaking.cancel(None))
    asyncio.run(speaking.cancel(["a"]))
    assert [json.loads(asked[3]) for asked in transport.asked] == [{"all": True}, {"ids": ["a"]}]
