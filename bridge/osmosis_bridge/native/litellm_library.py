"""The only file that loads LiteLLM: how it is set up, and the few things of it that we use.

It is loaded in a thread of its own, takes seconds, and does no network: its downloads are turned off, and the gate
would hold them. What is asked of it is pinned by version, and by the matrix of `tests/native`.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final, cast

from osmosis_bridge.native.families import family_of
from osmosis_bridge.native.gate import GATE, Gate, Withheld, install
from osmosis_bridge.native.jsontree import Json, as_object
from osmosis_bridge.native.plan import Plan
from osmosis_bridge.native.rule import Family
from osmosis_bridge.native.spoken.table import RESPONSES_ROUTE
from osmosis_bridge.native.via_responses.choice import PREFIX, Backend
from osmosis_bridge.providers import find_wire

_OURS: Final[Mapping[str, object]] = {
    "telemetry": False,
    "drop_params": False,
    "modify_params": False,
    "disable_aiohttp_transport": True,
    "disable_stop_sequence_limit": True,
    "suppress_debug_info": True,
    "set_verbose": False,
    "num_retries": 0,
    "disable_streaming_logging": True,
    "disable_token_counter": True,
    "cache": None,
    "model_fallbacks": None,
}
_CALLBACKS: Final = (
    "callbacks", "success_callback", "failure_callback", "input_callback", "service_callback",
    "_async_success_callback", "_async_failure_callback", "_async_input_callback",
)  # fmt: skip


class LiteLLM:
    """LiteLLM, loaded and set up for one model path."""

    def __init__(self, library: ModuleType, model_path: str, api_base: str | None) -> None:
        self._library: Any = library
        found, self.provider = self._found(model_path, api_base)
        self.model: Final = found.removeprefix(PREFIX)
        self.family: Final[Family] = family_of(
            self.provider, self.model, speaks_openai=find_wire(self.provider) is not None
        )
        supported: Json = library.get_supported_openai_params(
            model=self.model, custom_llm_provider=self.provider
        )
        self.supported: Final = frozenset(cast("list[str]", supported or []))
        self.reserved: Final = frozenset(cast("list[str]", library.types.utils.all_litellm_params))
        self.refusals: Final = (library.UnsupportedParamsError,)
        responds = self.family.relayed and self._responds(api_base)
        self.speaks: Final = self.family.speaks | ({RESPONSES_ROUTE} if responds else set[str]())
        self.backend: Final = Backend(
            self.model,
            self.provider,
            forced=responds and found != self.model,
            only=responds and self._mode() == "responses",
        )

    def _found(self, model_path: str, api_base: str | None) -> tuple[str, str]:
        model, provider, _, _ = self._library.get_llm_provider(model=model_path, api_base=api_base)
        return str(model), str(provider)

    def _responds(self, api_base: str | None) -> bool:
        """Whether LiteLLM knows the provider to have OpenAI's Responses itself."""
        configs: Any = self._library.utils.ProviderConfigManager
        found: object = configs.get_provider_responses_api_config(
            provider=self.provider, model=self.model, api_base=api_base
        )
        return found is not None

    def _mode(self) -> str:
        """What LiteLLM's catalogue says the model is called by; empty for a model it does not know."""
        try:
            info = self._library.get_model_info(model=self.model, custom_llm_provider=self.provider)
        except Exception:  # noqa: BLE001 - LiteLLM raises a bare one for a model that it does not know.
            return ""
        return str(as_object(info).get("mode") or "")

    async def respond(self, gate: Gate, kwargs: Mapping[str, Json]) -> Json:
        """One call of Responses behind its gate, as `complete` makes one of chat completions."""
        GATE.set(gate)
        return await self._library.aresponses(**kwargs)

    async def complete(self, gate: Gate, kwargs: Mapping[str, Json]) -> Json:
        """One completion behind its gate: LiteLLM's reply, or its stream. Raises whatever LiteLLM raises.

        The gate stays for the rest of the task, since some streams send their request when they are first read.
        """
        GATE.set(gate)
        return await self._library.acompletion(**kwargs)

    async def embed(self, gate: Gate, kwargs: Mapping[str, Json]) -> Json:
        """Embeddings behind their gate. Raises whatever LiteLLM raises."""
        GATE.set(gate)
        return await self._library.aembedding(**kwargs)


def load(model_path: str, api_base: str | None) -> LiteLLM:
    """Load LiteLLM and set it up; takes seconds, and belongs in a thread.

    Raises `ImportError` where it is not installed, and LiteLLM's own error for a model path it cannot place.
    """
    warnings.simplefilter("ignore")
    install()
    # What is loaded stays; looking through it for garbage, again and again while it grows, would stall the door.
    gc.disable()
    library = importlib.import_module("litellm")
    gc.freeze()
    gc.enable()
    for name, value in _OURS.items():
        setattr(library, name, value)
    for name in _CALLBACKS:
        setattr(library, name, [])
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return LiteLLM(library, model_path, api_base)


def rehearse(loaded: LiteLLM, kwargs: Mapping[str, Json]) -> None:
    """Make one call up to the gate, so that what LiteLLM loads when it is first used is loaded; nothing is sent."""
    messages: list[dict[str, Json]] = [{"role": "user", "content": "x"}]
    gate = Gate("explain", Plan({}, (), (), {}), loaded.family, messages)

    async def once() -> None:
        try:
            await loaded.complete(gate, {**kwargs, "messages": messages})
        except Withheld:
            pass
        except Exception:  # noqa: BLE001 - whatever is wrong, a missing key above all, the first real call says it.
            return

    asyncio.run(once())
