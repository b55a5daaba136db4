"""Checks: each holds for what is right and says what is wrong."""

from __future__ import annotations

import itertools

import pytest

from osmosis_bridge.conformance import checks
from osmosis_bridge.conformance.case import Check, Seen
from osmosis_bridge.conformance.exact import Number, parse
from osmosis_bridge.conformance.reply import End, Reply
from osmosis_bridge.conformance.samples import HELLO, ROLE, WHOLE, completion, finish, said
from osmosis_bridge.conformance.script import DONE, data
from osmosis_bridge.conformance.upstream import Received

ERROR = data('{"error":{"message":"m","type":"t","param":null,"code":null}}')
SENT = b'{"model":"a","messages":[{"role":"user","content":"c"}],"seed":1.10,"extra_body":{"top_k":3}}'


def plain(body: str, status: int = 200, *headers: tuple[str, str], end: End = "clean") -> Reply:
    typed = headers or (("content-type", "application/json"),)
    return Reply(status, typed, body.encode(), body.encode(), end)


def streamed(*frames: bytes) -> Reply:
    body = b"".join(frames)
    return Reply(200, (("content-type", "text/event-stream"),), body, body, "clean")


def seen(
    reply: Reply, *bodies: str, ours: bool = True, records: tuple[str, ...] = (), **more: object
) -> Seen:
    calls = tuple(Received(b"POST / HTTP/1.1\r\n\r\n", body.encode(), 1) for body in bodies)
    kept = tuple(parse(record) for record in records)
    return Seen(reply, calls, SENT, ours=ours, records=kept, readable=bool(records), **more)  # pyright: ignore[reportArgumentType]


OUT = '{"model":"m","messages":[{"role":"user","content":"c"}],"seed":1.10,"top_k":3}'
FULL = plain('{"error":{"message":"m","type":"t","param":null,"code":null}}', 400)
BARE = plain('{"error":{"message":"m"}}', 400)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (checks.status(200, 201), seen(plain("1", 201)), seen(plain("1", 202))),
        (checks.status_between(400, 499), seen(plain("1", 404)), seen(plain("1", 500))),
        (checks.survives, seen(plain("1", 502)), seen(plain("1", 500))),
        (checks.survives, seen(plain("1")), seen(plain("1", end="cut"))),
        (checks.called(1), seen(plain("1"), OUT), seen(plain("1"), OUT, OUT)),
        (checks.not_called, seen(plain("1")), seen(plain("1"), OUT)),
        (checks.forwarded, seen(plain("1"), OUT), seen(plain("1"), OUT.replace("1.10", "1.1"))),
        (checks.forwarded, seen(plain("1"), OUT), seen(plain("1"), OUT.replace('"top_k"', '"top_p"'))),
        (checks.forwarded, seen(plain("1"), OUT), seen(plain("1"))),
        (checks.nothing_added, seen(plain("1"), OUT), seen(plain("1"), OUT[:-1] + ',"new":1}')),
        (
            checks.nothing_added,
            seen(plain("1"), OUT[:-1] + ',"stream_options":{}}'),
            seen(plain("1"), '{"extra_body":{}}'),
        ),
        (checks.messages_kept, seen(plain("1"), OUT), seen(plain("1"), OUT.replace('"c"', '"d"'))),
        (checks.upstream_has("seed", "1.10"), seen(plain("1"), OUT), seen(plain("1"), "{}")),
        (
            checks.upstream_lacks("api_key"),
            seen(plain("1"), OUT),
            seen(plain("1"), '{"extra_body":{"api_key":1}}'),
        ),
        (checks.upstream_bytes_lack("evil"), seen(plain("1"), OUT), seen(plain("1"), '"evil"')),
        (
            checks.unchanged('{"model":"m","x":1.10}'),
            seen(plain('{"model":"a","x":1.10}')),
            seen(plain('{"model":"a","x":1.1}')),
        ),
        (
            checks.relayed(['{"a":1}', '{"b":2}']),
            seen(streamed(data('{"a":1}'), data('{"b":2}'), DONE)),
            seen(streamed(data('{"b":2}'), data('{"a":1}'))),
        ),
        (
            checks.relayed(['{"a":1}']),
            seen(streamed(data('{"a":1}'))),
            seen(streamed(data('{"a":1}'), data("{}"))),
        ),
        (checks.says("hello"), seen(streamed(*WHOLE)), seen(streamed(*WHOLE[:-1]))),
        (checks.says("hello"), seen(plain(completion())), seen(plain(completion(finish='"length"')))),
        (checks.says("hello"), seen(streamed(*WHOLE)), seen(streamed(*HELLO, finish(), DONE))),
        (checks.stream_fails(), seen(streamed(ROLE, ERROR)), seen(streamed(ROLE, ERROR, DONE))),
        (checks.stream_fails(), seen(FULL), seen(streamed(ROLE))),
        (
            checks.stream_fails(),
            seen(streamed(ROLE, finish('"error"'), ERROR)),
            seen(streamed(ROLE, finish(), ERROR)),
        ),
        (checks.stream_fails(invented=False), seen(streamed(*HELLO, ERROR)), seen(streamed(*HELLO))),
        (checks.error_object, seen(FULL), seen(BARE)),
        (checks.error_object, seen(BARE, ours=False), seen(plain('{"error":"m"}', 400), ours=False)),
        (checks.full_error, seen(FULL, ours=False), seen(BARE, ours=False)),
        (checks.error_says("m", "t"), seen(FULL), seen(plain('{"error":{"message":"m"}}'))),
        (checks.header_is("a", "b"), seen(plain("1", 200, ("a", "b"))), seen(plain("1", 200, ("a", "c")))),
        (checks.header_absent("a"), seen(plain("1")), seen(plain("1", 200, ("a", "b")))),
        (checks.reply_lacks("evil"), seen(plain("1")), seen(plain('"evil"'))),
        (checks.ours(checks.status(200)), seen(plain("1", 500), ours=False), seen(plain("1", 500))),
        (
            checks.keeps_secrets,
            seen(plain("1"), secrets=("k-1234",)),
            seen(plain('"k-1234"'), secrets=("k-1234",)),
        ),
        (
            checks.keeps_secrets,
            seen(plain("1"), secrets=("k-1234",)),
            seen(plain(r'"k\u002d1234"'), secrets=("k-1234",)),
        ),
        (
            checks.keeps_secrets,
            seen(plain("1"), records=("{}",), secrets=("k-1",)),
            seen(plain("1"), records=('{"a":"k-1"}',), secrets=("k-1",)),
        ),
        (
            checks.recorded("ok", seq=Number("1")),
            seen(plain("1"), records=('{"status":"ok","seq":1}',)),
            seen(plain("1"), records=('{"status":"ok","seq":2}',)),
        ),
        (
            checks.recorded("ok"),
            seen(plain("1"), records=('{"status":"ok"}',)),
            seen(plain("1"), records=('{"status":"ok"}',) * 2),
        ),
        (
            checks.record_lists("stripped", "a"),
            seen(plain("1"), records=('{"stripped":["b","a"]}',)),
            seen(plain("1"), records=("{}",)),
        ),
    ],
    ids=itertools.count(),
)
def test_a_check_holds_for_the_good_and_not_for_the_bad(check: Check, good: Seen, bad: Seen) -> None:
    assert check(good) is None
    found = check(bad)
    assert found is not None
    assert found.expected
    assert found.seen


@pytest.mark.parametrize(
    "check", [checks.recorded("ok"), checks.record_lists("stripped", "a")], ids=["one", "list"]
)
def test_records_are_asked_for_only_where_a_ledger_can_be_read(check: Check) -> None:
    assert check(seen(plain("1"))) is None


def test_a_reply_is_told_in_one_line() -> None:
    assert checks.brief(plain("a\nb", 400)) == "400 a\\nb"
    assert checks.brief(plain("x", end="cut")) == "200 x [cut]"
    assert checks.brief(Reply(0, (), b"", b"", "waiting")) == "no reply (waiting)"
    assert len(checks.brief(plain("x" * 999))) < 180


def test_an_answer_with_an_error_beside_it_is_no_answer() -> None:
    assert checks.says("hello")(seen(streamed(ROLE, said("hello"), finish(), ERROR, DONE))) is not None
