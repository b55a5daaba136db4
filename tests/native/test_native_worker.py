"""The native lane's process as it is started by a bridge."""

from __future__ import annotations

import asyncio
import os

import httpx
import pytest

from native_providers import native_providers
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
