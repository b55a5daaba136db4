from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from osmosis_runner.rollout import app as app_module
from osmosis_runner.rollout.app import RolloutApp
from osmosis_runner.rollout.desk import Desk, Reply


class FakeDesk:
    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []

    def health(self) -> Reply:
        return 200, b'{"status":"ok"}', ()

    def admit(self, body: bytes) -> Reply:
        self.asked.append(("admit", body))
        return 429, b"{}", ((b"retry-after", b"5"),)

    def cancel(self, body: bytes) -> Reply:
        self.asked.append(("cancel", body))
        return 200, b"{}", ()

    async def result(self, rollout_id: str, lease: str | None, *, until_end: bool) -> Reply:
        self.asked.append(("result", rollout_id, lease, until_end))
        return 200, b"{}", ()


def ask(
    method: str,
    target: str,
    parts: tuple[bytes, ...] = (b"",),
    headers: dict[str, str] | None = None,
    key: str = "",
) -> tuple[int, dict[bytes, bytes], bytes, FakeDesk]:
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
    }
    events = [{"type": "http.request", "body": p, "more_body": p is not parts[-1]} for p in parts]
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return events.pop(0)

    async def send(event: Any) -> None:
        sent.append(event)

    desk = FakeDesk()
    asyncio.run(RolloutApp(cast("Desk", desk), key or None)(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"], desk


def test_health_is_answered() -> None:
    status, headers, body, _ = ask("GET", "/health")
    assert (status, body) == (200, b'{"status":"ok"}')
    assert headers[b"content-length"] == b"%d" % len(body)


def test_a_body_in_pieces_is_one_body() -> None:
    status, headers, _, desk = ask("POST", "/rollout", (b"ab", b"", b"c"))
    assert desk.asked == [("admit", b"abc")]
    assert (status, headers[b"retry-after"]) == (429, b"5")


def test_a_poll_carries_its_lease_and_says_what_it_waits_for() -> None:
    lease = {"x-osmosis-rollout-lease": "t0k"}
    assert ask("GET", "/rollout/r1/result", headers=lease)[3].asked == [("result", "r1", "t0k", False)]
    waiting = ask("GET", "/rollout/r1/result?wait=terminal", headers=lease)[3].asked
    assert waiting == [("result", "r1", "t0k", True)]
    assert ask("GET", "/rollout/r1/result")[3].asked == [("result", "r1", None, False)]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/docs", 404),
        ("GET", "/rollout", 405),
        ("POST", "/health", 405),
        ("POST", "/rollout/r1/result", 405),
        ("GET", "/rollout/cancel", 405),
    ],
)
def test_other_routes_and_methods_are_refused(method: str, path: str, status: int) -> None:
    assert ask(method, path)[0] == status


@pytest.mark.parametrize("given", [None, "Bearer wrong", "sekret", "Bearer"])
def test_with_a_bearer_nothing_is_told_without_it(given: str | None) -> None:
    headers = {"authorization": given} if given else {}
    status, _, body, _ = ask("GET", "/health", headers=headers, key="sekret")
    assert (status, body) == (401, b'{"detail":"unauthorized"}')


def test_the_right_bearer_opens() -> None:
    assert ask("GET", "/health", headers={"authorization": "Bearer sekret"}, key="sekret")[0] == 200


def test_a_body_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MAX_BODY_BYTES", 5)
    status, _, _, desk = ask("POST", "/rollout", (b"abc", b"def"))
    assert (status, desk.asked) == (413, [])
