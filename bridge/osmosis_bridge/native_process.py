"""The native lane's process, as the bridge sees it: one more OpenAI-compatible endpoint on loopback.

Starts `python -m osmosis_bridge.native`, tells it over stdin which model to reach and with which key, and holds the
pipe whose closing ends it. The provider's credentials are in that process alone. Never imports LiteLLM; knows nothing
of calls.
"""

from __future__ import annotations

import importlib.util
import re
import secrets
from collections.abc import Mapping
from typing import Final

from osmosis_bridge.owned_process import NotStarted, OwnedEndpoint, OwnedProcess, start_owned

_START_S: Final = 60.0
_OURS: Final = re.compile(r"OSMOSIS_\w+|LITELLM_\w+|LANGFUSE_\w+|LANGSMITH_\w+|OTEL_\w+|DD_\w+")
"""What the process must not see: the bridge's bearer, and what would steer LiteLLM or have it report elsewhere."""
_LITELLM: Final[Mapping[str, str]] = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_LOG": "CRITICAL",
    "DISABLE_AIOHTTP_TRANSPORT": "True",
}
"""No downloads when it is loaded, and HTTP by way of httpx, where requests are checked."""


class NativeLaneError(Exception):
    """The native lane cannot start; says what to do."""


class NativeWorker(OwnedEndpoint):
    """The running process: an OpenAI-compatible endpoint that takes `api_key` as its bearer."""


async def start_native(
    model_path: str, *, api_base: str | None, api_key: str | None, environ: Mapping[str, str]
) -> NativeWorker:
    """Start the process for `PROVIDER/MODEL` and return once it answers; LiteLLM is loaded while calls wait.

    `api_base` and `api_key` are the operator's, None for the provider's usual ones, which LiteLLM takes from `environ`.
    Raises `NativeLaneError`: LiteLLM is not installed, or the process does not start.
    """
    if importlib.util.find_spec("litellm") is None:
        raise NativeLaneError(
            f"{model_path} needs translation by LiteLLM, which is not installed: pip install 'osmosis-bridge[native]'"
        )
    bearer = secrets.token_urlsafe(32)
    order = {"model": model_path, "api_base": api_base, "api_key": api_key, "bearer": bearer}
    process = OwnedProcess()
    try:
        url = await start_owned(process, "osmosis_bridge.native", order, child_environ(environ), _START_S)
    except NotStarted as error:
        raise NativeLaneError(f"the native lane {error}") from None
    return NativeWorker(url, bearer, process)


def child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the process: the bridge's, without what is the bridge's own or would steer LiteLLM."""
    return {name: value for name, value in environ.items() if not _OURS.fullmatch(name)} | dict(_LITELLM)
