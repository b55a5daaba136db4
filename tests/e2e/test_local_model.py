"""The embedded model as it is: the real weights, served by the real llama.cpp, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from osmosis_bridge.local_model import LocalModel, LocalModelError, start_local_model
from osmosis_bridge.local_weights import ensure_weights, known_weights

NAME = "smollm2-135m-instruct"
QUESTION = {
    "messages": [{"role": "user", "content": "What is 7 times 8?"}],
    "temperature": 0,
    "max_tokens": 60,
}
# What a server makes anew for every reply.
NEW_EACH_TIME = {"id", "created", "timings"}


@pytest.fixture(scope="module", autouse=True)
def weights() -> None:
    """Fetched once by the ordinary client, then found in the cache."""
    pytest.importorskip("xllamacpp", reason="needs the extra `local`")
    try:
        asyncio.run(ensure_weights(known_weights(NAME), os.environ))
    except LocalModelError as error:
        # In CI a model that cannot be had is a failure: nothing else runs on the real one.
        if "CI" in os.environ:
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    with asyncio.Runner() as runner:
        model = runner.run(start_local_model(NAME, os.environ))
        yield model
        runner.run(model.stop())
        assert not psutil.pid_exists(model.pid)


@pytest.fixture
def client(model: LocalModel) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {model.api_key}"}
    # The server ends kept connections when it likes, and this client would take that for no answer.
    fresh = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=model.base_url, headers=headers, timeout=60, limits=fresh) as client:
        yield client


def ask(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    reply = client.post("/chat/completions", json={**QUESTION, **fields})
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_it_knows_seven_times_eight_and_its_own_name(client: httpx.Client) -> None:
    reply = ask(client, model="any alias")
    assert "56" in reply["choices"][0]["message"]["content"]
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["model"] == NAME
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


def test_the_same_call_gives_the_same_reply_and_usage_every_time(client: httpx.Client) -> None:
    replies = [ask(client) for _ in range(3)]
    comparable = [{k: v for k, v in reply.items() if k not in NEW_EACH_TIME} for reply in replies]
    assert comparable[0] == comparable[1] == comparable[2]
    assert comparable[0]["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


def test_a_call_may_ask_for_the_cache_of_prompts(client: httpx.Client) -> None:
    ask(client, cache_prompt=True, max_tokens=1)
    cached = ask(client, cache_prompt=True, max_tokens=1)["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > 0


def test_a_stream_has_its_usage_when_asked(client: httpx.Client) -> None:
    asked = {**QUESTION, "stream": True, "stream_options": {"include_usage": True}}
    text = client.post("/chat/completions", json=asked).text
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    said = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert said == ask(client)["choices"][0]["message"]["content"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0


def test_log_probabilities_choices_and_schemas_are_served(client: httpx.Client) -> None:
    tokens = ask(client, max_tokens=3, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]["content"]
    assert [len(token["top_logprobs"]) for token in tokens] == [2, 2, 2]
    assert [choice["index"] for choice in ask(client, max_tokens=3, n=2)["choices"]] == [0, 1]
    schema = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    said = ask(client, response_format=wanted)["choices"][0]["message"]["content"]
    assert isinstance(json.loads(said)["answer"], int)


def test_a_prompt_beyond_the_context_is_a_400_that_says_so(client: httpx.Client) -> None:
    long = [{"role": "user", "content": "word " * 2500}]
    reply = client.post("/chat/completions", json={**QUESTION, "messages": long})
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "exceed_context_size_error"
    assert reply.json()["error"]["n_ctx"] == 2048


def test_nobody_without_the_key_is_served(model: LocalModel) -> None:
    for headers in ({}, {"authorization": "Bearer guess"}):
        reply = httpx.post(f"{model.base_url}/chat/completions", json=QUESTION, headers=headers)
        assert reply.status_code == 401


def test_it_listens_on_loopback_only(model: LocalModel) -> None:
    listening = [
        c.laddr for c in psutil.Process(model.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"]


def test_a_client_that_leaves_frees_its_slot(model: LocalModel, client: httpx.Client) -> None:
    # Four calls that would keep all four slots busy for a minute, in all the ways a client can leave.
    body = json.dumps({**QUESTION, "max_tokens": 1900, "ignore_eos": True, "stream": True})
    for stream in ("true", "true", "false", "false"):
        leave(model, body.replace('"stream": true', f'"stream": {stream}'), after_first_byte=stream == "true")
    started = time.monotonic()
    ask(client, max_tokens=2)
    assert time.monotonic() - started < 20


def leave(model: LocalModel, body: str, *, after_first_byte: bool) -> None:
    address = urlsplit(model.base_url)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {model.api_key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port or 0)) as connection:
        connection.sendall((head + body).encode())
        if after_first_byte:
            assert connection.recv(1) == b"H"


OWNER = """
import asyncio, os, sys
from osmosis_bridge.local_model import start_local_model

async def main():
    model = await start_local_model("smollm2-135m-instruct", os.environ)
    print(model.pid, "xllamacpp" in sys.modules, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_it_dies_with_an_owner_that_is_killed_and_llama_cpp_is_never_in_the_owners_process() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, imported = owner.stdout.readline().split()
        assert imported == "False"
        process = psutil.Process(int(pid))
        assert process.is_running()
        owner.kill()
        deadline = time.monotonic() + 8
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "the model outlived its owner"
            time.sleep(0.02)
