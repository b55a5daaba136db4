"""One call through a stand-in for LiteLLM."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.native.direct import DirectCall
from osmosis_bridge.native.embeddings.call import EmbeddingCall
from osmosis_bridge.native.families.anthropic import ANTHROPIC
from osmosis_bridge.native.families.chat import CHAT
from osmosis_bridge.native.gate import Gate
from osmosis_bridge.native.lane import Lane, Settings, Spoken
from osmosis_bridge.native.plan import Unsupported
from osmosis_bridge.native.spoken import table
from osmosis_bridge.native.via_responses.choice import Backend
from osmosis_bridge.redact import Redactor
from spoken_plainly import Plainly

HI = {"role": "user", "content": "hi"}


class NotSupported(Exception):
    status_code = 400


class StandIn:
    """What of LiteLLM a lane uses; `does` is its `acompletion`."""

    def __init__(self, does: Callable[[Gate, Mapping[str, Any]], Any]) -> None:
        self.model, self.provider, self.family = "m", "anthropic", ANTHROPIC
        self.supported, self.reserved, self.refusals = frozenset({"tools"}), frozenset(), (NotSupported,)
        self.speaks, self.backend = ANTHROPIC.speaks, Backend("m", "anthropic")
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


def test_all_that_would_be_refused_is_told_at_once() -> None:
    def loses(gate: Gate, kwargs: Mapping[str, Any]) -> None:
        sends(gate, {})

    def refused(
        asked: bytes, does: Callable[[Gate, Mapping[str, Any]], Any] = loses, **how: bool
    ) -> list[str]:
        made = lane(does)[0]
        with pytest.raises(Unsupported) as caught:
            asyncio.run(made.explain(asked, "r") if how else made.open(asked, "r"))
        return list(caught.value.fields)

    odd = {"messages": [HI | {"name": "n"}, {"role": "user", "content": ""}]}
    assert refused(body(seed=1, n=2, **odd)) == ["seed", "n", "messages[0].name", "messages[1].content"]
    assert refused(body(seed=1, n=2, max_tokens=5)) == ["seed", "n"], "nothing goes to LiteLLM"
    assert refused(body(seed=1, max_tokens=5), explain=True) == ["seed", "max_tokens"]
    assert refused(body(seed=1), raises(ValueError("odd")), explain=True) == ["seed"]


@pytest.mark.parametrize("raw", [b"", b"[1]", b"{", b"\xff", b'{"a":"\xff"}'])
def test_a_body_that_is_no_object_is_refused(raw: bytes) -> None:
    assert failure(sends, raw).code == "invalid_json"


def test_a_refusal_of_litellm_s_is_said_in_our_words() -> None:
    error = failure(
        raises(NotSupported("m does not support parameters: ['top_k'], set `litellm.drop_params=True`"))
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


PLAINLY = Spoken("/responses")


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "TRANSLATORS", {"/responses": Plainly})


def spoken(**fields: Any) -> bytes:
    return json.dumps({"model": "x", "words": "hi"} | fields).encode()


def test_a_dialect_without_a_translation_is_refused_and_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "TRANSLATORS", {})

    async def main() -> None:
        await lane(raises(AssertionError("sent")))[0].open(spoken(), "r", PLAINLY)

    with pytest.raises(Refused) as caught:
        asyncio.run(main())
    assert caught.value.code == "dialect_not_translated"


@pytest.mark.usefixtures("plainly")
def test_another_dialect_is_the_ordinary_call_of_its_chat_request() -> None:
    async def main() -> Any:
        made, stand_in = lane(sends)
        explained = await made.explain(spoken(limit=7, stream=True, user="u"), "r", PLAINLY)
        assert stand_in.kwargs["max_tokens"] == 7
        assert stand_in.kwargs["messages"] == [HI]
        return explained

    explained = asyncio.run(main())
    assert {row.field: row.at for row in explained.rows} == {
        "limit": "max_tokens",
        "user": "metadata.user_id",
        "words": "messages",
    }


@pytest.mark.usefixtures("plainly")
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"seed": 1}, "seed"),
        ({"limit": 5, "max_completion_tokens": 6}, "max_completion_tokens"),
        ({"words": ""}, "words[0].content"),
        ({"words": "lost on the way"}, "words[0].content"),
        ({"rules": ""}, "rules"),
    ],
)
def test_a_refusal_names_the_client_s_field(fields: dict[str, Any], param: str) -> None:
    async def main() -> None:
        await lane(sends)[0].open(spoken(**fields), "r", PLAINLY)

    with pytest.raises(Refused) as caught:
        asyncio.run(main())
    assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")
    assert caught.value.message.startswith(param)


CLAUDES = Spoken("/messages", {b"anthropic-beta": b"b-1"})


def claude(stand_in_does: Any = None) -> Lane:
    return lane(stand_in_does or sends, api_key="k")[0]


def test_a_provider_s_own_dialect_goes_the_direct_way_as_the_client_wrote_it() -> None:
    raw = b'{"model":"x","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"top_p":0.10}'

    async def main() -> Any:
        return await claude(asks_through_the_gate).explain(raw, "r", CLAUDES)

    explained = asyncio.run(main())
    assert explained.request.content == b'{"model":"claude-there",' + raw.removeprefix(b'{"model":"x",')
    assert explained.request.headers["anthropic-beta"] == "b-1"
    assert [row.field for row in explained.rows] == ["max_tokens", "messages", "top_p"]


def asks_through_the_gate(gate: Gate, kwargs: Mapping[str, Any]) -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        raise AssertionError("nothing is sent")

    gate.sender = never
    body = {"model": "claude-there", "messages": kwargs["messages"], "max_tokens": 64000}
    gate.check(httpx.Request("POST", "https://api.example/v1/messages", content=json.dumps(body)))


def test_an_address_is_asked_for_once_for_calls_that_are_alike_and_never_by_an_explanation() -> None:
    asked: list[tuple[str, bool]] = []

    def does(gate: Gate, kwargs: Mapping[str, Any]) -> None:
        asked.append((gate.mode, kwargs["stream"]))
        asks_through_the_gate(gate, kwargs)

    async def main() -> None:
        made = claude(does)
        await made.address(stream=False, explain=True)
        for stream in (False, True, False, True):
            await made.address(stream=stream)
        await made.address(stream=True, explain=True)

    asyncio.run(main())
    assert asked == [("explain", False), ("learn", False), ("learn", True), ("explain", True)]


@pytest.mark.parametrize(
    ("does", "code"),
    [
        (raises(ValueError("Missing Anthropic API Key")), "no_credentials"),
        (lambda gate, kwargs: None, "unsupported_provider"),
    ],
)
def test_an_address_that_cannot_be_learned_says_why(does: Any, code: str) -> None:
    async def main() -> None:
        await claude(does).open(body(), "r", CLAUDES)

    with pytest.raises(BridgeError) as caught:
        asyncio.run(main())
    assert caught.value.code == code


def test_embeddings_go_their_own_way_and_not_through_chat() -> None:
    def prepared(provider: str, model: str, family: Any = ANTHROPIC) -> Any:
        made, stand_in = lane(raises(AssertionError("no chat")))
        stand_in.provider, stand_in.model, stand_in.speaks = provider, model, family.speaks
        return asyncio.run(made._prepare(b'{"input":"a"}', "r", Spoken("/embeddings"), explain=False))

    assert isinstance(prepared("cohere", "embed-v4.0"), EmbeddingCall)
    assert isinstance(prepared("openai", "text-embedding-3-small", CHAT), DirectCall)
    with pytest.raises(Refused):
        prepared("anthropic", "m")
