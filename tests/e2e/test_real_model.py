"""A real model behind the bridge, checked field by field against asking its server directly."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from bridge_process import TOKEN, BridgeProcess, bridge_process
from osmosis_bridge.local_model import LocalModel, LocalModelError, start_local_model
from osmosis_bridge.local_weights import ensure_weights, known_weights

NAME = "smollm2-135m-instruct"
ALIAS = "osmosis-rollout"
ASKED = {"model": ALIAS, "temperature": 0, "max_tokens": 8}
QUESTION = [{"role": "user", "content": "What is 7 times 8?"}]
# What the server makes anew for every reply, and what the bridge answers for: only their kind is compared.
ANEW = frozenset({"model", "id", "created"})
# Times of the server's own, in the last chunk of a stream, which is the hidden one where usage was not asked for.
TIMES = "timings"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "adds", "parameters": {"type": "object", "properties": {}}},
}
FORCED = {"type": "function", "function": {"name": "add"}}


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    pytest.importorskip("xllamacpp", reason="needs the extra `local`")
    with asyncio.Runner() as runner:
        try:
            runner.run(ensure_weights(known_weights(NAME), os.environ))
        except LocalModelError as error:
            # In CI a model that cannot be had is a failure: nothing else runs on the real one.
            if "CI" in os.environ:
                raise
            pytest.skip(str(error))
        model = runner.run(start_local_model(NAME, os.environ))
        yield model
        runner.run(model.stop())


@pytest.fixture(scope="module")
def bridge(model: LocalModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeProcess]:
    environ = {"OSMOSIS_BRIDGE_TOKEN": TOKEN, "OPENAI_API_KEY": model.api_key}
    folder = tmp_path_factory.mktemp("real")
    with bridge_process(folder, model.base_url, model=f"openai/{NAME}", environ=environ) as running:
        yield running


def ask(url: str, bearer: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"authorization": f"Bearer {bearer}"}
    return httpx.post(f"{url}/chat/completions", json=body, headers=headers, timeout=60)


def both(bridge: BridgeProcess, model: LocalModel, **fields: Any) -> tuple[httpx.Response, httpx.Response]:
    """The same request, asked directly and through the bridge."""
    body = {**ASKED, "messages": QUESTION, **fields}
    return ask(model.base_url, model.api_key, body), ask(bridge.base_url(), TOKEN, body)


def exact(text: str) -> Any:
    """JSON with its order and the text of its numbers kept; what is made anew is replaced by its kind."""

    def fields(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        shown = [(name, type(value).__name__ if name in ANEW else value) for name, value in pairs]
        return [(name, value) for name, value in shown if name != TIMES]

    return json.loads(text, object_pairs_hook=fields, parse_float=str, parse_int=str)


def frames(reply: httpx.Response) -> list[Any]:
    """The events of a stream, each as exact JSON."""
    texts = [line.removeprefix("data: ") for line in reply.text.splitlines() if line]
    return [text if text == "[DONE]" else exact(text) for text in texts]


HISTORY = [
    {"role": "system", "content": "Only digits. \u00e9\u2028"},
    *QUESTION,
    {"role": "assistant", "content": "56"},
]
CHOICES = {"n": 2, "max_tokens": 4, "seed": 7, "temperature": 1.1, "top_p": 0.9}
PLAIN: dict[str, dict[str, Any]] = {
    "a history, and fields that only this server knows": {
        "messages": [*HISTORY, *QUESTION], "top_k": 5, "min_p": 0.05, "repeat_penalty": 1.2, "cache_prompt": False,
    },
    "stop sequences": {"stop": ["8", "five", "a", "b", "56"]},
    "log probabilities": {"max_tokens": 3, "logprobs": True, "top_logprobs": 3},
    "several choices of a seed": CHOICES,
    "a schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
    "a tool it may use": {"tools": [TOOL], "max_tokens": 4},
    "a tool it must use": {"tools": [TOOL], "tool_choice": FORCED, "max_tokens": 12},
    "extra_body": {"extra_body": {"max_tokens": 2}},
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_a_reply_equals_the_direct_one_in_every_field(
    bridge: BridgeProcess, model: LocalModel, name: str
) -> None:
    fields = dict(PLAIN[name])
    through = ask(bridge.base_url(), TOKEN, {**ASKED, "messages": QUESTION, **fields})
    # The server itself knows no literal `extra_body`: to it, the merged body is the same request.
    fields.update(fields.pop("extra_body", {}))
    direct = ask(model.base_url, model.api_key, {**ASKED, "messages": QUESTION, **fields})
    assert direct.status_code == through.status_code == 200, (direct.text, through.text)
    assert exact(through.text) == exact(direct.text)
    assert direct.json()["model"] == NAME
    assert through.json()["model"] == ALIAS
    record = bridge.records()[-1]
    usage = direct.json()["usage"]
    assert record["usage"]["total_tokens"] == usage["total_tokens"]
    assert record["usage"]["prompt_tokens"] == usage["prompt_tokens"]
    assert record["finish_reasons"] == [choice["finish_reason"] for choice in direct.json()["choices"]]


STREAMS: dict[str, dict[str, Any]] = {
    "usage asked for": {"stream_options": {"include_usage": True}},
    "usage not asked for": {"logprobs": True, "top_logprobs": 2, "max_tokens": 4},
    "several choices of a seed": CHOICES,
    "a tool it must use": {"tools": [TOOL], "tool_choice": FORCED, "max_tokens": 12},
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_equals_the_direct_one_chunk_by_chunk(
    bridge: BridgeProcess, model: LocalModel, name: str
) -> None:
    direct, through = both(bridge, model, stream=True, **STREAMS[name])
    assert direct.status_code == through.status_code == 200, (direct.text, through.text)
    assert frames(through) == frames(direct)
    assert frames(through)[-1] == "[DONE]"
    assert bridge.records()[-1]["usage"]["total_tokens"] > 0


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
ERRORS: dict[str, dict[str, Any]] = {
    "a prompt beyond the context": {"messages": [{"role": "user", "content": "word " * 2500}]},
    "a message without a role": {"messages": [{"content": "hi"}]},
    "an image it cannot see": {"messages": [{"role": "user", "content": [IMAGE]}]},
    "a schema that is none": {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "wat"}}}},
    "a tool that is none": {"tools": "hammer"},
    "a limit that is no number": {"max_tokens": "many"},
    "too many choices": {"n": 500},
}  # fmt: skip


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("name", ERRORS)
def test_what_the_model_refuses_is_refused_alike(
    bridge: BridgeProcess, model: LocalModel, name: str, streamed: bool
) -> None:
    direct, through = both(bridge, model, **ERRORS[name], stream=streamed)
    assert direct.status_code >= 400, direct.text
    assert through.status_code == direct.status_code
    assert set(through.json()["error"]) == {"message", "type", "param", "code"}
    assert through.json()["error"]["type"] == direct.json()["error"]["type"]
    assert through.json()["error"]["message"] == " ".join(direct.json()["error"]["message"].split())[:1000]
    assert bridge.records()[-1]["http_status"] == direct.status_code


def test_the_local_model_of_the_bridge_answers_like_one_asked_directly_and_ends_with_it(
    model: LocalModel, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("local")
    environ = {"OSMOSIS_BRIDGE_TOKEN": TOKEN}
    with bridge_process(folder, None, model=f"local/{NAME}", environ=environ) as bridge:
        (server,) = psutil.Process(bridge.process.pid).children()
        direct, through = both(bridge, model)
        assert exact(through.text) == exact(direct.text)
        assert bridge.records()[-1]["provider"] == "local"
        assert not [word for word in server.cmdline() if len(word) > 40], "its key is not on its command line"
        assert "llama" not in "".join(path.path for path in psutil.Process(bridge.process.pid).memory_maps())
    assert not server.is_running()
