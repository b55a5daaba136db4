"""What a client carries for us in `encrypted_content`."""

from __future__ import annotations

import base64
import json

import pytest

from osmosis_bridge.native.spoken.carried import pack, unpack

BLOCKS = [{"type": "thinking", "thinking": "hm", "signature": "sig"}]


def test_what_was_packed_comes_out():
    calls = {"c1": {"extra_content": {"google": {"thought_signature": "s"}}}}
    text = pack({"thinking_blocks": BLOCKS}, calls)
    assert text is not None
    found = unpack(text)
    assert found is not None
    assert found.turn == {"thinking_blocks": BLOCKS}
    assert found.calls == calls


def test_where_there_is_nothing_to_carry_there_is_no_text():
    assert pack({}, {}) is None


@pytest.mark.parametrize(
    "text",
    [
        "gAAAAABo-openai-s-own",
        "osmosis.1.!!",
        "osmosis.1." + base64.urlsafe_b64encode(b"not json").decode(),
        "osmosis.1." + base64.urlsafe_b64encode(json.dumps({"turn": {"role": "system"}}).encode()).decode(),
        "osmosis.1."
        + base64.urlsafe_b64encode(json.dumps({"turn": {"thinking_blocks": "x"}}).encode()).decode(),
        "osmosis.1."
        + base64.urlsafe_b64encode(json.dumps({"calls": {"c": {"function": {}}}}).encode()).decode(),
    ],
)
def test_a_text_that_is_none_of_ours_or_was_changed_is_not_read(text: str):
    assert unpack(text) is None
