"""What every translation shares: how a field without an equal is refused."""

from __future__ import annotations

from osmosis_bridge.native.spoken.translation import cannot_say


def test_a_field_without_an_equal_is_refused_by_name():
    refusal = cannot_say("previous_response_id", "nothing is kept between calls")
    assert (refusal.status, refusal.code, refusal.param) == (
        400,
        "unsupported_parameter",
        "previous_response_id",
    )
    assert "previous_response_id cannot be sent to this model: nothing is kept between calls" in str(
        refusal.body()
    )
