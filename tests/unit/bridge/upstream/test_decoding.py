"""Content codings undone piece by piece, at once, in bounded slices, to their true end."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from osmosis_bridge.upstream import TransportError
from osmosis_bridge.upstream.decoding import SLICE, Decoding, decoding_of


def raw_deflate(body: bytes) -> bytes:
    squeeze = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return squeeze.compress(body) + squeeze.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZip": gzip.compress,
    "deflate": zlib.compress,
    "deflate (bare)": raw_deflate,
    "br": brotli.compress,
    "zstd": lambda body: zstandard.ZstdCompressor(write_checksum=True).compress(body),
    "gzip, br": lambda body: brotli.compress(gzip.compress(body)),
    "zstd, deflate, gzip": lambda body: gzip.compress(zlib.compress(zstandard.compress(body))),
}
names = pytest.mark.parametrize("name", list(ENCODERS))
TEXT = b"".join(b'data: {"n":%d,"t":"%d"}\n\n' % (n, hash((n, 1))) for n in range(400))


def decoding(name: str) -> Decoding:
    made = decoding_of([name.removesuffix(" (bare)").encode()])
    assert made is not None
    return made


def drain(decoding: Decoding) -> list[bytes]:
    out: list[bytes] = []
    while piece := decoding.read():
        out.append(piece)
    return out


def decoded(decoding: Decoding, pieces: Sequence[bytes]) -> bytes:
    out = b""
    for piece in pieces:
        decoding.feed(piece)
        out += b"".join(drain(decoding))
    decoding.finish()
    return out


def cut_up(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(edges) if end > start]


@names
def test_a_body_comes_back_whole(name: str) -> None:
    assert decoded(decoding(name), [ENCODERS[name](TEXT)]) == TEXT


@names
def test_a_body_comes_back_byte_by_byte(name: str) -> None:
    encoded = ENCODERS[name](TEXT[:300])
    assert decoded(decoding(name), [bytes([byte]) for byte in encoded]) == TEXT[:300]


@names
def test_an_empty_body_is_empty_encoded_or_not(name: str) -> None:
    assert decoded(decoding(name), []) == b""
    assert decoded(decoding(name), [ENCODERS[name](b"")]) == b""


@given(
    body=st.one_of(st.binary(max_size=200), st.just(b"\0" * 200_000), st.just(TEXT)),
    places=st.lists(st.integers(min_value=0, max_value=10**6), max_size=6),
    name=st.sampled_from(list(ENCODERS)),
)
def test_a_body_does_not_depend_on_how_it_was_cut(body: bytes, places: list[int], name: str) -> None:
    assert decoded(decoding(name), cut_up(ENCODERS[name](body), places)) == body


@names
def test_a_body_that_stops_anywhere_before_its_end_is_cut(name: str) -> None:
    encoded = ENCODERS[name](TEXT[:200])
    for kept in range(1, len(encoded)):
        with pytest.raises(TransportError) as caught:
            decoded(decoding(name), [encoded[:kept]])
        assert caught.value.reason == "cut", kept


@names
def test_bytes_that_are_not_the_coding_are_malformed(name: str) -> None:
    with pytest.raises(TransportError) as caught:
        decoded(decoding(name), [b"<html>this is not compressed at all</html>" * 4])
    assert caught.value.reason == "malformed"


@names
def test_bytes_after_the_end_are_malformed(name: str) -> None:
    with pytest.raises(TransportError) as caught:
        decoded(decoding(name), [ENCODERS[name](TEXT) + b"<html>more</html>"])
    assert caught.value.reason == "malformed"


@names
def test_a_flipped_byte_never_gives_another_error(name: str) -> None:
    encoded = ENCODERS[name](TEXT)
    chance = random.Random(7)
    for _ in range(60):
        place = chance.randrange(len(encoded))
        spoiled = (
            encoded[:place] + bytes([encoded[place] ^ (1 + chance.randrange(255))]) + encoded[place + 1 :]
        )
        # Some flips fall on bytes without meaning, such as the time in gzip's header.
        with suppress(TransportError):
            decoded(decoding(name), [spoiled])


@pytest.mark.parametrize(
    ("name", "squeeze"),
    [
        ("gzip", lambda: zlib.compressobj(wbits=31)),
        ("deflate", zlib.compressobj),
        ("deflate", lambda: zlib.compressobj(wbits=-15)),
        ("zstd", lambda: zstandard.ZstdCompressor().compressobj()),
    ],
)
def test_an_event_that_was_flushed_comes_out_at_once(name: str, squeeze: Callable[[], object]) -> None:
    stream: object = squeeze()
    mode = zstandard.COMPRESSOBJ_FLUSH_BLOCK if name == "zstd" else zlib.Z_SYNC_FLUSH
    unfold = decoding(name)
    for turn in range(5):
        event = b"data: %d\n\n" % turn
        unfold.feed(stream.compress(event) + stream.flush(mode))  # pyright: ignore[reportAttributeAccessIssue]  # of three kinds
        assert b"".join(drain(unfold)) == event


def test_a_flushed_brotli_event_comes_out_at_once() -> None:
    stream = brotli.Compressor()
    unfold = decoding("br")
    for turn in range(5):
        event = b"data: %d\n\n" % turn
        unfold.feed(stream.process(event) + stream.flush())
        assert b"".join(drain(unfold)) == event


@pytest.mark.parametrize("name", ["gzip", "deflate", "deflate (bare)", "br", "zstd", "gzip, br"])
def test_a_bomb_unfolds_slice_by_slice(name: str) -> None:
    unfold = decoding(name)
    unfold.feed(ENCODERS[name](bytes(32 * 1024 * 1024)))
    sizes = [len(unfold.read()) for _ in range(8)]
    assert all(0 < size <= 2 * 1024 * 1024 + 2 * SLICE for size in sizes)


@pytest.mark.parametrize(("name", "bits"), [("gzip", 31), ("deflate", 15), ("deflate (bare)", -15)])
@pytest.mark.parametrize("size", [2 * SLICE, 3 * SLICE + 100])
def test_all_that_can_be_known_comes_out_wherever_the_input_stops(name: str, bits: int, size: int) -> None:
    encoded = ENCODERS[name](bytes(size))
    for kept in range(2, len(encoded) + 1):
        unfold = decoding(name)
        unfold.feed(encoded[:kept])
        assert sum(map(len, drain(unfold))) == len(zlib.decompressobj(bits).decompress(encoded[:kept])), kept


def test_a_zstd_bomb_of_bare_repeats_stays_in_its_bounds() -> None:
    frame = zstandard.ZstdCompressor(level=19, write_content_size=False).compress(bytes(1 << 28))
    unfold = decoding("zstd")
    unfold.feed(frame)
    assert max(len(unfold.read()) for _ in range(30)) <= 2 * 1024 * 1024 + 2 * SLICE


def test_a_zstd_window_beyond_what_http_allows_is_malformed() -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=24, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    encoded = stream.compress(random.Random(1).randbytes(1 << 20)) + stream.flush()
    with pytest.raises(TransportError) as caught:
        decoded(decoding("zstd"), [encoded])
    assert caught.value.reason == "malformed"


def test_gzip_members_and_zstd_frames_follow_one_another() -> None:
    assert (
        decoded(decoding("gzip"), [gzip.compress(b"one ") + gzip.compress(b""), gzip.compress(b"two")])
        == b"one two"
    )
    frames = [zstandard.compress(b"one "), zstandard.compress(b"two")]
    assert decoded(decoding("zstd"), [b"".join(frames)]) == b"one two"
    assert decoded(decoding("zstd"), frames) == b"one two"


def test_zeros_after_gzip_are_padding() -> None:
    assert decoded(decoding("gzip"), [gzip.compress(b"one") + bytes(40), bytes(3)]) == b"one"


@pytest.mark.parametrize("values", [[], [b""], [b"identity"], [b"Identity, "], [b"identity", b"identity"]])
def test_identity_is_no_coding(values: list[bytes]) -> None:
    assert decoding_of(values) is None


def test_codings_in_two_headers_are_one_list() -> None:
    unfold = decoding_of([b"gzip", b"identity, br"])
    assert unfold is not None
    assert decoded(unfold, [brotli.compress(gzip.compress(b"hi"))]) == b"hi"


@pytest.mark.parametrize(
    ("values", "detail"),
    [
        ([b"compress"], "'compress'"),
        ([b"gzip", b"rot13"], "'rot13'"),
        ([b"gzip, gzip, gzip, gzip"], "4 content codings"),
    ],
)
def test_an_unknown_or_endless_stack_of_codings_is_malformed_and_named(
    values: list[bytes], detail: str
) -> None:
    with pytest.raises(TransportError, match=detail) as caught:
        decoding_of(values)
    assert caught.value.reason == "malformed"
