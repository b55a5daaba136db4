"""Content encodings, both ways, typed: what a scripted upstream packs and the raw client unpacks."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

import brotli  # pyright: ignore[reportMissingTypeStubs]  # it has none; what is used of it is typed below
import zstandard

Coder: TypeAlias = Callable[[bytes], bytes]

_BROTLI: Final = cast("Mapping[str, object]", vars(brotli))
_unbrotli = cast("Coder", _BROTLI["decompress"])
BROTLI = cast("Coder", _BROTLI["compress"])
_BROTLI_ERROR = cast("type[Exception]", _BROTLI["error"])


def gzipped(data: bytes) -> bytes:
    """One gzip member."""
    return gzip.compress(data)


def two_members(data: bytes) -> bytes:
    """Two gzip members, one after the other."""
    return gzip.compress(data[:20]) + gzip.compress(data[20:])


def deflated(data: bytes) -> bytes:
    """Deflate in its zlib wrapper, as the standard says."""
    return zlib.compress(data)


def raw_deflated(data: bytes) -> bytes:
    """Deflate without a wrapper, as some servers send it."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def zstandard_packed(data: bytes) -> bytes:
    """One zstandard frame."""
    return zstandard.ZstdCompressor().compress(data)


def _inflate(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return zlib.decompress(data, -15)


def _unzstandard(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


_UNPACK: Mapping[str, Coder] = {
    "gzip": gzip.decompress,
    "x-gzip": gzip.decompress,
    "deflate": _inflate,
    "br": _unbrotli,
    "zstd": _unzstandard,
}


def unpacked(body: bytes, encoding: str) -> bytes:
    """The body with its content encoding undone; as it is where that cannot be done."""
    unpack = _UNPACK.get(encoding.strip().lower())
    if unpack is None:
        return body
    try:
        return unpack(body)
    except (OSError, EOFError, zlib.error, _BROTLI_ERROR, zstandard.ZstdError):
        return body
