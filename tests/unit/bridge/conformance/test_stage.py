"""The stage: what a request to the target says, and what is asked of the target itself."""

from __future__ import annotations

import asyncio

from osmosis_bridge.conformance.case import Ask, Seen
from osmosis_bridge.conformance.exact import Number
from osmosis_bridge.conformance.reply import Reply
from osmosis_bridge.conformance.script import Hold, plain, raw
from osmosis_bridge.conformance.stage import Stage, Target, record_of, record_value
from osmosis_bridge.conformance.upstream import ScriptedUpstream


def stage(**fields: object) -> Stage:
    target = Target("http://127.0.0.1:9/gate/v1", **{"bearer": "b-1", **fields})
    return Stage("F1-user", target, ScriptedUpstream())


def head_of(request: bytes) -> list[str]:
    return request.partition(b"\r\n\r\n")[0].decode().split("\r\n")


def test_a_request_carries_bearer_rollout_and_token() -> None:
    on = stage()
    request = on.request(Ask())
    lines = head_of(request)
    assert lines[0] == "POST /gate/v1/chat/completions HTTP/1.1"
    assert {"Host: 127.0.0.1:9", "Authorization: Bearer b-1", f"X-Osmosis-Rollout-Id: {on.rollout}"} <= set(
        lines
    )
    assert f"case:{on.token}".encode() in request


def test_headers_of_a_case_replace_the_usual_ones() -> None:
    lines = head_of(stage().request(Ask(headers=(("host", "evil"), ("X", "1")), auth="")))
    assert [line for line in lines if line.lower().startswith(("host", "authorization"))] == ["host: evil"]


def test_a_path_may_hold_the_rollout() -> None:
    on = stage(path="/v1/rollouts/{rollout}/chat/completions")
    assert on.rollout in head_of(on.request(Ask()))[0]
    assert "/other/" in head_of(on.request(Ask(), rollout="other"))[0]


def test_a_body_may_be_sent_in_chunks() -> None:
    request = stage().request(Ask(transfer="chunked"))
    assert "Transfer-Encoding: chunked" in head_of(request)
    assert request.endswith(b"\r\n0\r\n\r\n")
    assert b"Content-Length" not in request


def test_no_two_stages_share_a_token() -> None:
    assert stage().token != stage().token
    on = stage()
    assert on.play(plain("1"), "second") != on.token


def test_leaving_is_seen_at_the_upstream_and_nothing_is_kept_after() -> None:
    async def run() -> None:
        upstream = ScriptedUpstream()
        port = await upstream.start()
        on = Stage("C1-x", Target(f"http://127.0.0.1:{port}"), upstream)
        on.play(raw(Hold(8)))
        assert await on.leave(Ask(), None)
        (call,) = on.received()
        assert await on.gone(call) is not None
        on.forget()
        assert on.received() == []
        await upstream.stop()

    asyncio.run(run())


def test_an_exchange_knows_the_credential_that_was_used() -> None:
    async def run() -> Seen:
        upstream = ScriptedUpstream()
        port = await upstream.start()
        on = Stage("E1-x", Target(f"http://127.0.0.1:{port}", bearer="bearer-1"), upstream)
        on.play(plain("{}"))
        seen = await on.exchange(Ask())
        await upstream.stop()
        return seen

    seen = asyncio.run(run())
    assert seen.secrets == ("bearer-1",)
    assert seen.reply.status == 200
    assert len(seen.calls) == 1


def test_there_is_one_record_or_none() -> None:
    reply = Reply(200, (), b"", b"", "clean")
    one = Seen(reply, (), b"", ours=True, records=({"a": Number("1")},))
    two = Seen(reply, (), b"", ours=True, records=({"a": True}, {"a": True}))
    assert record_value(one, "a") == Number("1")
    assert record_of(two) is None
