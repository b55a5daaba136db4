"""The native lane's process as it is started by a bridge."""

from __future__ import annotations

import asyncio
import functools
import os
import threading

import httpx
import pytest

from native_providers import Answer, Asked, native_providers
from osmosis_bridge.native_process import start_native

pytestmark = pytest.mark.timeout(120)


def test_it_answers_at_once_serves_when_litellm_is_loaded_and_ends_when_told() -> None:
    async def main() -> None:
        with native_providers() as provider:
            worker = await start_native(
                "anthropic/claude-sonnet-4-5",
                api_base=provider.url,
                api_key="worker-test-key",
                environ=os.environ,
            )
            try:
                async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
                    health = await client.get(worker.base_url.removesuffix("/v1") + "/health")
                    assert health.json()["status"] == "ok"
                    body = {"model": "any", "messages": [{"role": "user", "content": "hi"}]}
                    url = f"{worker.base_url}/chat/completions"
                    headers = {"authorization": f"Bearer {worker.api_key}"}
                    reply = await client.post(url, json=body, headers=headers)
                    assert reply.json()["choices"][0]["message"]["content"] == "Hello world"
                    assert provider.calls[0].headers["x-api-key"] == "worker-test-key"
                    assert (await client.post(url, json=body)).status_code == 401
                assert worker.end_reason() is None
                assert worker.api_key not in repr(worker)
            finally:
                await worker.stop()
            assert worker.end_reason() is not None

    asyncio.run(main())


def test_more_calls_than_a_client_has_connections_by_itself_reach_the_provider_at_once() -> None:
    calls, all_there = 110, threading.Event()

    def held(_: Asked) -> Answer:
        if len(provider.calls) > calls:
            all_there.set()
        return Answer() if all_there.is_set() else Answer(gap_s=30.0)

    async def main() -> None:
        worker = await start_native(
            "anthropic/claude-sonnet-4-5",
            api_base=provider.url,
            api_key="worker-test-key",
            environ=os.environ,
        )
        try:
            async with httpx.AsyncClient(
                timeout=100, trust_env=False, limits=httpx.Limits(max_connections=None)
            ) as client:
                ask = functools.partial(
                    client.post,
                    f"{worker.base_url}/chat/completions",
                    json={"model": "any", "messages": [{"role": "user", "content": "hi"}]},
                    headers={"authorization": f"Bearer {worker.api_key}"},
                )
                provider.answer = Answer()
                assert (await ask()).status_code == 200
                provider.decide = held
                async with asyncio.TaskGroup() as group:
                    waiting = [group.create_task(ask()) for _ in range(calls)]
                    assert await asyncio.to_thread(all_there.wait, 60)
                    for task in waiting:
                        task.cancel()
        finally:
            await worker.stop()

    with native_providers() as provider:
        asyncio.run(main())


def test_a_model_path_that_litellm_cannot_place_is_told_to_the_call() -> None:
    async def main() -> None:
        worker = await start_native("nobody-knows/m", api_base=None, api_key=None, environ=os.environ)
        try:
            async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
                reply = await client.post(
                    f"{worker.base_url}/chat/completions",
                    json={"model": "m", "messages": [{"role": "user", "content": "hi"}]},
                    headers={"authorization": f"Bearer {worker.api_key}"},
                )
            assert reply.status_code == 503
            assert "nobody-knows" in reply.json()["error"]["message"]
        finally:
            await worker.stop()

    asyncio.run(main())
