"""The application in every dialect: where calls go, what of the client goes with them, and each failure's shape."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from asgi_bridge import TOKEN, Served
from fakes import SSE, Answer, FakeLedger, FakeTransport, completion, delta, request, sse
from osmosis_bridge.bearers import rollout_bearer
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.serve import Target
from osmosis_bridge.upstream import Endpoint, TransportError
from typed_events import (
    MESSAGES,
    RESPONSES,
    RESPONSES_USAGE,
    event,
    message,
    message_start,
    response,
    text_item,
)


@dataclass
class Speech:
    """A dialect as it is spoken: a request, an answer, the answer as a stream, and the usage that is recorded."""

    name: str
    asked: dict[str, Any]
    answer: bytes
    stream: tuple[bytes, ...] = ()
    usage: Any = None
    finish: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return "/v1" + DIALECTS[self.name].path

    def at(self, rollout_id: str) -> str:
        return f"/v1/rollouts/{rollout_id}{DIALECTS[self.name].path}"

    def body(self, **fields: Any) -> bytes:
        return json.dumps({"model": "m", **self.asked, **fields}).encode()


CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
TEXT = {
    "id": "cmpl-1", "object": "text_completion", "model": "up/real",
    "choices": [{"index": 0, "text": "hi", "finish_reason": "stop"}],
}  # fmt: skip
VECTORS = {
    "object": "list", "model": "up/real", "usage": {"prompt_tokens": 8, "total_tokens": 8},
    "data": [{"object": "embedding", "index": 0, "embedding": "AACAPwAAAEA="}],
}  # fmt: skip
SPOKEN = [
    Speech(
        "chat", {"messages": [{"role": "user", "content": "hi"}]}, completion(usage=CHAT_USAGE),
        (sse(delta("hi"), delta(finish="stop"), {"choices": [], "usage": CHAT_USAGE}),), CHAT_USAGE, ("stop",),
    ),
    Speech(
        "responses", {"input": "hi"}, json.dumps(response(output=[text_item("hi")], usage=RESPONSES_USAGE)).encode(),
        tuple(RESPONSES),
        {
            "prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28, "cached_tokens": 12,
            "cache_write_tokens": 3, "reasoning_tokens": 5,
        },
        ("completed",),
    ),
    Speech(
        "messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
        json.dumps(message([{"type": "text", "text": "hi"}])).encode(), tuple(MESSAGES),
        {
            "prompt_tokens": 15, "completion_tokens": 15, "total_tokens": 30, "cached_tokens": 3,
            "cache_write_tokens": 7,
        },
        ("end_turn",),
    ),
    Speech(
        "completions", {"prompt": "hi"}, json.dumps({**TEXT, "usage": CHAT_USAGE}).encode(),
        (sse(TEXT, {"choices": [], "usage": CHAT_USAGE}),), CHAT_USAGE, ("stop",),
    ),
    Speech(
        "embeddings", {"input": ["hi"]}, json.dumps(VECTORS).encode(),
        usage={"prompt_tokens": 8, "total_tokens": 8},
    ),
]  # fmt: skip
BEGUN = {
    "chat": sse(delta("hi"), done=False),
    "responses": RESPONSES[0],
    "messages": message_start(),
    "completions": sse({"choices": [{"index": 0, "text": "hi", "finish_reason": None}]}, done=False),
}
"""The first event of a stream, which ends nothing."""
EVERY = pytest.mark.parametrize("spoken", SPOKEN, ids=lambda spoken: spoken.name)
STREAMED = pytest.mark.parametrize("spoken", SPOKEN[:-1], ids=lambda spoken: spoken.name)
MESSAGES_PATH = "/v1/messages"
ASKED = SPOKEN[2].body()


# --- calls that go well


@EVERY
@pytest.mark.parametrize("rollout_id", [None, "r-1"])
def test_a_call_goes_to_its_own_path_and_comes_back_under_the_clients_name_for_the_model(
    spoken: Speech, rollout_id: str | None
) -> None:
    served = Served(Answer([spoken.answer]))
    path = spoken.path if rollout_id is None else spoken.at(rollout_id)
    reply = served.ask("POST", path, content=spoken.body())
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert reply.content == spoken.answer.replace(b'"up/real"', b'"m"')
    (sent,) = served.transport.sent
    assert sent["target"] == b"/v1" + DIALECTS[spoken.name].path.encode()
    assert json.loads(sent["body"]) == {"model": "up/real", **spoken.asked}
    (record,) = served.ledger.records
    assert (record["dialect"], record["status"], record["rollout_id"]) == (
        spoken.name,
        "ok",
        rollout_id or "default",
    )
    assert (record["usage"], record["usage_source"]) == (spoken.usage, "provider")
    assert tuple(record.get("finish_reasons", ())) == spoken.finish
    assert record["alias"] == "m"


@STREAMED
def test_a_stream_comes_through_with_its_end_and_is_recorded(spoken: Speech) -> None:
    served = Served(Answer(spoken.stream, headers=SSE))
    reply = served.ask("POST", spoken.at("r-1"), content=spoken.body(stream=True))
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    hidden = sse({"choices": [], "usage": CHAT_USAGE}, done=False)
    assert reply.content == b"".join(spoken.stream).replace(b'"up/real"', b'"m"').replace(hidden, b"")
    (record,) = served.ledger.records
    assert (record["dialect"], record["status"], record["stream"]) == (spoken.name, "ok", True)
    assert (record["usage"], tuple(record["finish_reasons"])) == (spoken.usage, spoken.finish)
    assert served.bridge.accounts.totals("r-1").tokens == spoken.usage["total_tokens"]
    assert dict(served.transport.sent[0]["headers"])[b"accept"] == b"text/event-stream"


@EVERY
def test_without_a_model_the_reply_names_the_usual_alias(spoken: Speech) -> None:
    served = Served(Answer([spoken.answer]))
    reply = served.ask("POST", spoken.path, content=json.dumps(spoken.asked).encode())
    assert reply.json()["model"] == "osmosis-rollout"


@EVERY
def test_the_clients_fields_go_out_as_they_were_written(spoken: Speech) -> None:
    fields = (
        b'"system":[{"type":"text","text":"caf\\u00e9","cache_control":{"type":"ephemeral"}}],"max_output_tokens":1.0,'
        b'"thinking":{"type":"enabled","budget_tokens":1024},"store":false,"previous_response_id":null,'
        b'"tools":[{"name":"f","strict":true,"input_schema":{"type":"object"}}],"metadata":{"user_id":"u"},'
        b'"reasoning":{"effort":"low","summary":null},"include":["reasoning.encrypted_content"],"big":9007199254740993,'
        b'"stop_sequences":[],"service_tier":"auto","dimensions":256,"text":{"format":{"type":"text"}}'
    )
    body = spoken.body()[:-1] + b"," + fields + b"}"
    served = Served(Answer([spoken.answer]))
    assert served.ask("POST", spoken.path, content=body).status_code == 200
    assert fields in served.transport.sent[0]["body"]


@EVERY
def test_controls_never_go_out_whatever_the_dialect(spoken: Speech) -> None:
    served = Served(Answer([spoken.answer]))
    body = spoken.body(api_base="http://evil.example", extra_body={"mock_response": "x", "seed": 7})
    reply = served.ask("POST", spoken.path, content=body)
    sent = json.loads(served.transport.sent[0]["body"])
    assert sent == {"model": "up/real", **spoken.asked, "seed": 7}
    assert set(reply.headers["x-osmosis-stripped"].split(",")) == {"api_base", "mock_response"}


@pytest.mark.parametrize("given", ["hi", ["hi", "there"], [1, 2, 3], [[1, 2], [3]], ""])
def test_embeddings_take_text_and_tokens(given: Any) -> None:
    served = Served(Answer([SPOKEN[4].answer]))
    body = SPOKEN[4].body(input=given, encoding_format="base64")
    assert served.ask("POST", "/v1/embeddings", content=body).status_code == 200
    sent = json.loads(served.transport.sent[0]["body"])
    assert (sent["input"], sent["encoding_format"]) == (given, "base64")


@pytest.mark.parametrize("asked", [True, False])
def test_usage_is_asked_for_on_text_completions_and_shown_to_those_who_asked(asked: bool) -> None:
    served = Served(Answer(SPOKEN[3].stream, headers=SSE))
    options = {"stream_options": {"include_usage": asked}} if asked else {}
    reply = served.ask("POST", "/v1/completions", content=SPOKEN[3].body(stream=True, **options))
    assert json.loads(served.transport.sent[0]["body"])["stream_options"] == {"include_usage": True}
    assert ("usage" in reply.text) is asked
    assert served.ledger.records[0]["usage"] == CHAT_USAGE


@pytest.mark.parametrize("name", ["responses", "messages", "embeddings"])
def test_a_dialect_without_the_option_gets_none(name: str) -> None:
    spoken = next(each for each in SPOKEN if each.name == name)
    served = Served(Answer(spoken.stream or [spoken.answer], headers=SSE if spoken.stream else ()))
    served.ask("POST", spoken.path, content=spoken.body(**({"stream": True} if spoken.stream else {})))
    assert b"stream_options" not in served.transport.sent[0]["body"]


@pytest.mark.parametrize(
    ("name", "fields", "param"),
    [
        ("chat", {"messages": None}, "messages"),
        ("messages", {"messages": "x"}, "messages"),
        ("embeddings", {"input": ...}, "input"),
        ("responses", {"stream": "yes"}, "stream"),
        ("messages", {"stream": 1}, "stream"),
        ("completions", {"model": 7}, "model"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_before_anything_is_sent(
    name: str, fields: dict[str, Any], param: str
) -> None:
    spoken = next(each for each in SPOKEN if each.name == name)
    asked = {"model": "m", **spoken.asked, **fields}
    body = json.dumps({key: value for key, value in asked.items() if value is not ...}).encode()
    served = Served()
    reply = served.ask("POST", spoken.path, content=body)
    assert reply.status_code == 400
    assert param in reply.json()["error"]["message"]
    assert served.transport.sent == []
    assert [record["status"] for record in served.ledger.records] == ["refused"]


def test_responses_need_no_input_and_completions_no_prompt() -> None:
    for name, answer in (("responses", SPOKEN[1].answer), ("completions", SPOKEN[3].answer)):
        reply = Served(Answer([answer])).ask("POST", f"/v1/{name}", content=b'{"prompt":{"id":"p"}}')
        assert reply.status_code == 200


@EVERY
def test_a_retry_that_the_client_marks_is_given_the_first_answer_again(spoken: Speech) -> None:
    served = Served(Answer([spoken.answer]))
    first, again = (
        served.ask("POST", spoken.path, headers={"x-stainless-retry-count": n}, content=spoken.body())
        for n in ("0", "1")
    )
    assert (len(served.transport.sent), first.content) == (1, again.content)
    assert served.ledger.records[1]["replay_of"] == served.ledger.records[0]["call_id"]
    assert served.bridge.accounts.totals("default").tokens == spoken.usage["total_tokens"]


@STREAMED
def test_a_stream_is_given_again_too(spoken: Speech) -> None:
    served = Served(Answer(spoken.stream, headers=SSE))
    body = spoken.body(stream=True)
    first, again = (
        served.ask("POST", spoken.path, headers={"x-stainless-retry-count": n}, content=body)
        for n in ("0", "1")
    )
    assert (len(served.transport.sent), first.content) == (1, again.content)
    assert again.headers["content-type"] == "text/event-stream; charset=utf-8"


@EVERY
def test_a_dry_run_shows_the_request_of_the_dialect(spoken: Speech) -> None:
    served = Served()
    reply = served.ask("POST", spoken.path, headers={"x-osmosis-dry-run": "1"}, content=spoken.body())
    outgoing = reply.json()["outgoing"]
    assert outgoing["url"].endswith("/v1" + DIALECTS[spoken.name].path)
    assert outgoing["body"] == {"model": "up/real", **spoken.asked}
    assert ("anthropic-version" in outgoing["headers"]) is (spoken.name == "messages")
    assert (served.transport.sent, served.ledger.appends) == ([], 0)


# --- who may come in, and what goes out with a call


@pytest.mark.parametrize("bearer", [TOKEN, rollout_bearer(TOKEN, "r-1")])
@pytest.mark.parametrize("path", [MESSAGES_PATH, "/v1/rollouts/r-1/messages"])
def test_anthropics_clients_send_the_bearer_as_a_key(bearer: str, path: str) -> None:
    served = Served(Answer([SPOKEN[2].answer]))
    reply = served.ask("POST", path, bearer=None, headers={"x-api-key": bearer}, content=ASKED)
    assert reply.status_code == 200
    of_rollout = "rollouts" in path or bearer != TOKEN
    assert served.ledger.records[0]["rollout_id"] == ("r-1" if of_rollout else "default")


def test_a_client_that_sends_a_key_of_its_own_beside_the_bearer_is_known_by_either() -> None:
    for authorization, key in (("Bearer sk-ant-of-the-users-own", TOKEN), (f"Bearer {TOKEN}", "sk-ant-own")):
        served = Served(Answer([SPOKEN[2].answer]))
        headers = {"authorization": authorization, "x-api-key": key}
        assert (
            served.ask("POST", MESSAGES_PATH, bearer=None, headers=headers, content=ASKED).status_code == 200
        )
        assert b"sk-ant" not in repr(served.transport.sent).encode()


@pytest.mark.parametrize("key", ["", "wrong", f"Bearer {TOKEN}", rollout_bearer("another-token", "r-1")])
def test_a_key_that_is_no_bearer_is_401(key: str) -> None:
    reply = Served().ask("POST", MESSAGES_PATH, bearer=None, headers={"x-api-key": key}, content=ASKED)
    assert reply.status_code == 401


def test_of_the_clients_headers_those_that_are_listed_go_out() -> None:
    served = Served(Answer([SPOKEN[2].answer]))
    headers = {
        "anthropic-version": "2099-01-01", "anthropic-beta": "a-1,b-2", "cookie": "c=1", "x-odd": "1",
        "openai-organization": "o", "anthropic-dangerous-direct-browser-access": "true", "x-app": "cli",
        "user-agent": "client/1", "x-stainless-lang": "python", "x-title": "t",
    }  # fmt: skip
    assert served.ask("POST", MESSAGES_PATH, headers=headers, content=ASKED).status_code == 200
    assert served.transport.sent[0]["headers"] == {
        b"accept": b"application/json", b"anthropic-version": b"2099-01-01", b"anthropic-beta": b"a-1,b-2",
        b"x-title": b"t",
    }  # fmt: skip
    served = Served(Answer([SPOKEN[1].answer]))
    served.ask("POST", "/v1/responses", headers=headers, content=SPOKEN[1].body())
    assert served.transport.sent[0]["headers"] == {
        b"accept": b"application/json", b"anthropic-beta": b"a-1,b-2", b"x-title": b"t",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "rollout_id"),
    [
        ("/v1/v1/messages", "default"),
        ("/v1/rollouts/r-1/v1/messages", "r-1"),
        ("/v1/rollouts/v1/messages", "v1"),
    ],
)
def test_anthropics_clients_may_have_any_base_url_of_the_bridge(path: str, rollout_id: str) -> None:
    served = Served(Answer([SPOKEN[2].answer]))
    assert served.ask("POST", path, content=ASKED).status_code == 200
    assert served.ledger.records[0]["rollout_id"] == rollout_id
    assert served.transport.sent[0]["target"] == b"/v1/messages"


@pytest.mark.parametrize(
    ("base", "bearer"), [("https://api.anthropic.com/v1", False), ("http://10.0.0.7/v1", True)]
)
def test_anthropic_itself_gets_the_key_under_one_name_and_others_under_both(base: str, bearer: bool) -> None:
    served = Served(Answer([SPOKEN[2].answer]))
    served.bridge.target = Target(
        provider="fake", model="up/real", endpoint=Endpoint.parse(base), key="key-1",
        plain_headers=((b"authorization", b"Bearer key-1"),), stream_headers=(),
    )  # fmt: skip
    served.ask("POST", MESSAGES_PATH, content=ASKED)
    sent = served.transport.sent[0]["headers"]
    assert sent[b"x-api-key"] == b"key-1"
    assert (b"authorization" in sent) is bearer
    reply = served.ask("POST", MESSAGES_PATH, headers={"x-osmosis-dry-run": "1"}, content=ASKED)
    assert ("authorization" in reply.json()["outgoing"]["headers"]) is bearer


# --- failures


def shape_of(reply: httpx.Response) -> dict[str, Any]:
    """The error of a reply, in Anthropic's shape."""
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["x-osmosis-error-origin"] in ("bridge", "upstream")
    body = reply.json()
    assert body.keys() == {"type", "error"}
    assert body["type"] == "error"
    assert body["error"].keys() == {"type", "message"}
    assert body["error"]["message"]
    return body["error"]


@pytest.mark.parametrize(
    ("status", "kind", "options"),
    [
        (400, "invalid_request_error", {"content": b"{"}),
        (400, "invalid_request_error", {"content": b"{}"}),
        (400, "invalid_request_error", {"path": MESSAGES_PATH, "headers": {"x-osmosis-rollout-id": "../x"}}),
        (400, "invalid_request_error", {"headers": {"content-encoding": "gzip"}}),
        (401, "authentication_error", {"bearer": "wrong"}),
        (401, "authentication_error", {"bearer": None}),
        (403, "permission_error", {"bearer": rollout_bearer(TOKEN, "r-2")}),
        (409, "conflict_error", {"path": "/v1/rollouts/closed/messages"}),
        (413, "request_too_large", {"content": b" " * 1001}),
        (413, "request_too_large", {"content": gzip.compress(b" " * 5000), "headers": {"content-encoding": "gzip"}}),
        (415, "invalid_request_error", {"headers": {"content-encoding": "br"}}),
    ],
)  # fmt: skip
def test_every_refusal_on_messages_has_anthropics_shape(
    status: int, kind: str, options: dict[str, Any]
) -> None:
    served = Served(max_body=1000)
    served.bridge.accounts.close("closed")
    path = options.pop("path", "/v1/rollouts/r-1/messages")
    reply = served.ask("POST", path, **{"content": ASKED, **options})
    assert (reply.status_code, shape_of(reply)["type"]) == (status, kind)
    assert reply.headers["x-osmosis-error-origin"] == "bridge"
    assert served.transport.sent == []


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.mark.parametrize(
    ("answer", "status", "kind", "origin"),
    [
        (Answer([json.dumps(OVERLOADED).encode()], status=529), 529, "overloaded_error", "upstream"),
        (Answer([json.dumps(OVERLOADED).encode()]), 529, "overloaded_error", "upstream"),
        (Answer([event("error", **OVERLOADED)], headers=SSE), 529, "overloaded_error", "upstream"),
        (Answer([event("ping"), event("error", **OVERLOADED)], headers=SSE), 529, "overloaded_error", "upstream"),
        (Answer([b'{"error":{"message":"no","type":"billing_error"}}'], status=402), 402, "billing_error", "upstream"),
        (Answer([b"<html>gone</html>"], status=404), 404, "not_found_error", "upstream"),
        (Answer([b"boom"], status=500), 500, "api_error", "upstream"),
        (Answer([], headers=SSE), 502, "api_error", "upstream"),
        (TransportError("connect", "refused"), 502, "api_error", "upstream"),
        (TransportError("timeout_idle", "slow"), 504, "timeout_error", "upstream"),
        (TransportError("no_slot", "busy"), 503, "overloaded_error", "bridge"),
    ],
)  # fmt: skip
def test_every_failure_of_the_provider_on_messages_has_anthropics_shape(
    answer: Answer | TransportError, status: int, kind: str, origin: str
) -> None:
    streamed = isinstance(answer, Answer) and answer.headers == SSE
    served = Served(answer)
    reply = served.ask("POST", MESSAGES_PATH, content=SPOKEN[2].body(stream=streamed))
    assert (reply.status_code, shape_of(reply)["type"]) == (status, kind)
    assert reply.headers["x-osmosis-error-origin"] == origin
    assert served.ledger.records[0]["http_status"] == status


def test_what_the_provider_says_of_limits_comes_through() -> None:
    headers = (
        (b"retry-after", b"7"), (b"request-id", b"req_1"), (b"anthropic-ratelimit-requests-remaining", b"0"),
        (b"set-cookie", b"c=1"),
    )  # fmt: skip
    reply = Served(Answer([json.dumps(OVERLOADED).encode()], 529, headers)).ask(
        "POST", MESSAGES_PATH, content=ASKED
    )
    assert (reply.headers["retry-after"], reply.headers["request-id"]) == ("7", "req_1")
    assert reply.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert "set-cookie" not in reply.headers


def test_a_ledger_that_refuses_and_a_fault_of_ours_have_anthropics_shape_too() -> None:
    class Broken(FakeTransport):
        async def step(self) -> None:
            raise ZeroDivisionError

    for served in (
        Served(Answer([SPOKEN[2].answer]), ledger=FakeLedger(fail_at=1)),
        Served(transport=Broken(Answer())),
    ):
        reply = served.ask("POST", MESSAGES_PATH, content=ASKED)
        assert (reply.status_code, shape_of(reply)["type"]) == (500, "api_error")


@STREAMED
@pytest.mark.parametrize("ending", [TransportError("cut", "reset"), b""])
def test_a_stream_that_breaks_off_ends_in_an_error_of_its_dialect(
    spoken: Speech, ending: TransportError | bytes
) -> None:
    served = Served(Answer([BEGUN[spoken.name], ending], headers=SSE))
    reply = served.ask("POST", spoken.path, content=spoken.body(stream=True))
    assert reply.status_code == 200
    *_, last = [part for part in reply.content.split(b"\n\n") if part]
    found = json.loads(last.partition(b"data: ")[2])
    assert found["error"]["message"]
    assert b"[DONE]" not in reply.content
    if spoken.name == "messages":
        assert last.startswith(b"event: error\n")
        assert found.keys() == {"type", "error"}
    assert [record["status"] for record in served.ledger.records] == ["truncated"]


@STREAMED
def test_a_record_that_cannot_be_kept_ends_a_stream_in_an_error_of_its_dialect(spoken: Speech) -> None:
    served = Served(Answer(spoken.stream, headers=SSE), ledger=FakeLedger(fail_at=1))
    reply = served.ask("POST", spoken.path, content=spoken.body(stream=True))
    *_, last = [part for part in reply.content.split(b"\n\n") if part]
    found = json.loads(last.partition(b"data: ")[2])
    assert found["error"]["message"]
    assert b"message_stop" not in reply.content
    assert b'"response.completed"' not in reply.content
    assert b"[DONE]" not in reply.content


def test_a_page_of_another_origin_is_refused_in_anthropics_shape() -> None:
    reply = Served().ask("POST", MESSAGES_PATH, headers={"host": "evil.example"}, content=ASKED)
    assert (reply.status_code, shape_of(reply)["type"]) == (403, "permission_error")


@EVERY
def test_json_that_is_no_answer_is_told_in_the_words_of_the_dialect(spoken: Speech) -> None:
    reply = Served(Answer([b'{"id":"x","object":"something.else"}'])).ask(
        "POST", spoken.path, content=spoken.body()
    )
    wanted = {
        "chat": "no completion (no list `choices`)", "completions": "no completion (no list `choices`)",
        "responses": "no response (no list `output`) from /responses",
        "messages": "no message (no list `content`) from /messages",
        "embeddings": "no list of embeddings (no list `data`) from /embeddings",
    }[spoken.name]  # fmt: skip
    assert reply.status_code == 502
    assert f"answered 200 with JSON that is {wanted}: " in reply.json()["error"]["message"]


# --- other methods and places


@EVERY
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_another_method_on_a_call_is_405(spoken: Speech, method: str) -> None:
    served = Served()
    for path in (spoken.path, spoken.at("r-1")):
        reply = served.ask(method, path)
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")
        assert reply.headers["content-type"] == "application/json"
        assert "POST" in reply.json()["error"]["message"]
    assert served.transport.sent == []


@pytest.mark.parametrize(
    "path", ["/v1/messages/count_tokens", "/v1/responses/resp_1", "/v1/rollouts/r-1/embeddings/x"]
)
def test_what_is_not_served_is_404(path: str) -> None:
    for method in ("GET", "POST"):
        assert Served().ask(method, path, content=request()).status_code == 404
