from __future__ import annotations

import asyncio
import sys

import pytest

from osmosis_runner.rollout.clients import Clients


def test_without_openai_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "osmosis_runner.rollout.openai_client", raising=False)
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(RuntimeError, match="pip install openai"):
        Clients().openai("http://127.0.0.1:1/v1", "k")


def test_every_client_shares_one_pool() -> None:
    async def main() -> None:
        clients = Clients()
        first, second = (
            clients.openai("http://127.0.0.1:1/v1/a", "k1"),
            clients.openai("http://127.0.0.1:1/v1/b", "k2"),
        )
        assert first._client is second._client
        assert (str(first.base_url), first.api_key) == ("http://127.0.0.1:1/v1/a/", "k1")

    asyncio.run(main())
