"""What a caller of the native lane wrote, beside the chat request that it is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.spoken.translation import Translation


class Written(msgspec.Struct, frozen=True):
    """What a caller wrote, the chat request that it is, whose rollout it is of, and the translation between the two."""

    by_client: Mapping[str, Json]
    fields: Mapping[str, Json]
    rollout_id: str
    translation: Translation | None = None
