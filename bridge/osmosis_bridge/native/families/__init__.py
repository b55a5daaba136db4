"""The dialects of the native lane, and which of them a model speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from osmosis_bridge.native.families.anthropic import ANTHROPIC, VERTEX_CLAUDE
from osmosis_bridge.native.families.bedrock import CONVERSE
from osmosis_bridge.native.families.chat import CHAT, MISTRAL, OPENAI, OUTPUT_LIMIT_ONLY
from osmosis_bridge.native.families.cohere import COHERE
from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.families.ollama import OLLAMA, OLLAMA_GENERATE
from osmosis_bridge.native.families.other import OTHER
from osmosis_bridge.native.rule import Family

_BY_PROVIDER: Final = {
    "anthropic": ANTHROPIC,
    "azure": OPENAI,
    "cohere": COHERE,
    "cohere_chat": COHERE,
    "deepseek": OUTPUT_LIMIT_ONLY,
    "gemini": GEMINI,
    "mistral": MISTRAL,
    "ollama": OLLAMA_GENERATE,
    "ollama_chat": OLLAMA,
    "openai": OPENAI,
}
_SPEAK_LESS: Final[Mapping[str, frozenset[str]]] = {
    "cerebras": frozenset({"/completions"}),
    "groq": frozenset(),
    "xai": frozenset({"/completions"}),
}
"""Providers with OpenAI's chat completions that have not all of its older routes."""
_FOREIGN_ON_VERTEX: Final = (
    "meta/",
    "mistral",
    "codestral",
    "jamba",
    "deepseek",
    "qwen",
    "openai/",
    "minimax",
    "moonshot",
    "zai",
)


def family_of(provider: str, model: str, *, speaks_openai: bool) -> Family:
    """The dialect in which LiteLLM reaches `model` of `provider`.

    `speaks_openai` is the catalogue's word on a provider that no table here names.
    """
    if provider in ("vertex_ai", "vertex_ai_beta"):
        return _on_vertex(model)
    if provider == "bedrock":
        return OTHER if model.startswith(("invoke/", "agent/", "agentcore/")) else CONVERSE
    if provider == "azure_ai":
        return ANTHROPIC if "claude" in model.lower() else CHAT
    known = _BY_PROVIDER.get(provider)
    if known is not None:
        return known
    if not speaks_openai:
        return OTHER
    less = _SPEAK_LESS.get(provider)
    return CHAT if less is None else msgspec.structs.replace(CHAT, speaks=less)


def _on_vertex(model: str) -> Family:
    name = model.lower()
    if "claude" in name:
        return VERTEX_CLAUDE
    return OTHER if name.startswith(_FOREIGN_ON_VERTEX) else GEMINI
