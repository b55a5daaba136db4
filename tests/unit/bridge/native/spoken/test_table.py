"""Which dialects are translated."""

from __future__ import annotations

import pytest

from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.errors import Refused
from osmosis_bridge.native.spoken.table import ROUTES, TRANSLATORS, translate


def test_the_routes_are_those_of_the_bridge_s_dialects():
    assert set(ROUTES) == {dialect.path for dialect in DIALECTS.values()}
    assert TRANSLATORS.keys() < set(ROUTES)


def test_a_dialect_without_a_translation_is_refused_by_name_with_the_remedy():
    with pytest.raises(Refused) as caught:
        translate("/audio/speech", {})
    assert caught.value.code == "dialect_not_translated"
    assert caught.value.message.startswith("/audio/speech is not translated")
    assert "--lane wire" in caught.value.message
