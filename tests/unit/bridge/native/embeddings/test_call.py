"""One call for embeddings through a stand-in for LiteLLM."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from osmosis_bridge.errors import BridgeError, Refused, UpstreamFailed
from osmosis_bridge.native.embeddings.call import EmbeddingCall, Embeddings
from osmosis_bridge.native.gate import Explained, Gate, Withheld
from osmosis_bridge.native.plan import Unsupported

A, B = [0.5, -1], [2.0, 0.25]
VECTORS = {"embeddings": {"float": [A, B]}, "meta": {"billed_units": {"input_tokens": 4}}}


class StandIn:
    """What of LiteLLM is used: it asks Cohere, which gives `reply`, for what it is given."""

    def __init__(
        self, reply: httpx.Response | Exception, provider: str = "cohere", model: str = "embed-v4.0"
    ):
        self.provider, self.model, self.reserved = provider, model, frozenset[str]()
        self.reply = reply
        self.given: list[Mapping[str, Any]] = []
        self.sent: list[Any] = []

    async def embed(self, gate: Gate, kwargs: Mapping[str, Any]) -> None:
        self.given.append(kwargs)
        body = {"model": self.model, "texts": kwargs["input"], "input_type": "search_document"}
        gate.sender = self.send
        checked = gate.check(httpx.Request("POST", "https://c.example/v2/embed", content=json.dumps(body)))
        await gate.take(checked, await self.send(checked))

    async def send(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(json.loads(request.content))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def failure(error: Exception, gate: Gate) -> BridgeError:
    if isinstance(gate.failure, BridgeError):
        return gate.failure
    return UpstreamFailed(f"{type(gate.failure or error).__name__}", code="told")


def answer(body: Any, status: int = 200, **headers: str) -> httpx.Response:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(raw))


def opened(stand_in: StandIn, calls: Embeddings | None = None, /, **fields: Any) -> httpx.Response:
    async def main() -> httpx.Response:
        call = prepared(stand_in, calls, **fields)
        await call.open()
        await call.relayed.aread()
        await call.close()
        return call.relayed

    return asyncio.run(main())


def prepared(
    stand_in: StandIn, calls: Embeddings | None = None, /, *, explain: bool = False, **fields: Any
) -> EmbeddingCall:
    lane: Any = stand_in
    common = {"model": "cohere/embed-v4.0", "api_base": "https://c.example/v2/chat", "api_key": "k"}
    return (calls or Embeddings(failure)).prepare(
        lane, {"input": ["a", "b"]} | fields, common, explain=explain
    )


def test_the_reply_is_openai_s_with_the_provider_s_headers_and_count() -> None:
    headers = {"x-request-id": "r-1", "retry-after": "9", "content-type": "x", "content-length": "999"}
    stand_in = StandIn(answer(VECTORS, 200, **headers))
    reply = opened(stand_in)
    assert [item["embedding"] for item in reply.json()["data"]] == [A, B]
    assert reply.json()["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    assert reply.headers["x-request-id"] == "r-1"
    assert reply.headers["content-type"] == "application/json"
    assert "content-length" not in reply.headers
    assert stand_in.sent == [{"model": "embed-v4.0", "texts": ["a", "b"], "input_type": "search_document"}]


def test_litellm_is_given_no_text_and_the_address_of_embeddings() -> None:
    stand_in = StandIn(answer(VECTORS))
    opened(stand_in, dimensions=3)
    (given,) = stand_in.given
    assert (given["input"], given["api_base"], given["api_key"]) == (["x"], "https://c.example/v2/embed", "k")
    assert "dimensions" not in given


def test_the_next_call_is_sent_alike_without_litellm() -> None:
    calls = Embeddings(failure)
    first, second = StandIn(answer(VECTORS)), StandIn(answer(VECTORS))
    opened(first, calls, dimensions=3)
    reply = opened(second, calls, input=["c", "d"])
    assert reply.json()["data"][1]["embedding"] == B
    assert second.given == []
    assert [sent["texts"] for sent in first.sent] == [["a", "b"], ["c", "d"]]
    assert "output_dimension" not in first.sent[1]


def test_a_refusal_of_the_provider_passes_as_it_came() -> None:
    reply = opened(StandIn(answer({"message": "too many"}, 429, **{"retry-after": "3"})))
    assert (reply.status_code, reply.json(), reply.headers["retry-after"]) == (
        429, {"message": "too many"}, "3",
    )  # fmt: skip


@pytest.mark.parametrize("body", [b"<p>", b'{"embeddings":[[1]]}', b"[" * 100_000])
def test_a_reply_that_cannot_be_read_is_the_provider_s_fault(body: bytes) -> None:
    with pytest.raises(UpstreamFailed) as caught:
        opened(StandIn(answer(body)))
    assert caught.value.code == "invalid_upstream_reply"


def test_a_reply_that_is_cut_is_told_as_cut() -> None:
    class Cut(httpx.AsyncByteStream):
        async def __aiter__(self):
            yield b"{"
            raise httpx.ReadError("gone")

    with pytest.raises(UpstreamFailed) as caught:
        opened(StandIn(httpx.Response(200, stream=Cut())))
    assert caught.value.code == "upstream_cut"


def test_a_fault_on_the_way_is_told_on_the_first_call_and_on_those_sent_alike() -> None:
    calls = Embeddings(failure)
    for stand_in in (StandIn(answer(VECTORS)), StandIn(answer(VECTORS))):
        opened(stand_in, calls)
    first = StandIn(answer(VECTORS))
    alike = Embeddings(failure)
    opened(first, alike)
    first.reply = httpx.ConnectError("no")
    with pytest.raises(UpstreamFailed, match="ConnectError"):
        opened(first, alike)


def test_what_is_refused_is_refused_before_anything_is_sent() -> None:
    stand_in = StandIn(answer(VECTORS))
    with pytest.raises(Unsupported) as caught:
        opened(stand_in, user="u", encoding_format="int8")
    assert list(caught.value.fields) == ["user", "encoding_format"]
    assert stand_in.sent == []


def test_a_model_that_does_not_embed_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="anthropic/claude-x") as caught:
        prepared(StandIn(answer({}), "anthropic", "claude-x"))
    assert caught.value.code == "dialect_not_translated"


def test_a_model_of_one_text_a_call_takes_no_two() -> None:
    titan = StandIn(answer({}), "bedrock", "amazon.titan-embed-text-v2:0")
    with pytest.raises(Refused) as caught:
        prepared(titan)
    assert caught.value.param == "input"
    assert prepared(titan, input=["a"]) is not None


def test_to_explain_is_to_send_nothing() -> None:
    async def main(**fields: Any) -> Explained:
        return await prepared(stand_in, explain=True, **fields).explain()

    stand_in = StandIn(answer(VECTORS))
    explained = asyncio.run(main(dimensions=3))
    assert explained.body["output_dimension"] == 3
    assert [row.field for row in explained.rows] == ["input", "dimensions", "input_type"]
    assert stand_in.sent == []
    with pytest.raises(Unsupported):
        asyncio.run(main(user="u"))


def test_ollama_s_embeddings_are_reached_under_its_other_name() -> None:
    stand_in = StandIn(answer({"embeddings": [A], "prompt_eval_count": 2}), "ollama_chat", "m")
    lane: Any = stand_in
    call = Embeddings(failure).prepare(lane, {"input": "a"}, {"model": "ollama_chat/m"}, explain=False)
    with pytest.raises(BridgeError):
        asyncio.run(call.open())
    assert stand_in.given[0]["model"] == "ollama/m"


def test_a_call_without_a_request_that_was_seen_is_not_trusted() -> None:
    class Silent(StandIn):
        async def embed(self, gate: Gate, kwargs: Mapping[str, Any]) -> None:
            return None

    with pytest.raises(BridgeError) as caught:
        opened(Silent(answer({})))
    assert caught.value.code == "unsupported_provider"

    class Odd(StandIn):
        async def embed(self, gate: Gate, kwargs: Mapping[str, Any]) -> None:
            raise Withheld

    with pytest.raises(UpstreamFailed, match="Withheld"):
        opened(Odd(answer({})))


def test_a_reply_is_read_after_it_came() -> None:
    with pytest.raises(RuntimeError):
        assert prepared(StandIn(answer(VECTORS))).relayed
