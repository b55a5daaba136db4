"""Every dialect that is served, by name and by path."""

from __future__ import annotations

from collections.abc import Mapping

from osmosis_bridge.dialects.chat import CHAT_DIALECT, COMPLETIONS_DIALECT
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.dialects.embeddings import EMBEDDINGS_DIALECT
from osmosis_bridge.dialects.messages import MESSAGES_DIALECT
from osmosis_bridge.dialects.responses import RESPONSES_DIALECT

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        CHAT_DIALECT, RESPONSES_DIALECT, MESSAGES_DIALECT, COMPLETIONS_DIALECT, EMBEDDINGS_DIALECT,
    )
}  # fmt: skip
