"""What the bridge's process does beside serving: what it keeps secret, where it listens, and how it lets go."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from osmosis_bridge import server
from osmosis_bridge.config import BridgeConfig, ConfigError
from osmosis_bridge.routing import Route
from serving import CONFIG, Serving, error_of, request, served


def secrets(environ: dict[str, str], keys: list[str | None] | None = None, **settings: Any) -> set[str]:
    return set(server._secrets(replace(CONFIG, environ=environ, **settings), keys or []))


# What must not be seen.


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "ANTHROPIC_APIKEY", "MY_KEY", "KEY", "aws_secret_access_key", "HF_TOKEN", "TOKEN_OF_MINE",
        "DB_PASSWORD", "SMTP_PASSWD", "GOOGLE_CREDENTIALS", "A_CREDENTIAL", "AWS_SESSION_TOKEN",
    ],
)  # fmt: skip
def test_what_the_environment_calls_a_secret_is_one(name: str) -> None:
    assert secrets({name: "canary-1234"}) == {"canary-1234"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MONKEY", "canary-1234"),
        ("TOKENIZERS_PARALLELISM", "canary-1234"),
        ("KEYBOARD", "canary-1234"),
        ("MAX_TOKENS", "canary-1234"),
        ("SSH_KEY", "/home/me/.ssh/id"),
        ("TOKEN", "~/token.txt"),
        ("PASSWORD", "./file-of-it"),
        ("MY_KEY", "1234567890"),
        ("MY_KEY", "short"),
        ("MY_KEY", ""),
    ],
)
def test_what_an_ordinary_text_may_hold_is_no_secret(name: str, value: str) -> None:
    assert secrets({name: value}) == set()


def test_the_bearer_and_the_keys_in_use_are_secret_however_short() -> None:
    assert secrets({}, ["k", None], token="run-bearer-1") == {"k", "run-bearer-1"}


def test_credentials_in_urls_are_secret_as_written_and_as_meant() -> None:
    found = secrets(
        {"https_proxy": "http://me:p%40ss-word@proxy.internal:3128", "OPENAI_BASE_URL": "https://u:pw-of-u@x.internal"},
        api_base="https://x.internal/v1?api-version=2024-10-21&api_key=canary-9&sig=a%2Bb",
    )  # fmt: skip
    assert {"p%40ss-word", "p@ss-word", "pw-of-u", "canary-9", "a%2Bb", "a+b"} <= found
    assert not {"me", "u", "2024-10-21", "x.internal"} & found


def test_a_host_is_private_only_where_the_operator_named_it() -> None:
    named = Route(
        provider="openai", upstream_model="m", base_url="https://gpu-7.internal/v1", private_endpoint=True
    )
    assert server._private_hosts(named, "https://gpu-7.internal/v1") == ["gpu-7.internal"]
    assert set(server._private_hosts(named, "http://127.0.0.1:9/v1")) == {"gpu-7.internal", "127.0.0.1"}
    usual = Route(provider="openai", upstream_model="m", base_url="https://api.example/v1")
    assert server._private_hosts(usual, "https://api.example/v1") == []


# Where it listens.


def test_port_0_is_any_free_one_and_replies_are_not_held_back() -> None:
    with server._bind(CONFIG) as listener:
        assert listener.getsockname()[1] > 0
        assert listener.proto == socket.IPPROTO_TCP
        assert not listener.getblocking()
        with socket.create_connection(listener.getsockname(), timeout=5):
            pass


def test_a_port_in_use_is_said_with_a_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            server._bind(replace(CONFIG, port=port))
    said = str(caught.value)
    assert said.startswith(f"cannot serve on 127.0.0.1:{port}: ")
    assert said.endswith("; --port 0 picks a free port")


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid", "2001:db8::7"])
def test_an_address_of_another_machine_is_said_to_be_one(host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        server._bind(replace(CONFIG, host=host, token="a-long-bearer"))
    assert f"cannot serve on {host}:0: " in str(caught.value)
    assert str(caught.value).endswith("; --host names an address of this machine")
    assert "--port 0" not in str(caught.value)


# The ready file.


def announce(config: BridgeConfig) -> int:
    with server._bind(config) as listener:
        server._announce(config, listener, structlog.get_logger())
        return listener.getsockname()[1]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


def test_the_ready_file_says_where_the_bridge_is(tmp_path: Path) -> None:
    file = tmp_path / "ready.json"
    port = announce(replace(CONFIG, ready_file=str(file)))
    said = {"url": f"http://127.0.0.1:{port}", "pid": os.getpid(), "model": "openai/gpt-x"}
    assert json.loads(file.read_text()) == said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_an_ipv6_address_stands_in_brackets(tmp_path: Path) -> None:
    file = tmp_path / "ready.json"
    port = announce(replace(CONFIG, host="::1", ready_file=str(file)))
    assert json.loads(file.read_text())["url"] == f"http://[::1]:{port}"


def test_a_ready_file_of_before_is_replaced_whole_and_never_seen_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ready.json"
    file.write_text("of before")
    replaced: list[tuple[str, str]] = []
    plain = Path.replace

    def watched(self: Path, target: Path) -> Path:
        replaced.append((self.read_text(), target.read_text()))
        return plain(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    announce(replace(CONFIG, ready_file=str(file)))
    [(written, stood)] = replaced
    assert stood == "of before", "until the new one is whole, the old one stands"
    assert written == file.read_text()
    assert written.endswith("}\n")


def test_without_a_ready_file_none_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    announce(CONFIG)
    assert list(tmp_path.iterdir()) == []


def test_a_ready_file_in_no_folder_is_refused_before_anything_is_begun(tmp_path: Path) -> None:
    config = replace(CONFIG, ready_file=str(tmp_path / "no" / "r"), environ={"OPENAI_API_KEY": "k" * 20})
    with pytest.raises(ConfigError, match="there is no such folder"):
        asyncio.run(server.run(config))


# HTTP, as it comes over a socket.


async def says_ok(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


LIMIT = 64 * 1024


@pytest.mark.parametrize(
    "sent",
    [
        request(b"x: " + b"a" * (LIMIT - 200)),
        request(*(b"x-%d: 1" % n for n in range(190))),
        request(target=b"/" + b"a" * (LIMIT - 200)),
        request(body=b"a" * (4 * LIMIT)),
    ],
    ids=["one long header", "many headers", "a long target", "a long body"],
)
def test_what_is_within_the_limits_of_headers_is_served(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        assert (await serving.raw(sent)).startswith(b"HTTP/1.1 200 ")

    served(says_ok, use, monkeypatch)


@pytest.mark.parametrize(
    "sent",
    [
        request(b"x: " + b"a" * LIMIT),
        request(*(b"x-%d: %s" % (n, b"a" * 1000) for n in range(66))),
        request(*(b"x-%d: 1" % n for n in range(201))),
        request(target=b"/" + b"a" * (LIMIT + 1)),
        b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: 1\r\n" % n for n in range(210)),
    ],
    ids=[
        "one long header",
        "long ones together",
        "many headers",
        "a long target",
        "many, and no end of them",
    ],
)
def test_headers_beyond_the_limits_are_told_so(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        status, error, _ = error_of(await serving.raw(sent))
        assert status == b"HTTP/1.1 431 Request Header Fields Too Large"
        assert (error["type"], error["code"]) == ("invalid_request_error", "headers_too_large")

    served(says_ok, use, monkeypatch)


def test_the_limits_are_for_each_request_of_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    one = request(b"x: " + b"a" * (LIMIT // 2)).replace(b"connection: close\r\n", b"")

    async def use(serving: Serving) -> None:
        came = await serving.raw(one * 3 + request())
        assert came.count(b"HTTP/1.1 200 ") == 4

    served(says_ok, use, monkeypatch)


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ],
    ids=["words", "TLS", "a header without a colon"],
)
def test_what_is_not_http_gets_an_error_in_json(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use(serving: Serving) -> None:
        status, error, _ = error_of(await serving.raw(sent))
        assert status == b"HTTP/1.1 400 Bad Request"
        assert error["code"] == "invalid_http"

    served(says_ok, use, monkeypatch)


def test_the_application_learns_that_a_client_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    began, left = asyncio.Event(), asyncio.Event()

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        began.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    async def use(serving: Serving) -> None:
        _, writer = await serving.connect()
        writer.write(request())
        await began.wait()
        writer.transport.abort()
        await left.wait()

    served(waits, use, monkeypatch)


# Letting go.


class Unending:
    """An application whose calls last until they are let go or cancelled."""

    def __init__(self) -> None:
        self.began, self.let_go = asyncio.Event(), asyncio.Event()
        self.ends: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        self.began.set()
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        self.ends.append("finished")
        await send({"type": "http.response.body", "body": b"b"})


def test_the_first_signal_waits_for_calls_and_the_process_ends_as_if_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Unending()

    async def use(serving: Serving) -> None:
        reader, writer = await serving.connect()
        writer.write(request())
        await app.began.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        while not serving.server.should_exit:
            await asyncio.sleep(0.01)
        assert not serving.server.force_exit
        assert app.ends == []
        app.let_go.set()
        assert (await reader.read(-1)).endswith(b"1\r\nb\r\n0\r\n\r\n")

    served(app, use, monkeypatch, grace_s=600)
    assert app.ends == ["finished"]


def test_the_second_signal_cancels_calls_so_that_they_record_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Unending()

    async def use(serving: Serving) -> None:
        _, writer = await serving.connect()
        writer.write(request())
        await app.began.wait()
        serving.server._stop()
        assert not serving.server.force_exit
        serving.server._stop()
        assert serving.server.force_exit
        while not app.ends:
            await asyncio.sleep(0.01)

    served(app, use, monkeypatch, grace_s=600)
    assert app.ends == ["cancelled"]


def test_after_the_grace_time_calls_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Unending()

    async def use(serving: Serving) -> None:
        _, writer = await serving.connect()
        writer.write(request())
        await app.began.wait()
        serving.server._stop()
        while not app.ends:
            await asyncio.sleep(0.01)

    served(app, use, monkeypatch, grace_s=0)
    assert app.ends == ["cancelled"]


def test_signals_are_the_process_s_again_when_it_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    async def use(serving: Serving) -> None:
        pass

    served(says_ok, use, monkeypatch)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_the_records_of_cancelled_calls_are_waited_for_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Bridge:
        def __init__(self, *counts: int) -> None:
            self._counts = list(counts)
            self.asked = 0

        @property
        def in_flight(self) -> int:
            self.asked += 1
            return self._counts.pop(0) if len(self._counts) > 1 else self._counts[0]

    ending: Any = Bridge(2, 1, 0)
    asyncio.run(server._last_records(ending))
    assert ending.asked == 3
    monkeypatch.setattr(server, "_LAST_RECORDS_S", 0.05)
    stuck: Any = Bridge(1)
    asyncio.run(server._last_records(stuck))
    assert stuck.asked > 1
