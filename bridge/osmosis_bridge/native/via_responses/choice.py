"""Which of OpenAI's endpoints a chat request goes to: chat completions, unless it is one that Responses alone takes.

What is known of the models: OpenAI's chat completions refuses functions while a model of GPT-5.4 or later reasons,
which those after GPT-5.4 do unless told not to; and some models have no chat completions. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from osmosis_bridge.native.jsontree import Json, as_items, as_object

PREFIX: Final = "responses/"
"""Before a model's name in its path: whatever the request, it goes to Responses."""
_ENFORCING: Final = frozenset({"openai", "azure"})
"""The providers that refuse what is refused here."""
_OWN_HOST: Final = "api.openai.com"
_SERIES: Final = re.compile(r"(?:^|/)gpt-(\d+)(?:\.(\d+))?(?=[.-]|$)")
_REFUSES_TOOLS: Final = (5, 4)
_REASONS_UNASKED: Final = (5, 5)
_REASONS: Final = re.compile(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|\d\d)|codex|computer-use)")
_TALKS: Final = re.compile(r"(?:^|/)gpt-5(?:\.\d+)?-chat")


class Backend(msgspec.Struct, frozen=True):
    """What is known of where calls go.

    `model` is its name there; `forced` that the model path says Responses; `only` that the model has no chat
    completions.
    """

    model: str
    provider: str
    forced: bool = False
    only: bool = False


def why_responses(backend: Backend, fields: Mapping[str, Json]) -> str | None:
    """Why this chat request goes to Responses, None where it goes to chat completions.

    For `openai` that holds at OpenAI's own addresses, see `is_openai_s_own`; but for what is forced.
    """
    if backend.forced:
        return "the model path says responses/"
    if backend.provider not in _ENFORCING:
        return None
    if backend.only:
        return "this model has no chat completions"
    series = _series(backend.model)
    functions = any(as_object(tool).get("type") == "function" for tool in as_items(fields.get("tools")))
    if series < _REFUSES_TOOLS or not functions or _TALKS.search(backend.model):
        return None
    effort = fields.get("reasoning_effort")
    if effort == "none" or (effort is None and series < _REASONS_UNASKED):
        return None
    return "OpenAI's chat completions takes no functions while this model reasons; with reasoning_effort none it does"


def is_openai_s_own(url: str) -> bool:
    """Whether OpenAI itself answers there; others serve models of any name under its prefix."""
    host = urlsplit(url).hostname or ""
    return host == _OWN_HOST or host.endswith(f".{_OWN_HOST}")


def reasons(model: str) -> bool:
    """Whether a model of OpenAI's reasons, so that there is reasoning to ask for."""
    return bool(_REASONS.search(model)) and not _TALKS.search(model)


def _series(model: str) -> tuple[int, int]:
    found = _SERIES.search(model)
    return (0, 0) if found is None else (int(found[1]), int(found[2] or 0))
