"""A call in the dialect that the provider itself speaks: the client's own body, sent as LiteLLM would send its own.

LiteLLM says where calls go and what authorises them; no word of the conversation passes through it. Of the body the
bridge and the translator decide on the model alone, and on what the provider wants beside it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, Protocol

import httpx
import msgspec
from msgspec import Raw

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.native.gate import TIMEOUTS, Explained, Pattern
from osmosis_bridge.native.jsontree import Json
from osmosis_bridge.native.outgoing import FieldRow

_split = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode

_CHAT_ROUTE: Final = "/chat/completions"
_VERSION: Final = b"anthropic-version"
_BETAS: Final = b"anthropic-beta"
_BESIDE: Final = ("anthropic_version",)
"""What a provider wants in the body in place of a header, where the client does not say it."""


class Address(Protocol):
    """Says how LiteLLM sends its own calls."""

    def __call__(self, *, stream: bool, explain: bool = False) -> Awaitable[Pattern]:
        """With `explain` nothing at all is sent for it."""
        ...


class DirectCall:
    """One call whose body the provider reads as the client wrote it, and whose reply passes as it comes."""

    translation = None

    def __init__(
        self,
        address: Address,
        unreachable: Callable[[httpx.TransportError], UpstreamFailed],
        body: bytes,
        headers: Mapping[bytes, bytes],
    ) -> None:
        self._address = address
        self._unreachable = unreachable
        self._body = body
        self._headers = headers
        self._fields = _split(body)
        self.stream = bytes(self._fields.get("stream", b"")) == b"true"
        self._reply: httpx.Response | None = None

    async def explain(self) -> Explained:
        """What would be sent. Raises `BridgeError`."""
        pattern = await self._address(stream=self.stream, explain=True)
        request = direct_request(pattern, self._body, self._headers)
        sent = msgspec.json.decode(request.content, type=dict[str, Any])
        return Explained(direct_rows(self._fields, sent), request, sent)

    async def open(self) -> None:
        """Send it; afterwards `relayed` is there. Raises `BridgeError`."""
        pattern = await self._address(stream=self.stream)
        try:
            self._reply = await pattern.send(direct_request(pattern, self._body, self._headers))
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    @property
    def relayed(self) -> httpx.Response:
        """The provider's reply; its body is still to be read."""
        if self._reply is None:
            raise RuntimeError("a call is sent before its reply is read")
        return self._reply

    async def close(self) -> None:
        """Let go of the provider's connection."""
        if self._reply is not None:
            await self._reply.aclose()


def address_of(route: str, chat: Address) -> Address:
    """Where calls of another route go, at a provider whose chat completions are OpenAI's: beside those."""

    async def address(*, stream: bool, explain: bool = False) -> Pattern:
        pattern = await chat(stream=stream, explain=explain)
        url = httpx.URL(pattern.url)
        if not url.path.endswith(_CHAT_ROUTE):
            return pattern
        beside = url.copy_with(path=url.path.removesuffix(_CHAT_ROUTE) + route)
        return msgspec.structs.replace(pattern, url=str(beside))

    return address


def direct_request(pattern: Pattern, body: bytes, headers: Mapping[bytes, bytes]) -> httpx.Request:
    """The request to send; every field but the model is the text that the client wrote."""
    fields = _split(body)
    fields.pop("model", None)
    own: dict[str, Raw] = {}
    if "model" in pattern.body:
        own["model"] = Raw(_encode(pattern.body["model"]))
    for name in _BESIDE:
        if name in pattern.body and name not in fields:
            own[name] = Raw(_encode(pattern.body[name]))
    return httpx.Request(
        pattern.method,
        pattern.url,
        headers=_with_client_headers(pattern.headers, headers),
        content=_encode({**own, **fields}),
        extensions={"timeout": dict(TIMEOUTS)},
    )


def direct_rows(fields: Collection[str], sent: Mapping[str, Json]) -> tuple[FieldRow, ...]:
    """What became of each field but the envelope."""
    named = {"model", "stream"}
    rows = [FieldRow(name, "forwarded", name) for name in fields if name not in named]
    rows += [
        FieldRow(name, "set by the translator", name, after=value)
        for name, value in sent.items()
        if name not in named and name not in fields
    ]
    return tuple(rows)


def _with_client_headers(
    usual: list[tuple[str, str]], client: Mapping[bytes, bytes]
) -> list[tuple[str, str]]:
    """LiteLLM's headers, with the version that the client named and the betas of both."""
    version, betas = client.get(_VERSION), client.get(_BETAS)
    kept = [(name, value) for name, value in usual if name.lower() != "accept-encoding"]
    if version is not None:
        kept = [(name, value) for name, value in kept if name.lower() != _VERSION.decode()]
        kept.append((_VERSION.decode(), version.decode("latin-1")))
    if betas is not None:
        given = [value for name, value in kept if name.lower() == _BETAS.decode()]
        all_of_them = [
            beta.strip() for value in (*given, betas.decode("latin-1")) for beta in value.split(",")
        ]
        kept = [(name, value) for name, value in kept if name.lower() != _BETAS.decode()]
        kept.append((_BETAS.decode(), ",".join(dict.fromkeys(filter(None, all_of_them)))))
    return [*kept, ("accept-encoding", "identity")]
