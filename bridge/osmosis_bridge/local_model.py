"""A model of this machine as an upstream: a server process of our own, on loopback, for as long as its owner lives.

Starts `local_server.py`, tells it over stdin what to serve, waits for the address, and holds the pipe whose closing
ends it. The process gets no provider's key: its environment is an allow-list, and its own key is random and lives as
long as it does. Never imports llama.cpp. Knows nothing of calls.
"""

from __future__ import annotations

import importlib.util
import re
import secrets
from collections.abc import Mapping
from typing import Final

from osmosis_bridge.local_weights import (
    KNOWN_LOCAL_MODELS,
    LocalModelError,
    ensure_weights,
    known_weights,
)
from osmosis_bridge.owned_process import NotStarted, OwnedEndpoint, OwnedProcess, start_owned

__all__ = ["KNOWN_LOCAL_MODELS", "LocalModel", "LocalModelError", "start_local_model"]

SLOTS: Final = 4
"""Calls that are answered at once; more wait their turn."""
CONTEXT_TOKENS: Final = 2048
"""Prompt and completion of one call."""

_START_S: Final = 60.0
_STOP_S: Final = 2.0
_ERROR_LINE: Final = re.compile(r"[\d.]+ E \s*(.+)")
# What an interpreter and a library need to find themselves.
_ENVIRONMENT: Final = re.compile(
    r"PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|TEMP|TMP|SYSTEMROOT|VIRTUAL_ENV|PYTHON(PATH|HOME|UTF8|DONTWRITEBYTECODE)"
    r"|(DY)?LD_\w+|OMP_\w+|GGML_\w+|CUDA_\w+"
)


class LocalModel(OwnedEndpoint):
    """A running local model: an OpenAI-compatible endpoint that takes `api_key` as its bearer."""


async def start_local_model(name: str, environ: Mapping[str, str]) -> LocalModel:
    """Serve a local model and return once it answers; its weights are fetched first where they are not here.

    Raises `LocalModelError`: the name is unknown, llama.cpp is not installed, the weights cannot be had, or the server
    does not start.
    """
    weights = known_weights(name)
    if importlib.util.find_spec("xllamacpp") is None:
        raise LocalModelError(
            f"local/{name} needs llama.cpp, which is not installed: pip install 'osmosis-bridge[local]'"
        )
    file = await ensure_weights(weights, environ)
    api_key = secrets.token_urlsafe(32)
    order = {
        "model": str(file),
        "alias": weights.name,
        "api_key": api_key,
        "slots": SLOTS,
        "context": CONTEXT_TOKENS,
    }
    process = OwnedProcess(_ERROR_LINE, _STOP_S)
    allowed = {key: value for key, value in environ.items() if _ENVIRONMENT.fullmatch(key)}
    try:
        url = await start_owned(process, "osmosis_bridge.local_server", order, allowed, _START_S)
    except NotStarted as error:
        raise LocalModelError(f"local/{weights.name} {error}") from None
    return LocalModel(url, api_key, process)
