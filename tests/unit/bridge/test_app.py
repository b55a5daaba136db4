"""The ASGI application: who may come in, where a call belongs, what is too much, and errors in one shape."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest
from structlog.testing import CapturingLogger

from asgi_bridge import TOKEN, Served, error_of
from fakes import SSE, Answer, FakeTransport, a_log, completion, delta, request, sse
from osmosis_bridge.app import Gate, call_path, local_hosts
from osmosis_bridge.bearers import RUN, rollout_bearer
from osmosis_bridge.errors import Refused
from osmosis_bridge.redact import Redactor

CALL = "/v1/chat/completions"


def at(rollout_id: str) -> str:
    return f"/v1/rollouts/{rollout_id}/chat/completions"


# --- where a call belongs


@pytest.mark.parametrize(
    ("path", "bearer", "headers", "rollout_id"),
    [
        (CALL, TOKEN, {}, "default"),
        (CALL, TOKEN, {"x-osmosis-rollout-id": "r-9"}, "r-9"),
        (CALL, rollout_bearer(TOKEN, "r-1"), {}, "r-1"),
        (CALL, rollout_bearer(TOKEN, "r-1"), {"x-osmosis-rollout-id": "r-1"}, "r-1"),
        (at("r-1"), TOKEN, {}, "r-1"),
        (at("r-1"), TOKEN, {"x-osmosis-rollout-id": "r-9"}, "r-1"),
        (at("r-1"), rollout_bearer(TOKEN, "r-1"), {}, "r-1"),
    ],
)
def test_the_rollout_is_that_of_the_path_else_of_the_bearer_else_of_the_header_else_default(
    path: str, bearer: str, headers: dict[str, str], rollout_id: str
) -> None:
    served = Served()
    response = served.ask("POST", path, bearer=bearer, headers=headers, content=request())
    assert (response.status_code, response.json()["model"]) == (200, "m")
    assert served.ledger.records[0]["rollout_id"] == rollout_id


def test_calls_are_numbered_within_their_rollout_and_each_has_an_id_of_its_own() -> None:
    served = Served()
    ids = [
        served.ask("POST", at(name), content=request()).headers["x-osmosis-call-id"]
        for name in ("a", "b", "a")
    ]
    assert [(record["rollout_id"], record["seq"]) for record in served.ledger.records] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
    ]
    assert ids == [record["call_id"] for record in served.ledger.records]
    assert len(set(ids)) == 3


@pytest.mark.parametrize("header", ["../x", "a b", "", "a/b", "x" * 129, b"a\xc3\xa9"])
def test_a_hostile_rollout_id_is_refused(header: str | bytes) -> None:
    served = Served()
    response = served.ask("POST", CALL, headers={"x-osmosis-rollout-id": header}, content=request())
    assert (response.status_code, error_of(response)["code"]) == (400, "invalid_rollout_id")
    assert served.ledger.appends == 0


@pytest.mark.parametrize("rollout_id", ["..%2F..", "a%2Fb", "a%00b", "%20", "a%0Ab", "", "-a"])
def test_a_hostile_rollout_id_in_the_path_is_refused(rollout_id: str) -> None:
    response = Served().ask("POST", at(rollout_id), content=request())
    assert (response.status_code, error_of(response)["code"]) == (400, "invalid_rollout_id")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (CALL, ("chat", None)),
        (at("a"), ("chat", "a")),
        (at("a/b"), ("chat", "a/b")),
        (at(""), ("chat", "")),
        ("/v1/rollouts/chat/completions", ("completions", "chat")),
        ("/v1/rollouts/r-1/messages", ("messages", "r-1")),
        ("/v1/responses", ("responses", None)),
        ("/v1/embeddings", ("embeddings", None)),
        ("/v1/chat/completions/", (None, None)),
        ("/v1/completions", ("completions", None)),
        ("/chat/completions", (None, None)),
        ("/", (None, None)),
    ],
)
def test_the_path_of_a_call_tells_dialect_and_rollout(
    path: str, found: tuple[str | None, str | None]
) -> None:
    dialect, rollout_id = call_path(path)
    assert (dialect.name if dialect else None, rollout_id) == found


# --- who may come in


@pytest.mark.parametrize(
    "authorization", [None, "Bearer wrong", "Basic x", "Bearer", f"Bearer {TOKEN}x", "Bearer orb-r-1.x"]
)
def test_without_a_valid_bearer_a_call_is_401_and_leaves_no_record(authorization: str | None) -> None:
    served = Served()
    headers = {} if authorization is None else {"authorization": authorization}
    response = served.ask("POST", CALL, bearer=None, headers=headers, content=request())
    assert (response.status_code, error_of(response)["code"]) == (401, "invalid_bearer")
    assert error_of(response)["type"] == "authentication_error"
    assert response.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in response.text
    assert (served.ledger.appends, served.transport.sent) == (0, [])


def test_without_a_token_everybody_on_loopback_may_call() -> None:
    served = Served(token=None)
    assert served.ask("POST", CALL, bearer=None, content=request()).status_code == 200
    assert served.ask("POST", CALL, bearer="anything", content=request()).status_code == 200


@pytest.mark.parametrize(("path", "headers"), [(at("r-2"), {}), (CALL, {"x-osmosis-rollout-id": "r-2"})])
def test_a_rollouts_bearer_is_good_for_no_other_rollout(path: str, headers: dict[str, str]) -> None:
    served = Served()
    bearer = rollout_bearer(TOKEN, "r-1")
    response = served.ask("POST", path, bearer=bearer, headers=headers, content=request())
    assert (response.status_code, error_of(response)["type"]) == (403, "permission_error")
    assert served.ledger.appends == 0


def test_a_bearer_of_another_run_is_worth_nothing() -> None:
    response = Served().ask(
        "POST", CALL, bearer=rollout_bearer("another-run-token", "r-1"), content=request()
    )
    assert response.status_code == 401


def test_a_closed_rollout_takes_no_calls() -> None:
    served = Served()
    assert served.ask("POST", "/v1/rollouts/r-1/close").status_code == 200
    for path, bearer in ((at("r-1"), TOKEN), (CALL, rollout_bearer(TOKEN, "r-1"))):
        response = served.ask("POST", path, bearer=bearer, content=request())
        assert (response.status_code, error_of(response)["code"]) == (409, "rollout_closed")
    assert served.ask("POST", at("r-2"), content=request()).status_code == 200
    assert len(served.ledger.lines) == 1


def test_a_rollout_that_is_closed_while_a_request_comes_in_does_not_serve_it() -> None:
    served = Served()

    async def body():
        yield request()[:10]
        served.bridge.accounts.close("r-1")
        yield request()[10:]

    response = served.ask("POST", at("r-1"), content=body())
    assert (response.status_code, served.transport.sent) == (409, [])


# --- what a web page may not do


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8400", "localhost:8400", "LOCALHOST", "[::1]:8400", "127.0.0.1", "tunnel.example"]
)
def test_the_bridges_own_names_are_served(host: str) -> None:
    served = Served(hosts=["Tunnel.example"])
    assert served.ask("POST", CALL, headers={"host": host}, content=request()).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil",
        "10.0.0.7:8400",
        "[::2]:8400",
        "evil@127.0.0.1",
        "",
    ],
)
def test_a_host_that_is_not_this_bridge_is_refused_on_every_route(host: str) -> None:
    served = Served()
    for method, path in (("POST", CALL), ("GET", "/health"), ("GET", "/metrics"), ("GET", "/nowhere")):
        response = served.ask(method, path, headers={"host": host}, content=request())
        assert (response.status_code, error_of(response)["code"]) == (403, "forbidden")
    assert served.ledger.appends == 0


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://127.0.0.1:1",
        "http://127.0.0.1",
        "file://",
        "chrome-extension://x",
        "127.0.0.1:8400",
        "",
    ],
)
def test_a_page_of_another_origin_is_not_served(origin: str) -> None:
    response = Served().ask("POST", CALL, headers={"origin": origin}, content=request())
    assert response.status_code == 403
    assert "origin" in error_of(response)["message"]


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8400", "HTTP://127.0.0.1:8400"])
def test_a_page_of_the_bridge_itself_is_served(origin: str) -> None:
    assert Served().ask("POST", CALL, headers={"origin": origin}, content=request()).status_code == 200


def test_away_from_loopback_the_bearer_alone_decides() -> None:
    served = Served(hosts=None)
    headers = {"host": "bridge.example", "origin": "http://app.example"}
    assert served.ask("POST", CALL, headers=headers, content=request()).status_code == 200


def test_the_local_names_and_those_the_operator_adds_are_known_in_lower_case() -> None:
    assert local_hosts(("Tunnel.Example",)) == {"localhost", "127.0.0.1", "[::1]", "::1", "tunnel.example"}


def test_a_gate_without_a_token_knows_everybody_as_the_run() -> None:
    assert Gate(None, None).caller({}) == RUN


# --- bodies


def test_a_body_at_the_limit_is_read_and_one_byte_more_is_413() -> None:
    served = Served(max_body=1000)
    padded = request(user="x" * 500)
    body = padded + b" " * (1000 - len(padded))
    assert served.ask("POST", CALL, content=body).status_code == 200
    response = served.ask("POST", CALL, content=body + b" ")
    assert (response.status_code, error_of(response)["code"]) == (413, "body_too_large")
    assert response.headers["connection"] == "close"
    assert len(served.ledger.lines) == 1


def test_a_body_that_does_not_say_its_length_is_cut_off_at_the_limit() -> None:
    async def endless():
        for _ in range(1000):
            yield b" " * 100

    response = Served(max_body=1000).ask("POST", CALL, content=endless())
    assert response.status_code == 413


def test_the_message_of_413_names_the_limit_and_the_flag() -> None:
    response = Served(max_body=2 * 1024 * 1024).ask("POST", CALL, content=b" " * (2 * 1024 * 1024 + 1))
    assert "2 MiB" in error_of(response)["message"]
    assert "--max-body-mb" in error_of(response)["message"]


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP ", "deflate", "identity", ""])
def test_compressed_bodies_are_read(encoding: str) -> None:
    body = request(seed=7)
    kind = encoding.strip().lower()
    packed = gzip.compress(body) if "gzip" in kind else zlib.compress(body) if kind == "deflate" else body
    served = Served()
    response = served.ask("POST", CALL, headers={"content-encoding": encoding}, content=packed)
    assert response.status_code == 200
    assert json.loads(served.transport.sent[0]["body"])["seed"] == 7


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "nonsense"])
def test_an_encoding_that_is_not_read_is_415(encoding: str) -> None:
    response = Served().ask("POST", CALL, headers={"content-encoding": encoding}, content=request())
    assert (response.status_code, error_of(response)["code"]) == (415, "unsupported_encoding")


@pytest.mark.parametrize(
    "body", [b"not gzip", gzip.compress(request(), mtime=0)[:-9], gzip.compress(request(), mtime=0)[:20], b""]
)
def test_a_body_that_is_not_what_its_encoding_says_is_refused(body: bytes) -> None:
    response = Served().ask("POST", CALL, headers={"content-encoding": "gzip"}, content=body)
    assert (response.status_code, error_of(response)["code"]) == (400, "invalid_encoding")


def test_a_body_that_unpacks_beyond_the_limit_is_413() -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    response = Served(max_body=20_000).ask("POST", CALL, headers={"content-encoding": "gzip"}, content=bomb)
    assert response.status_code == 413


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b'{"messages":[1e400],"extra_body":{"messages":[1e400 ]}}']
)
def test_a_body_that_is_no_request_is_a_recorded_400(body: bytes) -> None:
    served = Served()
    assert served.ask("POST", CALL, content=body).status_code == 400
    assert [record["status"] for record in served.ledger.records] == ["refused"]


# --- streams, dry runs and faults of ours


def test_a_stream_comes_through_with_its_end() -> None:
    served = Served(Answer([sse(delta("a"), delta(finish="stop"))], headers=SSE))
    response = served.ask("POST", CALL, content=request(stream=True))
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "content-length" not in response.headers
    assert response.text == sse(delta("a"), delta(finish="stop")).decode().replace("up/real", "m")


def test_a_plain_reply_says_its_length() -> None:
    response = Served().ask("POST", CALL, content=request())
    assert int(response.headers["content-length"]) == len(response.content)


def test_a_providers_error_comes_with_its_origin() -> None:
    response = Served(Answer([b'{"error":"no"}'], status=429)).ask("POST", CALL, content=request())
    assert (response.status_code, response.headers["x-osmosis-error-origin"]) == (429, "upstream")
    assert error_of(response)["message"] == "no"


@pytest.mark.parametrize("value", ["1", "true"])
def test_a_dry_run_shows_the_request_and_neither_sends_nor_records_it(value: str) -> None:
    served = Served()
    response = served.ask("POST", CALL, headers={"x-osmosis-dry-run": value}, content=request(seed=1))
    assert response.json()["outgoing"]["body"]["seed"] == 1
    assert (served.transport.sent, served.ledger.appends) == ([], 0)
    assert served.bridge.accounts.in_flight("default") == 0


def test_a_dry_run_shows_the_upstreams_host_to_the_run_and_to_no_rollout() -> None:
    for token, bearer, shown in (
        (TOKEN, TOKEN, True),
        (None, None, True),
        (TOKEN, rollout_bearer(TOKEN, "r"), False),
    ):
        served = Served(token=token, redactor=Redactor([], ["127.0.0.1"]))
        ask = {"x-osmosis-dry-run": "1", "x-title": "t"}
        reply = served.ask("POST", CALL, bearer=bearer, headers=ask, content=request()).json()
        assert ("127.0.0.1" in reply["outgoing"]["url"]) is shown
        assert {"header": "x-title", "became": "forwarded"} in reply["headers"]
        assert reply["outgoing"]["headers"]["x-title"] == "t"


def test_a_header_that_cannot_be_forwarded_is_refused_and_nothing_is_sent() -> None:
    served = Served()
    response = served.ask("POST", CALL, headers={"x-title": "x" * 5000}, content=request())
    assert (response.status_code, error_of(response)["param"]) == (400, "x-title")
    assert served.transport.sent == []


@pytest.mark.parametrize("value", ["0", ""])
def test_a_dry_run_that_is_switched_off_is_a_call(value: str) -> None:
    served = Served()
    served.ask("POST", CALL, headers={"x-osmosis-dry-run": value}, content=request())
    assert len(served.transport.sent) == 1


def test_a_dry_run_needs_a_bearer_too() -> None:
    response = Served().ask("POST", CALL, bearer=None, headers={"x-osmosis-dry-run": "1"}, content=request())
    assert response.status_code == 401


def test_a_retry_that_the_client_marks_is_known_as_one() -> None:
    served = Served()
    for count in ("0", "1"):
        served.ask("POST", CALL, headers={"x-stainless-retry-count": count}, content=request())
    assert len(served.transport.sent) == 1
    assert served.ledger.records[1]["replay_of"] == served.ledger.records[0]["call_id"]


class Broken(FakeTransport):
    async def step(self) -> None:
        raise ZeroDivisionError("inner details")


def test_a_fault_of_ours_is_a_500_without_details_and_is_logged_with_them() -> None:
    kept = CapturingLogger()
    served = Served(transport=Broken(Answer()), log=a_log(kept))
    response = served.ask("POST", CALL, content=request())
    assert (response.status_code, error_of(response)["code"]) == (500, "internal_error")
    assert "inner details" not in response.text
    assert any("inner details" in repr(call) for call in kept.calls if call.method_name == "error")
    assert [record["error_code"] for record in served.ledger.records] == ["internal_error"]


def test_a_ledger_that_refuses_is_told_as_a_500() -> None:
    served = Served(Answer([completion()]))
    served.ledger.fail_at = 1
    response = served.ask("POST", CALL, content=request())
    assert (response.status_code, error_of(response)["code"]) == (500, "ledger_unavailable")
    assert served.bridge.accounts.in_flight("default") == 0


def test_no_secret_is_in_any_error() -> None:
    served = Served(token="the-secret-key")
    headers = {"authorization": "Bearer the-secret-keyx", "x-osmosis-rollout-id": "the-secret-key/"}
    for path in (CALL, at("the-secret-key "), "/the-secret-key"):
        assert (
            "the-secret-key" not in served.ask("POST", path, bearer=None, headers=headers, content=b"{").text
        )


def test_refusals_are_errors_that_know_their_status() -> None:
    gate = Gate(TOKEN, local_hosts(()))
    with pytest.raises(Refused) as caught:
        gate.caller({})
    assert caught.value.status == 401
