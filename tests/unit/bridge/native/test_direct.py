"""A call in the provider's own dialect."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from osmosis_bridge.errors import BridgeError, UpstreamFailed
from osmosis_bridge.native.direct import DirectCall, address_of, direct_request, direct_rows
from osmosis_bridge.native.gate import Pattern

BODY = b'{"model":"x","max_tokens":5,"top_p":0.10,"big":123456789012345678901234567890,"stream":true}'


async def never(request: httpx.Request) -> httpx.Response:
    raise AssertionError("nothing is sent")


def pattern(send: Any = never, **body: Any) -> Pattern:
    headers = [("x-api-key", "k"), ("Anthropic-Version", "2023-06-01"), ("accept-encoding", "gzip")]
    return Pattern("POST", "https://api.example/v1/messages", headers, {"model": "claude", **body}, send)


def unreachable(error: httpx.TransportError) -> UpstreamFailed:
    return UpstreamFailed("no way there", code="upstream_unreachable")


def call(made: Pattern, asked: list[tuple[bool, bool]] | None = None) -> DirectCall:
    async def address(*, stream: bool, explain: bool = False) -> Pattern:
        if asked is not None:
            asked.append((stream, explain))
        return made

    return DirectCall(address, unreachable, BODY, {})


def test_the_body_is_the_client_s_text_but_for_the_model() -> None:
    sent = direct_request(pattern(max_tokens=64000), BODY, {})
    assert sent.content == b'{"model":"claude",' + BODY.removeprefix(b'{"model":"x",')
    assert (sent.method, str(sent.url)) == ("POST", "https://api.example/v1/messages")
    assert sent.headers["x-api-key"] == "k"
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.headers["content-length"] == str(len(sent.content))
    assert sent.extensions["timeout"]["read"] is None


def test_what_a_provider_wants_in_the_body_is_added_and_a_model_it_does_not_want_is_not() -> None:
    there = Pattern("POST", "https://v.example/m:rawPredict", [], {"anthropic_version": "vertex-1"}, never)
    sent = json.loads(direct_request(there, BODY, {}).content)
    assert "model" not in sent
    assert sent["anthropic_version"] == "vertex-1"
    own = json.loads(direct_request(there, b'{"anthropic_version":"mine"}', {}).content)
    assert own["anthropic_version"] == "mine"


def test_the_client_s_version_stands_and_the_betas_of_both_are_sent_once() -> None:
    made = pattern()
    made.headers.append(("anthropic-beta", "ours-1, shared"))
    client = {
        b"anthropic-version": b"2024-01-01", b"anthropic-beta": b"shared,theirs", b"x-api-key": b"the bridge's",
    }  # fmt: skip
    sent = direct_request(made, BODY, client).headers
    assert sent.get_list("anthropic-version") == ["2024-01-01"]
    assert sent.get_list("anthropic-beta") == ["ours-1,shared,theirs"]
    assert sent.get_list("x-api-key") == ["k"]


def test_an_explanation_sends_nothing_and_names_every_field() -> None:
    asked: list[tuple[bool, bool]] = []
    explained = asyncio.run(call(pattern(), asked).explain())
    assert asked == [(True, True)]
    assert {row.field: row.became for row in explained.rows} == {
        "max_tokens": "forwarded",
        "top_p": "forwarded",
        "big": "forwarded",
    }
    assert explained.body["model"] == "claude"
    rows = direct_rows({"a": 1}, {"a": 1, "anthropic_version": "v", "model": "m"})
    assert [(row.field, row.became, row.after) for row in rows] == [
        ("a", "forwarded", None),
        ("anthropic_version", "set by the translator", "v"),
    ]


def test_a_call_is_sent_once_and_its_reply_is_relayed() -> None:
    sent: list[httpx.Request] = []

    async def send(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, stream=httpx.ByteStream(b"there"))

    async def main() -> bytes:
        made = call(pattern(send))
        with pytest.raises(RuntimeError):
            _ = made.relayed
        await made.close()
        await made.open()
        assert made.stream
        body = b"".join([piece async for piece in made.relayed.aiter_raw()])
        await made.close()
        assert made.relayed.is_closed
        return body

    assert asyncio.run(main()) == b"there"
    assert len(sent) == 1


def test_a_fault_on_the_way_is_told_in_our_words() -> None:
    async def send(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no")

    with pytest.raises(BridgeError) as caught:
        asyncio.run(call(pattern(send)).open())
    assert caught.value.code == "upstream_unreachable"


@pytest.mark.parametrize(
    ("chat", "beside"),
    [
        ("https://h/v1/chat/completions", "https://h/v1/embeddings"),
        ("https://h/deployments/a%20b/chat/completions?api-version=1", "https://h/deployments/a%20b/embeddings?api-version=1"),
        ("https://h/v1/messages", "https://h/v1/messages"),
    ],
)  # fmt: skip
def test_other_routes_of_openai_s_are_beside_its_chat_completions(chat: str, beside: str) -> None:
    asked: list[tuple[bool, bool]] = []

    async def address(*, stream: bool, explain: bool = False) -> Pattern:
        asked.append((stream, explain))
        return Pattern("POST", chat, [], {"model": "m"}, never)

    made = asyncio.run(_pattern_of(address_of("/embeddings", address)))
    assert (made.url, made.body) == (beside, {"model": "m"})
    assert asked == [(True, True)]


async def _pattern_of(address: Any) -> Pattern:
    return await address(stream=True, explain=True)
