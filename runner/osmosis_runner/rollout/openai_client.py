"""OpenAI clients of one process that share one pool of connections.

Imported only when a rollout asks for `ctx.client`, because the openai package takes most of a second to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openai import AsyncOpenAI, DefaultAsyncHttpxClient

if TYPE_CHECKING:
    from types import TracebackType


class SharedHttpClient(DefaultAsyncHttpxClient):
    """An HTTP client that one rollout cannot close under the others."""

    async def aclose(self) -> None:
        """Stay open: the connections belong to every rollout of the process."""

    async def end(self) -> None:
        """Close every connection."""
        await super().aclose()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Stay open."""


def shared_http_client() -> SharedHttpClient:
    """A pool for every rollout of the process."""
    # The endpoint is the bridge on loopback: a proxy from the environment would only be in the way.
    return SharedHttpClient(trust_env=False)


def openai_client(base_url: str, api_key: str, http_client: SharedHttpClient) -> AsyncOpenAI:
    """A client on the given endpoint (30 µs: the pool is the expensive part)."""
    return AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=http_client)
