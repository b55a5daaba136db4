"""The gate at the transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from native_providers import native_providers
from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.families.chat import CHAT
from osmosis_bridge.native.families.ollama import OLLAMA
from osmosis_bridge.native.gate import GATE, Gate, Withheld, install
from osmosis_bridge.native.plan import Unsupported, make_plan
from osmosis_bridge.native.rule import Asked, Family

HI = {"role": "user", "content": "hi"}
CLAUDE = "https://api.example/v1/messages"


def gate(family: Family = ANTHROPIC, mode: Any = "translate", **fields: Any) -> Gate:
    stream = fields.pop("stream", False)
    return Gate(mode, make_plan(fields, family, Asked(fields)), family, [HI], stream=stream)


def request(url: str = CLAUDE, body: object = None, **headers: str) -> httpx.Request:
    content = json.dumps({"messages": [HI]} if body is None else body)
    return httpx.Request(
        "POST", url, headers={"content-type": "application/json", **headers}, content=content
    )


def test_a_call_is_completed_and_goes_on() -> None:
    held = gate(user="u")
    sent = held.check(request())
    assert json.loads(sent.content) == {"messages": [HI], "metadata": {"user_id": "u"}}
    assert sent.headers["content-length"] == str(len(sent.content))
    assert sent.headers["accept-encoding"] == "identity"
    assert sent.extensions["timeout"]["read"] is None
    assert [row.field for row in held.rows] == ["user", "messages"]


def test_what_lost_something_is_held() -> None:
    held = gate()
    with pytest.raises(Withheld):
        held.check(request(body={"messages": []}))
    assert isinstance(held.failure, Refused)
    assert held.failure.param == "messages[0].content"
    with pytest.raises(Withheld):
        held.check(request())


def test_lost_fields_and_lost_words_are_told_together() -> None:
    held = gate(max_tokens=9)
    with pytest.raises(Withheld):
        held.check(request(body={"messages": []}))
    assert isinstance(held.failure, Unsupported)
    assert list(held.failure.fields) == ["max_tokens", "messages[0].content"]


def test_what_one_client_adds_does_not_reach_the_calls_that_are_sent_alike() -> None:
    by_itself = {"messages": [HI], "usage": {"include": True}}

    async def main() -> tuple[Any, Any]:
        held = gate(CHAT, "relay", usage={"include": True, "mine": 1})
        checked = held.check(request("https://api.example/v1/chat/completions", by_itself))
        held.sender = lambda request: None  # type: ignore[assignment, return-value]
        with pytest.raises(Withheld):
            await held.take(checked, httpx.Response(200))
        return json.loads(checked.content), held.pattern()

    sent, pattern = asyncio.run(main())
    assert sent["usage"] == {"include": True, "mine": 1}
    assert pattern.body == {"usage": {"include": True}}


def test_a_second_call_in_place_of_the_first_is_held() -> None:
    held = gate()
    held.check(request())
    with pytest.raises(Withheld):
        held.check(request())
    assert isinstance(held.failure, Refused)


@pytest.mark.parametrize("path", ["/v1/files", "/v1beta/cachedContents", "/picture.png"])
def test_a_request_of_litellm_s_own_is_held(path: str) -> None:
    held = gate()
    with pytest.raises(Withheld):
        held.check(httpx.Request("GET", f"https://elsewhere.example{path}"))
    assert isinstance(held.failure, Refused)


def test_to_learn_how_calls_are_sent_none_is_sent_but_what_helps_it() -> None:
    learning = gate(OLLAMA, "learn")
    help_asked = httpx.Request("POST", "http://localhost:1/api/show", content=b"{}")
    assert learning.check(help_asked) is help_asked
    assert learning.pattern() is None

    async def send(request: httpx.Request) -> httpx.Response:
        raise AssertionError("nothing is sent")

    learning.sender = send
    with pytest.raises(Withheld):
        learning.check(request("http://localhost:1/api/chat", {"model": "m", "messages": [HI]}, key="k"))
    learned = learning.pattern()
    assert learned is not None
    assert (learned.url, learned.body, dict(learned.headers)["key"]) == (
        "http://localhost:1/api/chat",
        {"model": "m"},
        "k",
    )


def test_what_helps_a_call_goes_on_but_not_to_explain() -> None:
    help_asked = httpx.Request("POST", "http://localhost:1/api/show", content=b"{}")
    assert gate(OLLAMA).check(help_asked) is help_asked
    explaining = gate(OLLAMA, "explain")
    with pytest.raises(Withheld):
        explaining.check(help_asked)
    assert explaining.failure is None


def test_to_explain_is_to_send_nothing() -> None:
    held = gate(mode="explain")
    with pytest.raises(Withheld):
        held.check(request())
    assert held.outgoing is not None
    assert held.failure is None


def test_a_body_that_is_no_object_cannot_be_checked() -> None:
    held = gate()
    with pytest.raises(Withheld):
        held.check(request(body=[1]))
    assert isinstance(held.failure, BridgeError)


def test_openai_s_conversation_is_put_back_as_it_was() -> None:
    held = gate(CHAT, "relay")
    sent = held.check(
        request("https://api.example/v1/chat/completions", {"messages": ["rewritten"], "model": "m"})
    )
    assert json.loads(sent.content) == {"messages": [HI], "model": "m"}


class Body(httpx.AsyncByteStream):
    def __init__(self, *pieces: bytes, broken: bool = False) -> None:
        self.pieces, self.broken = pieces, broken

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.broken:
            raise httpx.ReadError("gone")


def test_a_reply_is_overheard_and_one_without_counts_gets_empty_ones_for_litellm() -> None:
    async def main() -> None:
        held = gate()
        sent = held.check(request())
        reply = await held.take(sent, httpx.Response(200, stream=Body(b'{"stop_reason":', b'"end_turn"}')))
        assert json.loads(await reply.aread())["usage"] == {"input_tokens": 0, "output_tokens": 0}
        assert held.witness.finishes == {0: "end_turn"}
        assert not held.witness.usage

    asyncio.run(main())


def test_a_stream_that_breaks_is_known_to_be_cut() -> None:
    async def main() -> None:
        held = gate(stream=True)
        sent = held.check(request())
        reply = await held.take(sent, httpx.Response(200, stream=Body(b"data: {}\n\n", broken=True)))
        with pytest.raises(httpx.ReadError):
            await reply.aread()
        assert held.witness.cut

    asyncio.run(main())


def test_a_reply_that_is_no_success_never_reaches_litellm() -> None:
    async def main() -> None:
        held = gate()
        sent = held.check(request())
        with pytest.raises(Withheld):
            await held.take(sent, httpx.Response(429, content=b"{}"))
        assert held.reply is not None
        assert held.reply.status_code == 429

    asyncio.run(main())


def test_the_gate_stands_in_httpx_for_this_process_and_can_be_taken_out() -> None:
    async def main() -> None:
        with native_providers() as provider:
            remove = install()
            async with httpx.AsyncClient(base_url=provider.url, trust_env=False) as client:
                try:
                    await through(client)
                finally:
                    remove()
                    GATE.set(None)
                assert (await ask(client)).status_code == 200
            assert [asked.body.get("seed") for asked in provider.calls] == [7, 8, None]

    async def ask(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/v1/chat/completions", json={"model": "m", "messages": ["x"]})

    async def through(client: httpx.AsyncClient) -> None:
        with pytest.raises(Withheld):
            await ask(client)
        held = gate(CHAT, "relay", seed=7)
        GATE.set(held)
        with pytest.raises(Withheld):
            await ask(client)
        assert held.reply is not None
        assert b"Hello world" in await held.reply.aread()
        pattern = held.pattern()
        assert pattern is not None
        again = gate(CHAT, "relay", seed=8)
        await again.send_like(pattern)
        assert again.reply is not None
        await again.reply.aread()

    asyncio.run(main())


def test_a_blocking_call_is_not_made() -> None:
    remove = install()
    try:
        GATE.set(held := gate())
        with pytest.raises(Withheld), httpx.Client(trust_env=False) as client:
            client.post("http://127.0.0.1:9/v1/messages", json={"messages": [HI]})
        assert isinstance(held.failure, BridgeError)
    finally:
        GATE.set(None)
        remove()
