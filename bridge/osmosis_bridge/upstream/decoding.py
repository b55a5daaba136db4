"""Content codings undone piece by piece: gzip, deflate, br, zstd, and stacks of them.

Pure: bytes go in as they arrive, and whatever can be known of the body comes out at once, in bounded slices, so that
neither a flushed event waits nor a small body that unfolds to gigabytes fills the memory. Knows nothing of where
the bytes come from.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, cast

import brotli  # pyright: ignore[reportMissingTypeStubs]  # it has none; what is used of it is typed below
import zstandard

from osmosis_bridge.upstream import TransportError

__all__ = ["SLICE", "Decoding", "decoding_of"]

SLICE: Final = 64 * 1024
"About how much one read gives out; a zstd read may reach 2 MiB more (see `_Zstd`)."

_MOST_CODINGS: Final = 3
_ZSTD_STEP: Final = 64
# RFC 9659: a zstd content coding must not need a larger window than this.
_ZSTD_WINDOW: Final = 8 * 1024 * 1024


class _BrotliStream(Protocol):
    def process(self, string: bytes, /, *, output_buffer_limit: int) -> bytes: ...
    def can_accept_more_data(self) -> bool: ...
    def is_finished(self) -> bool: ...


_BROTLI: Final = vars(brotli)
_brotli_stream: Final = cast("Callable[[], _BrotliStream]", _BROTLI["Decompressor"])
_BrotliError: Final = cast("type[Exception]", _BROTLI["error"])


class _Stage(Protocol):
    """One coding being undone."""

    def feed(self, piece: bytes) -> None:
        """Take encoded bytes; everything given before has been read."""
        ...

    def read(self) -> bytes:
        """Decoded bytes, ``b""`` once more input is needed."""
        ...

    def at_end(self) -> bool:
        """Whether the encoded stream is whole."""
        ...


class _Inflate:
    """The zlib family: gzip with its concatenated members, and deflate with and without the zlib wrapper."""

    __slots__ = ("_full", "_name", "_rest", "_stream")

    def __init__(self, name: str) -> None:
        self._name = name
        self._rest = b""
        self._full = False
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16) if name == "gzip" else None

    def feed(self, piece: bytes) -> None:
        self._rest = self._rest + piece if self._rest else piece

    def read(self) -> bytes:
        if self._stream is None and not self._choose():
            return b""
        while self._rest or self._full:
            stream = self._stream
            if stream is None or (stream.eof and not self._next_member()):
                break
            try:
                out = self._stream_out()
            except zlib.error as error:
                raise _corrupt(self._name) from error
            if out:
                return out
        return b""

    def at_end(self) -> bool:
        return self._stream is not None and self._stream.eof and not self._rest

    def _stream_out(self) -> bytes:
        stream = self._stream
        if stream is None:
            return b""
        out = stream.decompress(self._rest, SLICE)
        self._rest = stream.unused_data if stream.eof else stream.unconsumed_tail
        # With all input taken, part of the output may still wait inside until there is room for it.
        self._full = len(out) >= SLICE and not stream.eof
        return out

    def _choose(self) -> bool:
        """Deflate: RFC 9110 means the zlib wrapper, yet many send the bare stream; the first two bytes tell."""
        if len(self._rest) < 2:
            return False
        first, second = self._rest[0], self._rest[1]
        wrapped = first & 0x0F == 8 and (first << 8 | second) % 31 == 0
        self._stream = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        return True

    def _next_member(self) -> bool:
        """Gzip may be followed by zero padding, which means nothing, or by another member."""
        if self._name == "gzip":
            self._rest = self._rest.lstrip(b"\0")
        if not self._rest:
            return False
        if self._name != "gzip":
            raise _corrupt(self._name)
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        return True


class _Brotli:
    __slots__ = ("_rest", "_stream")

    def __init__(self) -> None:
        self._stream = _brotli_stream()
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        self._rest = self._rest + piece if self._rest else piece

    def read(self) -> bytes:
        while True:
            piece = b""
            if self._rest and self._stream.can_accept_more_data():
                piece, self._rest = self._rest, b""
            try:
                out = self._stream.process(piece, output_buffer_limit=SLICE)
            except _BrotliError as error:
                raise _corrupt("br") from error
            if out or not self._rest:
                return out

    def at_end(self) -> bool:
        return not self._rest and self._stream.is_finished()


class _Zstd:
    """Frames of zstd, one after another.

    The library has no bound on what one call gives out, but a block of at most 128 KiB takes at least four bytes:
    input in steps of 64 bytes bounds a call to 2 MiB.
    """

    __slots__ = ("_at", "_frame", "_library", "_rest")

    def __init__(self) -> None:
        self._library = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._frame = self._library.decompressobj(write_size=SLICE)
        self._rest = b""
        self._at = 0

    def feed(self, piece: bytes) -> None:
        self._rest = self._rest[self._at :] + piece
        self._at = 0

    def read(self) -> bytes:
        out: list[bytes] = []
        size = 0
        while self._at < len(self._rest) and size < SLICE:
            if self._frame.eof:
                self._frame = self._library.decompressobj(write_size=SLICE)
            step = self._rest[self._at : self._at + _ZSTD_STEP]
            try:
                piece = self._frame.decompress(step)
            except zstandard.ZstdError as error:
                raise _corrupt("zstd") from error
            self._at += len(step) - (len(self._frame.unused_data) if self._frame.eof else 0)
            size += len(piece)
            out.append(piece)
        return b"".join(out)

    def at_end(self) -> bool:
        return self._at >= len(self._rest) and self._frame.eof


_STAGES: Final[Mapping[bytes, Callable[[], _Stage]]] = {
    b"gzip": lambda: _Inflate("gzip"),
    b"x-gzip": lambda: _Inflate("gzip"),
    b"deflate": lambda: _Inflate("deflate"),
    b"br": _Brotli,
    b"zstd": _Zstd,
}


class Decoding:
    """A body's codings being undone, the one applied last first."""

    __slots__ = ("_began", "_stages")

    def __init__(self, stages: list[_Stage]) -> None:
        self._stages = stages
        self._began = False

    def feed(self, piece: bytes) -> None:
        """Take bytes as they came; read until nothing comes before feeding again."""
        self._began = True
        self._stages[0].feed(piece)

    def read(self) -> bytes:
        """Some more of the body, ``b""`` once more input is needed; raises TransportError (``malformed``)."""
        return self._read(len(self._stages) - 1)

    def _read(self, depth: int) -> bytes:
        stage = self._stages[depth]
        out = stage.read()
        while depth and not out:
            piece = self._read(depth - 1)
            if not piece:
                break
            stage.feed(piece)
            out = stage.read()
        return out

    def finish(self) -> None:
        """The body has ended; raises TransportError (``cut``) if a coding had not; no bytes are an empty body."""
        if self._began and not all(stage.at_end() for stage in self._stages):
            raise TransportError("cut", "the reply ended inside its compressed body")


def decoding_of(values: Iterable[bytes]) -> Decoding | None:
    """The decoding that the values of content-encoding ask for, None where the body is as it is.

    Raises:
        TransportError: ``malformed``, for a coding that is not known or too many of them.
    """
    names = [name.strip().lower() for name in b",".join(values).split(b",")]
    names = [name for name in names if name not in (b"", b"identity")]
    if len(names) > _MOST_CODINGS:
        raise TransportError("malformed", f"the reply stacks {len(names)} content codings")
    for name in names:
        if name not in _STAGES:
            raise TransportError("malformed", f"the reply has an unknown content-encoding {_shown(name)}")
    return Decoding([_STAGES[name]() for name in reversed(names)]) if names else None


def _shown(name: bytes) -> str:
    return repr(name[:40].decode("latin-1"))


def _corrupt(name: str) -> TransportError:
    return TransportError("malformed", f"the reply's {name} body is corrupt")
