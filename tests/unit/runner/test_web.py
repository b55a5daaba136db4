from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from osmosis_bridge.upstream import Endpoint, TransportError
from osmosis_runner.web import Answer, Site, bearer
from runner_fakes import ScriptedTransport, site


def test_a_request_carries_the_sites_headers_and_says_when_it_is_json() -> None:
    transport = ScriptedTransport([(200, {}), (200, {})])
    there = Site(transport, Endpoint.parse("http://127.0.0.1:1"), bearer("t0k"))
    asyncio.run(there.ask(b"POST", "/x", b"{}", within_s=1, headers=((b"a", b"b"),)))
    asyncio.run(there.ask(b"GET", "/y", within_s=1))
    (_, path, headers, body), (_, _, bare, _) = transport.asked
    assert (path, body) == (b"/x", b"{}")
    assert dict(headers) == {
        b"authorization": b"Bearer t0k",
        b"a": b"b",
        b"content-type": b"application/json",
    }
    assert dict(bare) == {b"authorization": b"Bearer t0k"}


def test_a_reply_is_read_whole_and_its_connection_given_up() -> None:
    there, transport = site((201, {"a": 1}), headers=[(b"x", b"1"), (b"x", b"2")])
    answer = asyncio.run(there.ask(b"GET", "/", within_s=1))
    assert (answer.status, answer.body, answer.header(b"x"), answer.header(b"y")) == (
        201,
        b'{"a":1}',
        "1",
        None,
    )
    assert transport.exchanges[0].closed


def test_a_reply_that_does_not_come_in_time_is_a_transport_error() -> None:
    class Silent:
        async def open(self, *_: object) -> None:
            await asyncio.sleep(60)

    there = Site(cast("Any", Silent()), Endpoint.parse("http://127.0.0.1:1"))
    with pytest.raises(TransportError) as caught:
        asyncio.run(there.ask(b"GET", "/", within_s=0.01))
    assert caught.value.reason == "timeout_total"


def test_an_answer_finds_headers_by_their_name() -> None:
    assert Answer(200, [(b"retry-after", b"5")], b"").header(b"retry-after") == "5"
