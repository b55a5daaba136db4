"""Embeddings through LiteLLM, against providers that speak their own dialects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from native_lanes import KEY, native_lanes
from native_providers import Answer, NativeProviders, native_providers, vector_of

pytestmark = pytest.mark.timeout(120)

TRANSLATED = ("gemini", "titan", "bedrock_cohere", "nova", "cohere", "ollama")
ONE_TEXT = ("titan", "nova")
UNCOUNTED = ("bedrock_cohere", "nova")
"""Bedrock counts these in a header, which the provider of this test does not send."""
RELAYED = ("openai", "azure", "mistral", "deepinfra")


@pytest.fixture(scope="module")
def providers() -> Iterator[NativeProviders]:
    with native_providers() as server:
        yield server


@pytest.fixture(scope="module")
def lanes(providers: NativeProviders) -> Iterator[httpx.Client]:
    url = providers.url
    with native_lanes(
        {
            "gemini": ("gemini/gemini-embedding-001", url),
            "titan": ("bedrock/amazon.titan-embed-text-v2:0", url),
            "bedrock_cohere": ("bedrock/cohere.embed-english-v3", url),
            "nova": ("bedrock/amazon.nova-2-multimodal-embeddings-v1:0", url),
            "cohere": ("cohere/embed-v4.0", f"{url}/v2/chat"),
            "ollama": ("ollama_chat/nomic-embed-text", url),
            "openai": ("openai/text-embedding-3-small", f"{url}/v1"),
            "azure": ("azure/text-embedding-3-small", url),
            "mistral": ("mistral/mistral-embed", f"{url}/v1"),
            "deepinfra": ("deepinfra/some-model", f"{url}/v1"),
            "anthropic": ("anthropic/claude-sonnet-4-5", url),
            "groq": ("groq/llama-3.3-70b-versatile", f"{url}/v1"),
        }
    ) as client:
        yield client


@pytest.fixture
def provider(providers: NativeProviders) -> NativeProviders:
    providers.answer = Answer()
    providers.asked.clear()
    return providers


def ask(lanes: httpx.Client, lane: str, **fields: Any) -> httpx.Response:
    return lanes.post(f"/{lane}/v1/embeddings", json={"model": "any", "input": "hello"} | fields)


@pytest.mark.parametrize("encoding", ["float", "base64"])
@pytest.mark.parametrize("lane", [*TRANSLATED, *RELAYED])
def test_openai_s_client_gets_the_vectors_of_its_texts_in_their_order(
    lanes: httpx.Client, provider: NativeProviders, lane: str, encoding: Any
) -> None:
    texts = ["hello"] if lane in ONE_TEXT else ["hello", "a longer one", "hello"]
    with openai.OpenAI(base_url=f"{lanes.base_url}/{lane}/v1", api_key=KEY, max_retries=0) as client:
        plain = client.embeddings.create(model="any", input=texts, encoding_format="float")
        usual = client.embeddings.create(model="any", input=texts)
    for reply in (plain, usual):
        assert [item.embedding for item in reply.data] == [vector_of(text) for text in texts]
        assert [item.index for item in reply.data] == list(range(len(texts)))
    if lane not in UNCOUNTED:
        assert plain.usage.prompt_tokens == 5
    assert len(provider.calls) == 2


@pytest.mark.parametrize("lane", [*TRANSLATED, *RELAYED])
def test_tokens_that_were_not_counted_are_not_made_up(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    provider.answer = Answer(usage=False)
    reply = ask(lanes, lane)
    assert reply.status_code == 200, reply.text
    assert "usage" not in reply.json()


@pytest.mark.parametrize(
    ("lane", "place"),
    [
        ("gemini", ("requests", 0, "outputDimensionality")),
        ("titan", ("dimensions",)),
        ("bedrock_cohere", ("output_dimension",)),
        ("nova", ("singleEmbeddingParams", "embeddingDimension")),
        ("cohere", ("output_dimension",)),
        ("ollama", ("dimensions",)),
        ("openai", ("dimensions",)),
        ("mistral", ("dimensions",)),
    ],
)
def test_dimensions_arrive_where_the_provider_wants_them(
    lanes: httpx.Client, provider: NativeProviders, lane: str, place: tuple[Any, ...]
) -> None:
    assert ask(lanes, lane, dimensions=64).status_code == 200
    found: Any = provider.calls[-1].body
    for name in place:
        found = found[name]
    assert found == 64


@pytest.mark.parametrize("lane", TRANSLATED)
def test_what_cannot_be_sent_is_refused_by_name_and_nothing_is_sent(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    for fields, param in (({"user": "u"}, "user"), ({"input": [1, 2]}, "input"), ({"input": []}, "input")):
        reply = ask(lanes, lane, **fields)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    for name in ("anthropic", "groq"):
        assert ask(lanes, name).json()["error"]["code"] == "dialect_not_translated"
    assert provider.asked == []


@pytest.mark.parametrize("lane", RELAYED)
def test_openai_s_own_request_and_reply_pass_as_they_are(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    fields = {"input": [[1, 2], [3]], "user": "u", "x_new": {"a": None}}
    reply = ask(lanes, lane, **fields)
    assert reply.json()["vendor"] == 1
    sent = dict(provider.calls[-1].body)
    assert sent.pop("model") != "any"
    assert sent == fields
    assert provider.calls[-1].path.partition("?")[0].endswith("/embeddings")


@pytest.mark.parametrize("lane", [*TRANSLATED, *RELAYED])
def test_a_refusal_of_the_provider_keeps_its_status_headers_and_words(
    lanes: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    provider.answer = Answer(
        status=429, body={"error": {"message": "slower"}}, headers=(("retry-after", "7"),)
    )
    reply = ask(lanes, lane)
    assert (reply.status_code, reply.json()["error"]["message"]) == (429, "slower")
    assert reply.headers["retry-after"] == "7"
    assert len(provider.calls) == 1


def test_the_report_shows_what_would_be_sent(lanes: httpx.Client, provider: NativeProviders) -> None:
    for lane, place in (("gemini", "requests[].outputDimensionality"), ("openai", "dimensions")):
        reply = lanes.post(
            f"/{lane}/v1/explain/embeddings", json={"model": "m", "input": ["a"], "dimensions": 5}
        )
        assert reply.status_code == 200, reply.text
        rows = {row["field"]: row for row in reply.json()["fields"]}
        assert rows["dimensions"]["at"] == place
        assert KEY not in reply.text
    assert provider.asked == []
