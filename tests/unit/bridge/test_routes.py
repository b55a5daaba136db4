"""Every route that is not a call: what it answers, who may ask, and errors in the same shape."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from structlog.testing import CapturingLogger

from asgi_bridge import TOKEN, Served, error_of
from fakes import FOREVER, SSE, Answer, FakeLedger, FakeTransport, a_log, completion, request
from osmosis_bridge.bearers import rollout_bearer
from osmosis_bridge.errors import LedgerFailed
from osmosis_bridge.ledger import Trouble
from osmosis_bridge.transcripts import Transcripts

USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}
TOTALS = {
    "calls": 1, "tokens": 15, "max_context_tokens": 15, "prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 4,
    "calls_without_usage": 0,
}  # fmt: skip
MINE = rollout_bearer(TOKEN, "r-1")


def with_a_call() -> Served:
    served = Served(Answer([completion(usage=USAGE)]))
    assert served.ask("POST", "/v1/rollouts/r-1/chat/completions", content=request()).status_code == 200
    return served


def test_the_one_model_is_listed_for_whoever_holds_a_bearer() -> None:
    for path in ("/v1/models", "/v1/rollouts/r-1/models"):
        for bearer in (TOKEN, MINE):
            (model,) = Served().ask("GET", path, bearer=bearer).json()["data"]
            assert (model["id"], model["object"], model["owned_by"]) == (
                "osmosis-rollout",
                "model",
                "osmosis-bridge",
            )
            assert isinstance(model["created"], int)


@pytest.mark.parametrize("name", ["osmosis-rollout", "gpt-4o-mini", "openrouter/a/b"])
def test_any_model_name_is_an_alias_of_the_one_model(name: str) -> None:
    for path in ("/v1/models", "/v1/rollouts/r-1/models"):
        assert Served().ask("GET", f"{path}/{name}").json()["id"] == name


def test_the_live_totals_of_a_rollout_are_told_to_the_run_and_to_that_rollout() -> None:
    served = with_a_call()
    for bearer in (TOKEN, MINE):
        found = served.ask("GET", "/v1/rollouts/r-1/usage", bearer=bearer).json()
        assert found == {"rollout_id": "r-1", **TOTALS}


def test_a_rollout_without_calls_has_no_tokens_rather_than_zero() -> None:
    found = Served().ask("GET", "/v1/rollouts/r-9/usage").json()
    assert found == {"rollout_id": "r-9", "calls": 0, "calls_without_usage": 0}


def test_the_totals_of_another_rollout_are_not_told() -> None:
    response = Served().ask("GET", "/v1/rollouts/r-2/usage", bearer=MINE)
    assert (response.status_code, error_of(response)["type"]) == (403, "permission_error")


def test_the_totals_of_the_whole_bridge_count_its_rollouts() -> None:
    served = with_a_call()
    assert served.ask("GET", "/usage").json() == {**TOTALS, "rollouts": 1}


def test_closing_a_rollout_answers_its_totals_once_they_are_on_disk() -> None:
    served = with_a_call()
    for count in (1, 2):
        assert served.ask("POST", "/v1/rollouts/r-1/close").json() == {"rollout_id": "r-1", **TOTALS}
        assert served.ledger.syncs == count
    assert served.ask("GET", "/v1/rollouts/r-1/usage").json()["calls"] == 1


def test_closing_waits_for_calls_that_are_about_to_end() -> None:
    async def main() -> None:
        served = Served(Answer([FOREVER]))
        call = asyncio.ensure_future(
            served.send("POST", "/v1/rollouts/r-1/chat/completions", content=request())
        )
        while served.transport.steps < 2:
            await asyncio.sleep(0)
        closing = asyncio.ensure_future(served.send("POST", "/v1/rollouts/r-1/close"))
        await asyncio.sleep(0.05)
        assert not closing.done()
        call.cancel()
        response = await closing
        assert (response.json()["calls"], served.ledger.records[0]["status"]) == (1, "cancelled")

    asyncio.run(main())


def test_closing_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("osmosis_bridge.routes._STRAGGLERS_S", 0.05)

    async def main() -> None:
        served = Served(Answer([FOREVER]))
        call = asyncio.ensure_future(
            served.send("POST", "/v1/rollouts/r-1/chat/completions", content=request())
        )
        while served.transport.steps < 2:
            await asyncio.sleep(0)
        assert (await served.send("POST", "/v1/rollouts/r-1/close")).json()["calls"] == 0
        call.cancel()
        await asyncio.wait((call,))

    asyncio.run(main())


def test_a_rollout_whose_records_cannot_be_synced_is_a_500() -> None:
    class Unsynced(FakeLedger):
        async def sync(self) -> None:
            raise LedgerFailed("the ledger could not be synced", code="ledger_unavailable")

    response = Served(ledger=Unsynced()).ask("POST", "/v1/rollouts/r-1/close")
    assert (response.status_code, error_of(response)["code"]) == (500, "ledger_unavailable")


@pytest.mark.parametrize("rollout_id", ["a%20b", "-a", "x" * 129])
def test_a_hostile_rollout_id_is_refused(rollout_id: str) -> None:
    served = Served()
    for method, path in (
        ("POST", f"/v1/rollouts/{rollout_id}/close"),
        ("GET", f"/v1/rollouts/{rollout_id}/usage"),
    ):
        response = served.ask(method, path)
        assert (response.status_code, error_of(response)["code"]) == (400, "invalid_rollout_id")


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/rollouts/r-1/close"), ("GET", "/usage"), ("GET", "/metrics")]
)
def test_only_the_runs_own_bearer_may_close_and_see_the_whole(method: str, path: str) -> None:
    served = Served()
    response = served.ask(method, path, bearer=MINE)
    assert (response.status_code, error_of(response)["code"]) == (403, "forbidden")
    assert served.ask(method, path, bearer=None).status_code == 401
    assert not served.bridge.accounts.is_closed("r-1")


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/x", "/v1/rollouts/r-1/models", "/v1/rollouts/r-1/usage"]
)
def test_without_a_bearer_nothing_is_told(path: str) -> None:
    response = Served().ask("GET", path, bearer=None)
    assert (response.status_code, error_of(response)["code"]) == (401, "invalid_bearer")
    assert response.headers["www-authenticate"] == "Bearer"


def test_health_is_open_to_all() -> None:
    assert Served().ask("GET", "/health", bearer=None).json() == {"status": "ok"}
    assert Served().ask("HEAD", "/health", bearer=None).status_code == 200


def test_metrics_are_prometheus_text() -> None:
    response = with_a_call().ask("GET", "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'osmosis_bridge_calls_total{status="ok"} 1\n' in response.text
    assert "osmosis_bridge_tokens_total 15\n" in response.text


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/v1", "/v1/", "/usage/", "/health/", "/v1/chat/completions/", "/%00", "/x%0Ay"]
)
def test_a_path_that_is_none_is_a_404(path: str) -> None:
    response = Served().ask("GET", path)
    assert (response.status_code, error_of(response)["type"]) == (404, "not_found_error")


def test_a_path_is_not_repeated_at_length_nor_with_a_secret_in_it() -> None:
    message = error_of(Served().ask("GET", "/the-secret-key/" + "x" * 5000))["message"]
    assert "the-secret-key" not in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", {"POST"}),
        ("PUT", "/v1/rollouts/r-1/chat/completions", {"POST"}),
        ("GET", "/v1/rollouts/r-1/close", {"POST"}),
        ("POST", "/usage", {"GET", "HEAD"}),
        ("DELETE", "/v1/models", {"GET", "HEAD"}),
        ("GET", "/v1/v1/messages", {"POST"}),
    ],
)
def test_another_method_is_a_405_that_says_which_is_right(method: str, path: str, allowed: set[str]) -> None:
    response = Served().ask(method, path)
    assert response.status_code == 405
    assert ("messages" in path) or error_of(response)["code"] == "method_not_allowed"
    assert set(response.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/health", "GET, HEAD, OPTIONS"), ("/v1/rollouts/r-1/messages", "POST, OPTIONS"), ("/nothing", None)],
)
def test_options_are_told_and_no_page_is_granted_anything(path: str, allowed: str | None) -> None:
    response = Served().ask("OPTIONS", path, bearer=None, headers={"access-control-request-method": "POST"})
    assert response.status_code == (404 if allowed is None else 204)
    assert response.headers.get("allow") == allowed
    assert not [name for name in response.headers if name.startswith("access-control-")]
    assert Served().ask("OPTIONS", path, headers={"origin": "https://evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("path", "status"), [("/health", 200), ("/v1/models", 200), ("/v1/messages", 405), ("/nothing", 404)]
)
def test_head_is_answered_as_get_is(path: str, status: int) -> None:
    head, get = (Served().ask(method, path) for method in ("HEAD", "GET"))
    assert head.status_code == get.status_code == status
    assert head.headers["content-type"] == get.headers["content-type"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("prefix", ["/v1", "/v1/v1", "/v1/rollouts/r-1", "/v1/rollouts/r-1/v1"])
@pytest.mark.parametrize(
    "rest", ["/messages", "/messages/count_tokens", "/messages/batches", "/messages/batches/b/results"]
)
def test_around_messages_errors_have_anthropics_shape(method: str, prefix: str, rest: str) -> None:
    for bearer, host in ((TOKEN, "127.0.0.1"), ("wrong", "127.0.0.1"), (TOKEN, "evil.example")):
        response = Served().ask(method, prefix + rest, bearer=bearer, headers={"host": host}, content=b"{}")
        said = response.json()
        assert 400 <= response.status_code < 500
        assert (said["type"], said["error"].keys()) == ("error", {"type", "message"})
        assert response.headers["x-osmosis-error-origin"] == "bridge"


def test_a_client_of_anthropics_reads_errors_of_any_route_in_its_shape() -> None:
    response = Served().ask("POST", "/v1/files", headers={"anthropic-version": "2023-06-01"})
    assert response.json()["error"]["type"] == "not_found_error"
    assert response.json()["type"] == "error"


def test_a_fault_within_a_route_is_one_500_without_details() -> None:
    kept = CapturingLogger()
    served = Served(transport=FakeTransport(), log=a_log(kept))
    served.bridge.accounts = None  # pyright: ignore[reportAttributeAccessIssue]
    response = served.ask("GET", "/usage")
    assert (response.status_code, error_of(response)["code"]) == (500, "internal_error")
    assert "NoneType" not in response.text
    assert any("NoneType" in repr(call) for call in kept.calls)


def test_a_call_never_comes_to_these_routes() -> None:
    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(Served().rest)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.post("/v1/chat/completions")

    response = asyncio.run(main())
    assert (response.status_code, error_of(response)["code"]) == (500, None)


def chunk(content: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def keeping(*answers: Answer, **fields: Any) -> Served:
    served = Served(*answers, **fields)
    served.bridge.recorder = replace(served.bridge.recorder, transcripts=Transcripts())
    return served


def test_what_an_open_rollout_said_last_is_told_to_the_run_alone() -> None:
    served = keeping(Answer([completion("it is 4")]))
    served.ask("POST", "/v1/rollouts/r-1/chat/completions", content=request())
    told = served.ask("GET", "/v1/rollouts/r-1/transcript").json()
    assert [message["role"] for message in told["messages"]] == ["user", "assistant"]
    assert told["messages"][1]["content"] == "it is 4"
    assert told["complete"] is True
    refused = served.ask("GET", "/v1/rollouts/r-1/transcript", bearer=MINE)
    assert (refused.status_code, error_of(refused)["code"]) == (403, "forbidden")


def test_a_call_that_failed_leaves_its_messages_without_an_answer() -> None:
    served = keeping(Answer([b'{"error":{"message":"busy"}}'], status=429))
    served.ask("POST", "/v1/rollouts/r-1/chat/completions", content=request())
    told = served.ask("GET", "/v1/rollouts/r-1/transcript").json()
    assert [message["role"] for message in told["messages"]] == ["user"]
    assert told["complete"] is False


def test_a_stream_is_told_as_the_client_got_it() -> None:
    served = keeping(Answer([chunk("Hel"), chunk("lo", "stop"), DONE], headers=SSE))
    served.ask("POST", "/v1/rollouts/r-1/chat/completions", content=request(stream=True))
    told = served.ask("GET", "/v1/rollouts/r-1/transcript").json()
    assert told["messages"][-1] == {"role": "assistant", "content": "Hello"}
    assert told["complete"] is True


def test_a_secret_in_a_transcript_is_not_told() -> None:
    served = keeping()
    body = request(messages=[{"role": "user", "content": "it is the-secret-key"}])
    served.ask("POST", "/v1/rollouts/r-1/chat/completions", content=body)
    assert "the-secret-key" not in served.ask("GET", "/v1/rollouts/r-1/transcript").text


def test_closing_a_rollout_forgets_what_it_said() -> None:
    served = keeping()
    served.ask("POST", "/v1/rollouts/r-1/chat/completions", content=request())
    served.ask("POST", "/v1/rollouts/r-1/close")
    told = served.ask("GET", "/v1/rollouts/r-1/transcript").json()
    assert told == {"messages": [], "complete": False}


def test_without_keep_transcripts_there_are_none() -> None:
    refused = with_a_call().ask("GET", "/v1/rollouts/r-1/transcript")
    assert (refused.status_code, error_of(refused)["code"]) == (404, "no_transcripts")


def test_totals_are_told_once_their_records_are_kept() -> None:
    served = Served(ledger=FakeLedger(fail_at=1))
    assert served.ask("POST", "/v1/rollouts/r-1/chat/completions", content=request()).status_code == 500
    refused = served.ask("POST", "/v1/rollouts/r-1/close")
    assert (refused.status_code, error_of(refused)["code"]) == (503, "ledger_unavailable")
    served.ledger.mend()
    assert served.ask("POST", "/v1/rollouts/r-1/close").json()["calls"] == 1


def test_a_bridge_whose_ledger_fails_is_not_healthy_and_says_why_without_the_files_name() -> None:
    served = Served()
    assert served.ask("GET", "/health", bearer=None).json() == {"status": "ok"}
    served.ledger.trouble = Trouble("/private/calls.jsonl", "cannot be written: Read-only file system", "x")
    response = served.ask("GET", "/health", bearer=None)
    assert response.status_code == 503
    assert response.json() == {
        "status": "failing", "reason": "the ledger cannot be written: Read-only file system",
    }  # fmt: skip
