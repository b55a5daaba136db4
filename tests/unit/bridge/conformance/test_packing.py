"""Encodings: what one side packs the other unpacks, and what cannot be unpacked stays."""

from __future__ import annotations

import pytest

from osmosis_bridge.conformance import packing
from osmosis_bridge.conformance.packing import Coder, unpacked

BODY = b'{"answer":"hello"}' * 20


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", packing.gzipped),
        ("GZIP ", packing.gzipped),
        ("x-gzip", packing.gzipped),
        ("gzip", packing.two_members),
        ("deflate", packing.deflated),
        ("deflate", packing.raw_deflated),
        ("br", packing.BROTLI),
        ("zstd", packing.zstandard_packed),
    ],
)
def test_what_is_packed_is_unpacked(encoding: str, pack: Coder) -> None:
    assert pack(BODY) != BODY
    assert unpacked(pack(BODY), encoding) == BODY


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "snappy", ""])
def test_a_body_that_is_not_what_it_says_stays(encoding: str) -> None:
    assert unpacked(BODY, encoding) == BODY
