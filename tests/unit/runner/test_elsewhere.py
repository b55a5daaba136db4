from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from osmosis_bridge.upstream.http import HttpTransport
from osmosis_runner.elsewhere import Elsewhere, ServerAddress, reach_server
from osmosis_runner.faults import LaunchError
from osmosis_runner.launch import RolloutServer


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("127.0.0.1:8000", "expected http"),
        ("ftp://127.0.0.1", "scheme 'ftp'"),
        ("http://user:pass@127.0.0.1", "user info"),
        ("http://127.0.0.1:8000/?a=1", "question mark"),
        ("http://127.0.0.1:99999", "port must be"),
        ("http://10.0.0.7:8000", "10.0.0.7 is another machine"),
        ("http://server.example:8000", "http://127.0.0.1:8000"),
        ("http://0.0.0.0:8000", "another machine"),
    ],
)
def test_an_address_that_cannot_serve_is_refused_with_the_reason(url: str, words: str) -> None:
    with pytest.raises(LaunchError) as caught:
        ServerAddress.of(url)
    assert caught.value.message.startswith("--rollout-url: ")
    assert words in caught.value.message
    assert "pass" not in caught.value.message


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/", "http://localhost:8000", "http://[::1]:8000/base"])
def test_an_address_of_this_machine_will_do(url: str) -> None:
    assert ServerAddress.of(url).endpoint.port == 8000


def test_a_key_does_not_show() -> None:
    assert "hush" not in repr(ServerAddress.of("http://localhost:1", "hush"))


@contextmanager
def answering(*replies: tuple[int, dict[str, Any]]) -> Generator[tuple[str, list[str | None]]]:
    """A server that answers in turn, the last for ever; its URL and the Authorization of each request."""
    left, seen = list(replies), list[str | None]()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["authorization"])
            status, body = left.pop(0) if len(left) > 1 else left[0]
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


async def reach(url: str, api_key: str | None, within_s: float) -> RolloutServer:
    async with HttpTransport() as transport:
        return await reach_server(ServerAddress.of(url, api_key), transport, within_s)


def test_a_server_is_waited_for_and_its_capacity_is_read() -> None:
    with answering((503, {}), (200, {"max_queue_depth": 7})) as (url, seen):
        server = asyncio.run(reach(url, "its-key", 5.0))
    assert server.health.capacity == 7
    assert server.port == ServerAddress.of(url).endpoint.port
    assert seen == ["Bearer its-key"] * 2


def test_a_server_that_wants_a_key_is_told_apart() -> None:
    with (
        answering((401, {"detail": "unauthorized"})) as (url, seen),
        pytest.raises(LaunchError, match="put its key into OSMOSIS_ROLLOUT_API_KEY"),
    ):
        asyncio.run(reach(url, None, 30.0))
    assert seen == [None]


def test_a_server_whose_rollouts_cannot_reach_the_bridge_is_refused_at_once() -> None:
    health = {"chat_endpoint": {"requires_public_url": True}}
    with answering((200, health)) as (url, seen), pytest.raises(LaunchError, match="public URL"):
        asyncio.run(reach(url, None, 30.0))
    assert len(seen) == 1


def test_nobody_there_is_an_error_and_not_a_hang() -> None:
    with pytest.raises(LaunchError, match=r"http://127\.0\.0\.1:9 is not usable"):
        asyncio.run(reach("http://127.0.0.1:9", None, 0.1))


def test_a_server_of_somebody_elses_is_given_up_and_never_ended() -> None:
    async def main() -> None:
        life = Elsewhere("http://localhost:1")
        await life.stop(5.0)
        assert not life.exited.is_set()
        await life.kill()
        assert life.exited.is_set()
        assert "http://localhost:1 stopped answering" in life.describe_exit()

    asyncio.run(main())
