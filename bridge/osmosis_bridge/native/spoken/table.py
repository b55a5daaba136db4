"""Which dialects are said as chat completions: from the path of a route to the function that translates a request.

A dialect without an entry is refused by name. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.spoken.completions import say_completions
from osmosis_bridge.native.spoken.messages import Messages
from osmosis_bridge.native.spoken.responses import translate_responses
from osmosis_bridge.native.spoken.translation import Translation

Translator = Callable[[Mapping[str, Json]], Translation]

CHAT_ROUTE: Final = "/chat/completions"
RESPONSES_ROUTE: Final = "/responses"
ROUTES: Final = (CHAT_ROUTE, RESPONSES_ROUTE, "/messages", "/completions", "/embeddings")
"""Every route that a bridge sends calls to; each is the `path` of a dialect of the bridge."""

TRANSLATORS: Final[Mapping[str, Translator]] = {
    "/messages": Messages,
    RESPONSES_ROUTE: translate_responses,
    "/completions": say_completions,
}


def translate(route: str, fields: Mapping[str, Json]) -> Translation:
    """The chat request that says the same; raises `Refused` for a dialect that has no translation."""
    translator = TRANSLATORS.get(route)
    if translator is None:
        raise Refused(
            f"{route} is not translated for this model; send chat completions to {CHAT_ROUTE}, or start the bridge "
            "with --lane wire for a provider that speaks this dialect itself",
            code="dialect_not_translated",
        )
    return translator(fields)
