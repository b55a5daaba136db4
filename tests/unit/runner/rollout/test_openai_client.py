from __future__ import annotations

import asyncio

from mock_provider import MockProvider
from osmosis_runner.rollout.openai_client import openai_client, shared_http_client


def test_closing_one_client_leaves_the_others_connected() -> None:
    async def main(url: str) -> str | None:
        pool = shared_http_client()
        first, second = openai_client(url, "k", pool), openai_client(url, "k", pool)
        async with first:
            pass
        await first.close()
        reply = await second.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "SAY:still"}]
        )
        await pool.end()
        return reply.choices[0].message.content

    with MockProvider() as provider:
        assert asyncio.run(main(provider.url)) == "still"
