"""A request that is no call, as an ASGI application sees it and as its client sees the reply; over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from serving import Serving, reply_of, served, until


def get(target: bytes, *headers: bytes, method: bytes = b"GET", version: bytes = b"1.1") -> bytes:
    return (
        b"\r\n".join([method + b" " + target + b" HTTP/" + version, b"Host: localhost", *headers])
        + b"\r\n\r\n"
    )


class Noting:
    """Notes scopes, bodies and departures; answers in two pieces, once told to where it waits."""

    def __init__(self, *, reads: bool = True, waits: bool = False) -> None:
        self.scopes: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.left = 0
        self.go = asyncio.Event()
        self._reads, self._waits = reads, waits

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(dict(scope))
        body, more = b"", self._reads
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left += 1
                return
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        if self._waits:
            await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})


def test_a_request_is_described_as_asgi_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Noting()

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(get(b"/a%20b/%C3%A4?q=%20", b"X-A: 1", b"x-a: 2"))
        assert (await reply_of(reader))[1] == b"ab"
        (scope,) = app.scopes
        assert scope["server"] == ("127.0.0.1", serving.port)
        assert scope["client"] == writer.get_extra_info("sockname")
        expected = {
            "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "root_path": "",
            "path": "/a b/ä", "raw_path": b"/a%20b/%C3%A4", "query_string": b"q=%20",
            "headers": [(b"host", b"localhost"), (b"x-a", b"1"), (b"x-a", b"2")],
        }  # fmt: skip
        assert {name: scope[name] for name in expected} == expected

    served(app, use, monkeypatch)


def test_head_has_no_body_and_http_1_0_no_second_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        came = await serving.raw(get(b"/", b"connection: close", method=b"HEAD"))
        assert came.startswith(b"HTTP/1.1 200 OK\r\n")
        assert came.endswith(b"\r\n\r\n")
        came = await serving.raw(get(b"/", b"connection: keep-alive", version=b"1.0"))
        assert b"\r\nconnection: close\r\n" in came

    served(Noting(), use, monkeypatch)


def test_a_large_body_waits_until_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Noting()

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(get(b"/", b"content-length: 3000000", method=b"POST") + b"x" * 3_000_000)
        assert (await reply_of(reader))[1] == b"ab"
        assert app.bodies == [b"x" * 3_000_000]

    served(app, use, monkeypatch)


def test_a_body_that_is_not_asked_for_yet_is_not_taken_from_the_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Noting(reads=False, waits=True)

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(get(b"/", b"content-length: 3000000", method=b"POST") + b"x" * 3_000_000)
        await until(lambda: app.bodies)
        (door,) = serving.server.server_state.connections
        await until(lambda: not door.transport.is_reading())
        app.go.set()
        assert (await reply_of(reader))[1] == b"ab"

    served(app, use, monkeypatch)


def test_a_body_that_nobody_asked_for_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(get(b"/", b"content-length: 3000000", method=b"POST") + b"x" * 3_000_000 + get(b"/"))
        for _ in range(2):
            assert (await reply_of(reader))[1] == b"ab"

    served(Noting(reads=False), use, monkeypatch)


def test_word_to_go_on_is_given_when_the_body_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(get(b"/", b"content-length: 1", b"Expect: 100-Continue", method=b"POST"))
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"x")
        assert (await reply_of(reader))[1] == b"ab"

    served(Noting(), use, monkeypatch)


def test_a_broken_body_is_told_to_the_client_and_to_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Noting()

    async def use(serving: Serving) -> None:
        came = await serving.raw(
            get(b"/", b"transfer-encoding: chunked", method=b"POST") + b"1\r\nx\r\nzz\r\n"
        )
        assert came.startswith(b"HTTP/1.1 400 ")
        assert came.count(b"HTTP/1.1") == 1
        await until(lambda: app.left)

    served(app, use, monkeypatch)


def test_a_client_that_leaves_is_told_to_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Noting()

    async def use(serving: Serving) -> None:
        _, writer = await serving.connect()
        writer.write(get(b"/", b"content-length: 1", method=b"POST"))
        await until(lambda: app.scopes)
        writer.transport.abort()
        await until(lambda: app.left)

    served(app, use, monkeypatch)


def test_told_to_stop_it_ends_the_connection_after_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Noting(waits=True)

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(get(b"/"))
        await until(lambda: app.bodies)
        serving.server._stop()
        await asyncio.sleep(0.2)
        app.go.set()
        assert b"\r\nconnection: close\r\n" in await reader.read(-1)

    served(app, use, monkeypatch, grace_s=600)


def test_a_client_that_does_not_read_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = 0

    async def floods(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(300):
            await send({"type": "http.response.body", "body": b"x" * 50_000, "more_body": True})
            sent += 1
        await send({"type": "http.response.body", "body": b""})

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(get(b"/"))
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 290
        assert len((await reply_of(reader))[1]) == 300 * 50_000

    served(floods, use, monkeypatch)
