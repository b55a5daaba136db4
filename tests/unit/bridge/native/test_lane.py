"""One call through a stand-in for LiteLLM."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.gate import Gate
from osmosis_bridge.native.lane import Lane, Settings
from osmosis_bridge.redact import Redactor

HI = {"role": "user", "content": "hi"}


class Unsupported(Exception):
    status_code = 400


class StandIn:
    """What of LiteLLM a lane uses; `does` is its `acompletion`."""

    def __init__(self, does: Callable[[Gate, Mapping[str, Any]], Any]) -> None:
        self.model, self.provider, self.family = "m", "anthropic", ANTHROPIC
        self.supported, self.reserved, self.refusals = frozenset({"tools"}), frozenset(), (Unsupported,)
        self.does = does
        self.kwargs: Mapping[str, Any] = {}

    async def complete(self, gate: Gate, kwargs: Mapping[str, Any]) -> Any:
        self.kwargs = kwargs
        return self.does(gate, kwargs)


def sends(gate: Gate, kwargs: Mapping[str, Any]) -> None:
    gate.check(
        httpx.Request(
            "POST",
            "https://api.example/v1/messages",
            content=json.dumps({"messages": [HI], "max_tokens": kwargs.get("max_tokens")}),
        )
    )


def lane(does: Callable[[Gate, Mapping[str, Any]], Any], **settings: Any) -> tuple[Lane, StandIn]:
    stand_in = StandIn(does)
    made = Lane(Settings("anthropic/m", **settings), Redactor(["a-secret-of-ours"]))
    made._take(stand_in, None)  # type: ignore[arg-type]
    return made, stand_in


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "x", "messages": [HI]} | fields).encode()


def failure(does: Callable[[Gate, Mapping[str, Any]], Any], raw: bytes | None = None) -> BridgeError:
    async def main() -> None:
        await lane(does)[0].open(body() if raw is None else raw, "r")

    with pytest.raises(BridgeError) as caught:
        asyncio.run(main())
    return caught.value


def raises(error: Exception, *, sent: bool = False) -> Callable[[Gate, Mapping[str, Any]], Any]:
    def does(gate: Gate, kwargs: Mapping[str, Any]) -> None:
        if sent:
            sends(gate, kwargs)
        raise error

    return does


def test_the_operator_s_endpoint_and_key_stand_last_and_nothing_is_retried_or_dropped() -> None:
    async def main() -> Mapping[str, Any]:
        made, stand_in = lane(sends, api_base="https://b", api_key="k")
        await made.explain(body(max_tokens=5, api_base="https://evil", num_retries=9), "r")
        return stand_in.kwargs

    kwargs = asyncio.run(main())
    assert kwargs["api_base"] == "https://b"
    assert (kwargs["api_key"], kwargs["num_retries"], kwargs["max_retries"], kwargs["drop_params"]) == (
        "k",
        0,
        0,
        False,
    )
    assert kwargs["max_tokens"] == 5
    assert kwargs["messages"] == [HI]


def test_an_explanation_shows_the_request_that_would_be_sent() -> None:
    explained = asyncio.run(lane(sends)[0].explain(body(user="u"), "r"))
    assert explained.body["metadata"] == {"user_id": "u"}
    assert {row.field: row.at for row in explained.rows}["user"] == "metadata.user_id"


@pytest.mark.parametrize("raw", [b"", b"[1]", b"{", b"\xff", b'{"a":"\xff"}'])
def test_a_body_that_is_no_object_is_refused(raw: bytes) -> None:
    assert failure(sends, raw).code == "invalid_json"


def test_a_refusal_of_litellm_s_is_said_in_our_words() -> None:
    error = failure(
        raises(Unsupported("m does not support parameters: ['top_k'], set `litellm.drop_params=True`"))
    )
    assert (error.status, error.code, error.param) == (400, "unsupported_parameter", "top_k")
    assert "drop_params" not in error.message


def test_what_litellm_cannot_translate_was_not_sent() -> None:
    class Bad(Exception):
        status_code = 400

    error = failure(
        raises(Bad("litellm.BadRequestError: the image is odd; set modify_params to fix. a-secret-of-ours"))
    )
    assert isinstance(error, Refused)
    assert "the image is odd" in error.message
    assert "litellm." not in error.message
    assert "modify_params" not in error.message
    assert "a-secret-of-ours" not in error.message


def test_missing_credentials_are_named_as_such() -> None:
    class NoKey(Exception):
        status_code = 401

    error = failure(raises(NoKey("litellm.AuthenticationError: Missing Anthropic API Key")))
    assert (error.status, error.code) == (401, "no_credentials")


@pytest.mark.parametrize(
    "text", ["Missing Gemini API key. Set it.", "AzureException - Missing credentials. Please pass one"]
)
def test_missing_credentials_are_known_by_their_words_where_litellm_says_something_else(text: str) -> None:
    assert failure(raises(ValueError(text))).code == "no_credentials"


def test_vertex_without_google_s_library_says_what_to_install() -> None:
    error = failure(raises(ValueError("No module named 'google'")))
    assert error.code == "google_auth_missing"
    assert "pip install google-auth" in error.message


def test_a_fault_after_sending_is_the_reply_s() -> None:
    error = failure(raises(ValueError("odd json"), sent=True))
    assert (error.status, error.code, error.origin) == (502, "invalid_upstream_reply", "upstream")


@pytest.mark.parametrize(
    ("fault", "status"), [(httpx.ConnectError("no"), 502), (httpx.ReadTimeout("late"), 504)]
)
def test_a_fault_on_the_way_has_its_status(fault: httpx.TransportError, status: int) -> None:
    def does(gate: Gate, kwargs: Mapping[str, Any]) -> None:
        sends(gate, kwargs)
        raise gate.failed(fault)

    assert failure(does).status == status


def test_an_answer_without_a_request_that_was_seen_is_not_trusted() -> None:
    assert failure(lambda gate, kwargs: object()).code == "unsupported_provider"


def test_a_lane_that_cannot_load_says_why_to_every_call() -> None:
    async def main() -> None:
        made = Lane(Settings("nobody/m"), Redactor())
        made._take(None, "LiteLLM cannot serve 'nobody/m': no such provider")
        assert made.ready
        await made.open(body(), "r")

    with pytest.raises(BridgeError) as caught:
        asyncio.run(main())
    assert (caught.value.status, caught.value.code) == (503, "native_lane_failed")
    assert "no such provider" in caught.value.message
