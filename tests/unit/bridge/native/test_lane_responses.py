"""Which of OpenAI's endpoints a call goes to, through a stand-in for LiteLLM."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.families.chat import OPENAI
from osmosis_bridge.native.gate import Gate
from osmosis_bridge.native.lane import Lane, Settings, Spoken
from osmosis_bridge.native.via_responses.choice import Backend
from osmosis_bridge.redact import Redactor

HI = {"role": "user", "content": "hi"}


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "x", "messages": [HI]} | fields).encode()


class StandIn:
    """What of LiteLLM a lane uses for a model of OpenAI's; calls are made up to the gate, at `host`."""

    supported = reserved = frozenset[str]()
    refusals = ()
    speaks = frozenset({"/responses"})

    def __init__(self, backend: Backend, host: str) -> None:
        self.model, self.provider, self.family = backend.model, backend.provider, OPENAI
        self.backend = backend
        self._host = host

    async def complete(self, gate: Gate, kwargs: Mapping[str, Any]) -> Any:
        return self._asks(gate, kwargs)

    async def respond(self, gate: Gate, kwargs: Mapping[str, Any]) -> Any:
        return self._asks(gate, kwargs)

    def _asks(self, gate: Gate, kwargs: Mapping[str, Any]) -> None:
        route = "responses" if "input" in kwargs else "chat/completions"
        content = {"model": self.model} | {
            name: kwargs[name] for name in ("messages", "input") if name in kwargs
        }

        async def answers(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={"asked": json.loads(request.content), "path": request.url.path})

        gate.sender = answers
        gate.check(httpx.Request("POST", f"https://{self._host}/v1/{route}", content=json.dumps(content)))


def openai_lane(model: str, *, host: str = "api.openai.com", provider: str = "openai", **more: Any) -> Lane:
    made = Lane(Settings(f"{provider}/{model}"), Redactor([]))
    made._take(StandIn(Backend(model, provider, **more), host), None)  # type: ignore[arg-type]
    return made


FUNCTION = {"type": "function", "function": {"name": "f"}}


def endpoint(made: Lane, raw: bytes, route: str = "/chat/completions") -> tuple[str, Any]:
    """Where a request would go, and the body that would."""

    async def main() -> Any:
        return await made.explain(raw, "r", Spoken(route))

    explained = asyncio.run(main())
    return explained.request.url.path.removeprefix("/v1"), explained.body


@pytest.mark.parametrize(
    ("made", "fields", "where"),
    [
        (openai_lane("gpt-5.6"), {"tools": [FUNCTION]}, "/responses"),
        (openai_lane("gpt-5.6"), {"tools": [FUNCTION], "reasoning_effort": "none"}, "/chat/completions"),
        (openai_lane("gpt-5.6"), {}, "/chat/completions"),
        (openai_lane("gpt-5.6", host="models.example"), {"tools": [FUNCTION]}, "/chat/completions"),
        (openai_lane("gpt-5.6", host="x.example", provider="azure"), {"tools": [FUNCTION]}, "/responses"),
        (openai_lane("o3-pro", only=True, host="models.example"), {}, "/responses"),
        (openai_lane("m", forced=True, host="models.example"), {}, "/responses"),
    ],
)
def test_a_chat_request_goes_to_the_endpoint_that_takes_it(made: Lane, fields: Any, where: str) -> None:
    assert endpoint(made, body(**fields))[0] == where


def test_what_responses_cannot_say_is_refused_by_name() -> None:
    with pytest.raises(Refused) as refusal:
        endpoint(openai_lane("m", forced=True), body(stop=["END"]))
    assert refusal.value.param == "stop"


def test_a_responses_client_is_sent_on_as_it_is_where_the_provider_has_responses() -> None:
    raw = b'{"model":"x","input":"hi","temperature":0.10,"background":true}'
    where, sent = endpoint(openai_lane("gpt-4o"), raw, "/responses")
    assert (where, sent) == (
        "/responses",
        {"model": "gpt-4o", "input": "hi", "temperature": 0.1, "background": True},
    )


def test_what_was_remembered_of_a_turn_goes_back_to_responses() -> None:
    reasoning = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "sealed"}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    made = openai_lane("gpt-5.6", forced=True)
    made.remember("r", {"tool_calls": [call], "provider_specific_fields": {"openai_output": [reasoning]}})
    turns = [HI, {"role": "assistant", "content": None, "tool_calls": [call]}]
    _, sent = endpoint(made, json.dumps({"model": "x", "messages": turns}).encode())
    assert sent["input"][1] == reasoning


def test_a_call_that_went_to_responses_is_read_from_its_reply() -> None:
    async def main() -> Any:
        call = await openai_lane("gpt-5.6", forced=True).open(body(), "r")
        assert call.relayed is not None
        return json.loads(await call.relayed.aread())

    found = asyncio.run(main())
    assert found["path"] == "/v1/responses"
    assert found["asked"]["input"] == [{"type": "message", "role": "user", "content": "hi"}]


def test_addresses_of_both_endpoints_are_kept_apart() -> None:
    made = openai_lane("gpt-4o")

    async def main() -> list[str]:
        return [
            (await made.address(route, stream=False)).url for route in ("/chat/completions", "/responses") * 2
        ]

    found = asyncio.run(main())
    assert [url.rpartition("/v1")[2] for url in found] == ["/chat/completions", "/responses"] * 2
