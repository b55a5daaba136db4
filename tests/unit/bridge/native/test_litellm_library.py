"""How LiteLLM is set up, on a stand-in for it."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from osmosis_bridge.native import litellm_library
from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.gate import GATE
from osmosis_bridge.native.litellm_library import load, rehearse


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("litellm")
    module.get_llm_provider = lambda model, api_base: (
        model.partition("/")[2],
        model.partition("/")[0],
        None,
        api_base,
    )
    module.get_supported_openai_params = lambda model, custom_llm_provider: ["tools", "seed"]
    module.types = SimpleNamespace(utils=SimpleNamespace(all_litellm_params=["tags"]))
    module.UnsupportedParamsError = ValueError
    module.success_callback = ["somebody"]
    module.drop_params = True
    module.seen = []

    async def acompletion(**kwargs: Any) -> str:
        module.seen.append((kwargs, GATE.get()))
        return "reply"

    module.acompletion = acompletion
    monkeypatch.setitem(sys.modules, "litellm", module)
    monkeypatch.setattr(litellm_library, "install", lambda: None)
    return module


def test_nothing_is_dropped_changed_retried_or_reported(library: Any) -> None:
    loaded = load("gemini/gemini-x", None)
    assert (library.drop_params, library.modify_params, library.telemetry, library.num_retries) == (
        False,
        False,
        False,
        0,
    )
    assert library.success_callback == []
    assert library.disable_aiohttp_transport is True
    assert (loaded.model, loaded.provider, loaded.family) == ("gemini-x", "gemini", GEMINI)
    assert loaded.supported == {"tools", "seed"}
    assert loaded.reserved == {"tags"}


def test_a_rehearsal_makes_one_call_behind_its_own_gate(library: Any) -> None:
    loaded = load("gemini/gemini-x", None)
    rehearse(loaded, {"model": "gemini/gemini-x"})
    (kwargs, gate) = library.seen[0]
    assert kwargs["messages"]
    assert gate.mode == "explain"
    assert GATE.get() is None


def test_a_rehearsal_that_fails_is_no_matter(library: Any) -> None:
    async def acompletion(**kwargs: Any) -> str:
        raise ValueError("no key")

    library.acompletion = acompletion
    rehearse(load("gemini/gemini-x", None), {})


def test_a_call_runs_with_its_gate(library: Any) -> None:
    loaded = load("gemini/gemini-x", None)
    gate: Any = object()
    assert asyncio.run(loaded.complete(gate, {"a": 1})) == "reply"
    assert library.seen == [({"a": 1}, gate)]
