"""OpenAI's elder completions through LiteLLM: said as chat completions, or relayed where the provider has them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import openai
import pytest

from native_lanes import KEY, native_lanes
from native_providers import Answer, NativeProviders, native_providers

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def providers() -> Iterator[NativeProviders]:
    with native_providers() as server:
        yield server


@pytest.fixture
def provider(providers: NativeProviders) -> NativeProviders:
    providers.answer = Answer()
    providers.asked.clear()
    return providers


@pytest.fixture(scope="module")
def texts(providers: NativeProviders) -> Iterator[httpx.Client]:
    url = providers.url
    with native_lanes(
        {
            "anthropic": ("anthropic/claude-sonnet-4-5", url),
            "gemini": ("gemini/gemini-2.5-flash", url),
            "mistral": ("mistral/mistral-large-latest", f"{url}/v1"),
            "openai": ("openai/gpt-3.5-turbo-instruct", f"{url}/v1"),
        }
    ) as client:
        yield client


@pytest.mark.parametrize("lane", ["anthropic", "gemini", "mistral", "openai"])
def test_openai_s_client_gets_a_text_for_a_prompt_whole_and_in_pieces(
    texts: httpx.Client, provider: NativeProviders, lane: str
) -> None:
    with openai.OpenAI(base_url=f"{texts.base_url}/{lane}/v1", api_key=KEY, max_retries=0) as client:
        whole = client.completions.create(model="any", prompt="say it", max_tokens=9)
        pieces = list(
            client.completions.create(
                model="any", prompt="say it", stream=True, stream_options={"include_usage": True}
            )
        )
    assert (whole.choices[0].text, whole.choices[0].finish_reason) == ("Hello world", "stop")
    assert "".join(choice.text for piece in pieces for choice in piece.choices) == "Hello world"
    assert [choice.finish_reason for piece in pieces for choice in piece.choices][-1] == "stop"
    for usage in (whole.usage, pieces[-1].usage):
        assert usage is not None
        assert usage.completion_tokens == 7
    assert "say it" in str(provider.calls[-1].body)
    relayed = lane == "openai"
    assert provider.calls[-1].path.endswith("/v1/completions") is relayed


def test_a_prompt_that_chat_cannot_hold_is_refused_under_the_client_s_name(
    texts: httpx.Client, provider: NativeProviders
) -> None:
    for lane in ("anthropic", "mistral"):
        for fields, param in (
            ({"prompt": ["a", "b"]}, "prompt"),
            ({"prompt": "a", "echo": True}, "echo"),
            ({"prompt": "a", "logprobs": 2}, "logprobs"),
        ):
            reply = texts.post(f"/{lane}/v1/completions", json={"model": "m"} | fields)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    reply = texts.post("/anthropic/v1/completions", json={"model": "m", "prompt": " "})
    assert reply.json()["error"]["param"] == "prompt"
    assert provider.asked == []
    raw = {"prompt": [1, 2], "echo": True, "logprobs": 2}
    texts.post("/openai/v1/completions", json={"model": "m"} | raw)
    sent = dict(provider.calls[-1].body)
    assert sent.pop("model") == "gpt-3.5-turbo-instruct"
    assert sent == raw
