"""Secrets planted wherever a secret can be, and looked for wherever one could come out: nothing may be found.

Each place has a secret of its own, so that a find says where it came from. A secret is looked for as it stands, as JSON
and URLs write it, and in base64.
"""

from __future__ import annotations

import base64
import json
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bridge_process import (
    BridgeProcess,
    Played,
    UpstreamThread,
    bridge_process,
    environment,
    run_bridge,
)
from osmosis_bridge.bearers import rollout_bearer
from osmosis_bridge.conformance.reply import ReplyReader
from osmosis_bridge.conformance.samples import completion
from osmosis_bridge.conformance.script import Script, plain
from rollouts_under_test import json_lines, make_workspace, row
from telltale import Telltale

# Characters that JSON and URLs write differently; a header may hold them all.
ODD = '+/=&"<%'


def canary(name: str, odd: str = "") -> str:
    return f"c4nary-{name}-{secrets.token_hex(8)}{odd}"


KEY, TOKEN = canary("key", ODD), canary("token")
AMBIENT = {
    "ANTHROPIC_API_KEY": canary("other-key"),
    "AWS_SECRET_ACCESS_KEY": canary("aws", "/+"),
    "DB_PASSWORD": canary("password"),
}
CLIENTS = canary("client")
"""What a client should not have sent."""
IN_URL = canary("url")
PLANTED = {"provider's key": KEY, "run's bearer": TOKEN, **AMBIENT, "client's": CLIENTS, "in the URL": IN_URL}


def forms(secret: str) -> set[bytes]:
    """How a secret may be written."""
    escaped = json.dumps(secret)[1:-1]
    written = {secret, escaped, escaped.replace("/", "\\/"), quote(secret), quote(secret, safe="")}
    return {text.encode() for text in written} | {base64.b64encode(secret.encode()).rstrip(b"=")[:-1]}


def found_in(content: bytes, more: dict[str, str] | None = None) -> list[str]:
    """The names of the secrets that some bytes hold."""
    every = {**PLANTED, **(more or {})}
    return [name for name, secret in every.items() if any(form in content for form in forms(secret))]


@dataclass
class Watch:
    """A bridge full of secrets, and everything that came out of it."""

    bridge: BridgeProcess
    upstream: UpstreamThread
    replies: dict[str, bytes] = field(default_factory=dict)

    def talk(self, name: str, request: bytes) -> bytes:
        """Send bytes; keep the reply as it came and with its framing undone."""
        port = int(self.bridge.url.rpartition(":")[2])
        reply = b""
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(request)
            while piece := connection.recv(65536):
                reply += piece
        reader = ReplyReader()
        reader.feed(reply)
        self.replies[name] = reply + b"\n" + bytes(reader.body)
        return reply

    def ask(
        self, name: str, body: object, *, path: str = "/v1/chat/completions", method: str = "POST",
        headers: tuple[str, ...] = (), bearer: str | None = None,
    ) -> bytes:  # fmt: skip
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1",
            *(["host: localhost"] if not any("host:" in line for line in headers) else []),
        ]
        lines += [
            "connection: close",
            f"content-length: {len(content)}",
            f"authorization: Bearer {bearer or TOKEN}",
            *headers,
        ]
        return self.talk(name, "\r\n".join([*lines, "", ""]).encode("latin-1") + content)

    def call(self, name: str, script: Script, **fields: Any) -> bytes:
        return self.ask(name, {"model": "m", "messages": self.upstream.play(script).messages, **fields})


@contextmanager
def watching(upstream: UpstreamThread, folder: Path, *flags: str) -> Iterator[Watch]:
    environ = {"OPENAI_API_KEY": KEY, "OSMOSIS_BRIDGE_TOKEN": TOKEN, **AMBIENT}
    url = f"{upstream.url}?api-version=1&sig={IN_URL}"
    with bridge_process(folder, url, *flags, environ=environ, token=TOKEN) as bridge:
        yield Watch(bridge, upstream)


@pytest.fixture(scope="module")
def upstream() -> Iterator[UpstreamThread]:
    with UpstreamThread().serving() as serving:
        yield serving


def plant_in_provider(watch: Watch) -> None:
    """Everything that the provider is sent, and what it knows besides, it says again."""
    for name, (script, streamed) in Telltale([KEY, TOKEN, *AMBIENT.values(), IN_URL]).scripts().items():
        watch.call(f"provider says {name}", script, stream=streamed)


# What a client says.


def plant_in_requests(watch: Watch) -> None:
    played = watch.upstream.play(plain(completion()))
    ask = {"model": "m", "messages": played.messages}
    controls = {
        "api_key": CLIENTS,
        "api_base": f"http://u:{CLIENTS}@127.0.0.1:1/v1?k={CLIENTS}",
        "extra_headers": {"x": CLIENTS},
    }
    deep = {"extra_body": {"extra_body": {"api_key": CLIENTS}}}
    watch.ask("controls", {**ask, **controls})
    watch.ask("controls in extra_body", {**ask, "extra_body": {**controls, "aws_secret_access_key": CLIENTS}})
    watch.ask("controls too deep", {**ask, **deep})
    watch.ask(
        "a control that is not text", {**ask, "api_key": {"value": [CLIENTS]}, "litellm_params": CLIENTS}
    )
    bad = [
        f"x-api-key: {CLIENTS}",
        f"api-key: {CLIENTS}",
        f"cookie: s={CLIENTS}",
        f"proxy-authorization: Basic {CLIENTS}",
        f"x-goog-api-key: {CLIENTS}",
    ]
    watch.ask("headers", ask, headers=tuple(bad))
    watch.ask("a query", ask, path=f"/v1/chat/completions?key={CLIENTS}&token={TOKEN}")
    for place, wrong in enumerate((CLIENTS, KEY, f"orb-r1.{CLIENTS}", f"{TOKEN}x")):
        watch.ask(f"a wrong bearer {place}", ask, bearer=wrong)
    watch.ask("a wrong path", None, method="GET", path=f"/v1/{quote(KEY)}/{TOKEN}?k={CLIENTS}")
    watch.ask("a wrong method", None, method="DELETE", path=f"/v1/models/{TOKEN}")
    watch.ask("a wrong host", ask, headers=(f"host: {TOKEN}.example", f"origin: http://{KEY}"))
    watch.ask("a wrong origin", ask, headers=("host: localhost", f"origin: http://{TOKEN}"))
    watch.ask("a broken body", f'{{"messages": "{KEY} {CLIENTS}'.encode())
    watch.ask("a body that is a secret", json.dumps(TOKEN).encode())
    watch.talk("no HTTP", f"BREW /{TOKEN} HTTP/9\r\nx {KEY}\r\n\r\n".encode())
    watch.talk("too many headers", f"GET / HTTP/1.1\r\nhost: localhost\r\nx: {TOKEN * 4000}\r\n\r\n".encode())
    for dry in (controls, deep, {"extra_body": controls}):
        watch.ask(f"a dry run of {next(iter(dry))}", {**ask, **dry}, headers=("x-osmosis-dry-run: 1",))


def plant_in_names(watch: Watch) -> None:
    """A client that writes the run's own secrets where names stand."""
    played = watch.upstream.play(plain(completion()))
    ask = {"messages": played.messages}
    for place, secret in enumerate((TOKEN, KEY)):
        watch.ask(f"an alias {place}", {**ask, "model": secret})
        watch.ask(f"a field {place}", {**ask, secret: 1, f"litellm_{secret}": 2})
        watch.ask(f"a model {place}", None, method="GET", path=f"/v1/models/{quote(secret, safe='')}")
        watch.ask(f"a rollout in a header {place}", ask, headers=(f"x-osmosis-rollout-id: {secret}",))
    for name, method in (
        ("chat/completions", "POST"),
        ("usage", "GET"),
        ("close", "POST"),
        ("chat/completions", "POST"),
    ):
        watch.ask(
            f"a rollout in the path of {name}",
            ask if method == "POST" else None,
            method=method,
            path=f"/v1/rollouts/{TOKEN}/{name}",
        )


def plant_in_routes(watch: Watch) -> None:
    for path in ("/health", "/usage", "/metrics", "/v1/models", "/v1/rollouts/default/usage"):
        watch.ask(path, None, method="GET", path=path)
    bearer = rollout_bearer(TOKEN, "r-1")
    played = watch.upstream.play(plain(completion()))
    watch.ask("a rollout's bearer", {"messages": played.messages}, bearer=bearer)
    watch.ask(
        "a rollout's bearer elsewhere",
        {"messages": played.messages},
        bearer=bearer,
        path="/v1/rollouts/r-2/chat/completions",
    )
    watch.ask(
        "a rollout's bearer where only the run's will do", None, bearer=bearer, path="/v1/rollouts/r-1/close"
    )


PLANTS = (plant_in_provider, plant_in_requests, plant_in_names, plant_in_routes)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_reply_and_no_file_of_a_bridge_holds_a_secret(
    tmp_path: Path, upstream: UpstreamThread, log_format: str
) -> None:
    with watching(upstream, tmp_path, "--log-format", log_format) as watch:
        for plant in PLANTS:
            plant(watch)
        words = Path(f"/proc/{watch.bridge.process.pid}/cmdline").read_bytes()
        reached = watch.bridge.records()
    seen = (len(reached), len(watch.replies))
    assert seen > (35, 60)
    faults = [
        name
        for name, reply in watch.replies.items()
        if reply.startswith(b"HTTP/1.1 500") and "provider" not in name
    ]
    assert faults == []
    more = {"a rollout's": rollout_bearer(TOKEN, "r-1")}
    leaks = {name: held for name, reply in watch.replies.items() if (held := found_in(reply, more))}
    files = {file.name: held for file in tmp_path.iterdir() if (held := found_in(file.read_bytes(), more))}
    assert {file.name for file in tmp_path.iterdir()} == {"calls.jsonl", "log.txt", "ready.json"}
    assert leaks == {}
    assert files == {}
    # The operator gave the URL on the command line; nothing else may stand there.
    assert set(found_in(words)) <= {"in the URL"}


def test_what_clients_plant_never_reaches_the_provider(tmp_path: Path, upstream: UpstreamThread) -> None:
    with watching(upstream, tmp_path) as watch:
        played: list[Played] = []
        play = upstream.play

        class Noting:
            def play(self, script: Script, *later: Script) -> Played:
                played.append(play(script, *later))
                return played[-1]

        watch.upstream = Noting()  # pyright: ignore[reportAttributeAccessIssue] - the one method that plants use
        plant_in_requests(watch)
    received = [request for one in played for request in one.received]
    assert len(received) >= 4
    assert not [
        request for request in received if found_in(request.head + request.body, {}) not in ([], SENT)
    ]


SENT = ["provider's key", "in the URL"]


def test_a_provider_that_cannot_be_reached_is_told_without_its_secrets(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        seen = b""
        for place, (where, environ) in enumerate(
            (
                (f"http://127.0.0.1:{port}/v1?sig={IN_URL}", {}),
                (f"http://no-such-host.invalid/v1?sig={IN_URL}", {}),
                ("http://provider.invalid/v1", {"HTTP_PROXY": f"http://user:{IN_URL}@127.0.0.1:{port}"}),
                (
                    f"https://127.0.0.1:{port}/v1?sig={IN_URL}",
                    {"HTTPS_PROXY": f"http://user:{IN_URL}@127.0.0.1:{port}", "NO_PROXY": ""},
                ),
            )
        ):
            folder = tmp_path / str(place)
            folder.mkdir()
            given = {"OPENAI_API_KEY": KEY, "OSMOSIS_BRIDGE_TOKEN": TOKEN, **environ}
            with bridge_process(folder, where, environ=given, token=TOKEN) as bridge:
                watch = Watch(bridge, UpstreamThread())
                reply = watch.ask("unreachable", {"messages": []})
                assert reply.startswith(b"HTTP/1.1 502 ")
            seen += reply + b"".join(file.read_bytes() for file in folder.iterdir())
    assert found_in(seen) == []


def test_a_bridge_that_refuses_to_start_shows_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "b.toml"
    file.write_text(f'model = "openai/x"\napi_key = "{CLIENTS}"\n')
    said_all = ""
    for flags in (
        ["--config", str(file)],
        ["--model", "openai/x", "--api-base", f"http://user:{IN_URL}@127.0.0.1/v1"],
        ["--model", "openai/x", "--api-base", f"ftp://127.0.0.1/v1?sig={IN_URL}"],
        ["--model", "openai/x", "--api-base", f"http://127.0.0.1:{IN_URL}/v1"],
        ["--model", "openai/x", "--host", "192.0.2.1", "--port", "0"],
        ["--model", "openai/x", "--ledger", "/no/such/folder/x"],
    ):
        done = run_bridge("serve", *flags, OPENAI_API_KEY=KEY, OSMOSIS_BRIDGE_TOKEN=TOKEN)
        assert done.returncode != 0
        said_all += done.stdout + done.stderr
    for token in (f"{CLIENTS} with a space", "short", f"{CLIENTS}\u00e9"):
        done = run_bridge("serve", "--model", "openai/x", OPENAI_API_KEY=KEY, OSMOSIS_BRIDGE_TOKEN=token)
        assert done.returncode != 0
        said_all += done.stdout + done.stderr
    assert found_in(said_all.encode()) == []
    assert "Traceback" not in said_all


# A whole run.

TELLTALE = """
import asyncio, json, os, sys
from osmosis_runner.rollout import AgentWorkflow, Grader, serve

async def ask(ctx, text):
    from urllib.parse import urlsplit
    url = urlsplit(ctx.base_url)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], "api_key": ctx.api_key}).encode()
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    head = f"POST {url.path}/chat/completions HTTP/1.1\\r\\nhost: {url.netloc}\\r\\nconnection: close\\r\\n"
    head += f"authorization: Bearer {ctx.api_key}\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    return answer.decode()

class Workflow(AgentWorkflow):
    async def run(self, ctx):
        answer = await ask(ctx, ctx.prompt[-1]["content"])
        everything = f"{dict(os.environ)} {ctx.api_key} {ctx.base_url} {answer}"
        print(everything, flush=True)
        print(everything, file=sys.stderr, flush=True)
        ctx.messages = [*ctx.prompt, {"role": "assistant", "content": answer}]
        if (ctx.metadata or {}).get("mode") == "raise":
            raise RuntimeError(everything)
        return ctx.messages

class Scorer(Grader):
    async def grade(self, ctx):
        print(f"grading with {dict(os.environ)}", flush=True)
        if (ctx.metadata or {}).get("mode") == "grader_raise":
            raise ValueError(f"no grade: {dict(os.environ)}")
        ctx.set_reward(1.0)

if __name__ == "__main__":
    serve(Workflow, Scorer)
"""


@pytest.mark.parametrize("mode", ["--json", "--plain"])
def test_no_file_of_a_run_and_no_output_of_its_command_holds_a_secret(
    tmp_path: Path, upstream: UpstreamThread, mode: str
) -> None:
    tool_key = canary("tool", ODD[:-1])
    tools = {"tool's": tool_key}
    told = Telltale([KEY, *AMBIENT.values(), tool_key, IN_URL]).scripts()
    texts = [upstream.play(script).token for script, streamed in told.values() if not streamed]
    rows = [
        row(prompt=f"case:{text}", mode=mode)
        for text, mode in zip(texts * 2, ["ok", "raise", "grader_raise"] * 9, strict=False)
    ]
    workspace = make_workspace(tmp_path, upstream.url, rows, batch_size=8)
    workspace.config.write_text(
        workspace.config.read_text().replace("required = []", 'required = ["TOOL_KEY"]')
    )
    (tmp_path / "rollouts/t/main.py").write_text(TELLTALE)
    (tmp_path / ".env").write_text(f"PROVIDER_KEY='{KEY}'\nTOOL_KEY='{tool_key}'\n")
    reach = [
        "--api-base",
        f"{upstream.url}?sig={IN_URL}",
        "--api-key-env",
        "PROVIDER_KEY",
        "--name",
        "r",
        "--yes",
        mode,
    ]
    outputs = b""
    for arguments in (["eval", "run", "configs/eval/t.toml", *reach], ["eval", "show", "r", mode]):
        done = subprocess.run(
            [sys.executable, "-m", "osmosis_cli", *arguments],
            cwd=tmp_path, env=environment(**AMBIENT), capture_output=True, timeout=50, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 3), done.stderr.decode()
        outputs += done.stdout + done.stderr
    records = json_lines(workspace.run_dir() / "events.jsonl")
    assert len(records) >= len(rows)
    assert {record["status"] for record in records} >= {"success", "failed"}
    kept = {
        file.relative_to(workspace.run_dir()) for file in workspace.run_dir().rglob("*") if file.is_file()
    }
    written = {file: (workspace.run_dir() / file).read_bytes() for file in kept}
    names = {str(file) for file in kept}
    assert names >= {
        "logs.txt",
        "events.jsonl",
        "calls.jsonl",
        "index.jsonl",
        "manifest.json",
        "metrics.json",
    }
    leaks = {str(file): held for file, content in written.items() if (held := found_in(content))}
    assert leaks == {}
    # What the rollout itself was given it may write into its own folder; it is scrubbed when the run takes it over.
    told_on = [
        str(file) for file, content in written.items() if b"orb-" in content or found_in(content, tools)
    ]
    assert told_on == []
    assert found_in(outputs, tools) == []
    assert b"orb-" not in outputs
