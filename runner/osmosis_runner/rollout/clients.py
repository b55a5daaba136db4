"""The way from a rollout's context to an OpenAI client, without importing openai before somebody asks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openai import AsyncOpenAI

    from osmosis_runner.rollout.openai_client import SharedHttpClient


class Clients:
    """Makes OpenAI clients over one pool of connections. Belongs to one event loop."""

    def __init__(self) -> None:
        self._pool: SharedHttpClient | None = None

    def openai(self, base_url: str, api_key: str) -> AsyncOpenAI:
        """A client on the endpoint; RuntimeError when the openai package is not installed."""
        try:
            module = import_module("osmosis_runner.rollout.openai_client")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "openai":
                raise
            message = "ctx.client needs the openai package: pip install openai"
            raise RuntimeError(message) from None
        if self._pool is None:
            self._pool = module.shared_http_client()
        return module.openai_client(base_url, api_key, self._pool)
