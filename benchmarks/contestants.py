"""The proxies that are measured: ours with everything on that is on by default, nginx as the limit, and the peers.

Says how each is started and where its door is; how it is measured stands in `bridge.py`.
"""

from __future__ import annotations

import importlib.metadata
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.environments import Installer, Requirement, Unusable, versions_in
from osmosis_bridge.bearers import rollout_bearer

HERE = Path(__file__).resolve().parent
BEARER = "run-bearer-of-the-benchmark"
KEY = "sk-provider-key-of-the-benchmark"
KEY_VARIABLE = "BENCHMARK_PROVIDER_KEY"
MODEL = "mock-1"
ROLLOUT = "bench"
VERSIONED = (
    "osmosis-bridge",
    "uvicorn",
    "uvloop",
    "httptools",
    "msgspec",
    "orjson",
    "starlette",
    "structlog",
)
SHIPPED = ("-m", "osmosis_bridge")
OURS, DIRECT, NGINX, ROLTER = "ours", "direct", "nginx", "rolter"
ALSO = "ours-also"
"""Ours once more, on another Python."""

LITELLM = Requirement("litellm", ("litellm[proxy]==1.108.7",), "litellm")
OSMOSIS_AI = Requirement("osmosis-ai", ("osmosis-ai[eval]==0.3.8",), "osmosis-ai")
TENSORZERO = Requirement("tensorzero", ("tensorzero==2026.6.0", "openai>=2"), "tensorzero")
_ROLTER_PACKAGE = Requirement("rolter", ("rolter==0.1.0",), "rolter")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a contestant listens, where its upstream is, and the folder it may write in."""

    folder: Path
    port: int
    upstream: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A command that starts a contestant; `url_file` where it chooses its port itself and writes its URL there."""

    command: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    url_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Contestant:
    """One proxy."""

    name: str
    title: str
    launch: Callable[[Place], Launch] | None
    """None: nothing stands between the client and the upstream."""
    versions: Mapping[str, str]
    path: str = "/v1/chat/completions"
    model: str = MODEL
    bearer: str = BEARER
    most_streams: int = 5000
    """How many streams at once it is asked for; 0 where it does not deliver chunks as they come."""
    ready_s: float = 60.0
    python: str = sys.executable
    """The interpreter that ours runs on."""


def ours(
    flags: Sequence[str] = (),
    *,
    name: str = OURS,
    module: Sequence[str] = SHIPPED,
    python: str = sys.executable,
) -> Contestant:
    """The bridge of this checkout: ledger on disk, redaction, JSON log to a file, metrics, per-rollout bearers.

    `module` starts it otherwise, for what a default costs; `python` is an interpreter that has it installed.
    """

    def launch(place: Place) -> Launch:
        command = [
            *(python, *module, "serve", "--model", f"openai/{MODEL}"),
            *("--api-base", f"http://127.0.0.1:{place.upstream}/v1", "--api-key-env", KEY_VARIABLE),
            *("--port", str(place.port), "--log-format", "json"),
            *(
                flag.replace("{folder}", str(place.folder))
                for flag in ("--ledger", "{folder}/calls.jsonl", *flags)
            ),
        ]
        here = {} if module == SHIPPED else {"PYTHONPATH": str(HERE.parent)}
        return Launch(command, {"OSMOSIS_BRIDGE_TOKEN": BEARER, KEY_VARIABLE: KEY, **here})

    return Contestant(
        name=name,
        title="osmosis bridge",
        launch=launch,
        versions=versions_of_ours(),
        path=f"/v1/rollouts/{ROLLOUT}/chat/completions",
        model="osmosis-rollout",
        bearer=rollout_bearer(BEARER, ROLLOUT),
        python=python,
    )


def ours_on(python: str, installer: Installer) -> Contestant:
    """The same in an environment made of another interpreter. Raises `Unusable`."""
    elsewhere = Requirement(ALSO, (str(HERE.parent),), "osmosis-bridge")
    # The checkout may have changed since it was last installed from.
    (elsewhere.home / ".ready").unlink(missing_ok=True)
    found = replace(installer, may_install=True, python=python).environment(elsewhere)
    versions = versions_in(found, VERSIONED)
    title = f"osmosis bridge on Python {versions.get('python', '?')} (--also)"
    return replace(ours(name=ALSO, python=str(found)), title=title, versions=versions)


def launch_of(contestant: Contestant) -> Callable[[Place], Launch]:
    """How a contestant that is a process is started."""
    if contestant.launch is None:
        raise ValueError(f"{contestant.name} is no process")
    return contestant.launch


def versions_of_ours() -> dict[str, str]:
    """What the bridge runs on."""
    found = {name: importlib.metadata.version(name) for name in VERSIONED}
    return {"python": sys.version.split()[0], **found}


def direct() -> Contestant:
    """No proxy: what client and upstream take by themselves."""
    return Contestant(DIRECT, "no proxy", None, {})


_NGINX = """\
worker_processes 1; worker_rlimit_nofile 16000; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.txt warn;
{user}
events {{ worker_connections 15000; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_buffer_size 1m; client_max_body_size 16m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream provider {{ server 127.0.0.1:{upstream}; keepalive 6000; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; {more}
    }}
  }}
}}
"""


def nginx(installer: Installer, *, streaming: bool = False) -> Contestant:
    """`proxy_pass` with kept-alive connections, reading nothing: the limit. Raises `Unusable`."""
    program = installer.nginx()

    def launch(place: Place) -> Launch:
        config = place.folder / "nginx.conf"
        more = "proxy_buffering off;" if streaming else ""
        # Its worker would drop root and then could not write below our folder.
        user = "user root;" if Path("/proc/self").owner() == "root" else ""
        config.write_text(
            _NGINX.format(folder=place.folder, port=place.port, upstream=place.upstream, more=more, user=user)
        )
        return Launch([program, "-e", str(place.folder / "error.txt"), "-c", str(config)])

    shown = subprocess.run([program, "-v"], capture_output=True, text=True, check=False, timeout=10)
    version = re.search(r"nginx/(\S+)", shown.stderr + shown.stdout)
    return Contestant(NGINX, "nginx proxy_pass", launch, {"nginx": version[1] if version else "?"})


_ROLTER_CONFIG = """\
[server]
host = "127.0.0.1"
port = {port}
[[providers]]
name = "mock"
kind = "openai_compatible"
api_base = "http://127.0.0.1:{upstream}"
[[routes]]
model = "{model}"
strategy = "round_robin"
[[routes.targets]]
provider = "mock"
model = "{model}"
[[virtual_keys]]
key = "{bearer}"
name = "bench"
models = []
"""


def rolter(installer: Installer) -> Contestant:
    """A gateway in Rust. Raises `Unusable`."""
    python = installer.environment(_ROLTER_PACKAGE)

    def launch(place: Place) -> Launch:
        config = place.folder / "rolter.toml"
        config.write_text(
            _ROLTER_CONFIG.format(port=place.port, upstream=place.upstream, model=MODEL, bearer=BEARER)
        )
        return Launch([str(python.parent / "rolter"), "gateway", "-c", str(config)], {"RUST_LOG": "error"})

    return Contestant(ROLTER, "rolter gateway", launch, versions_in(python, ["rolter"]), most_streams=1000)


_TENSORZERO = """\
[models.mock]
routing = ["only"]
[models.mock.providers.only]
type = "openai"
model_name = "{model}"
api_base = "http://127.0.0.1:{upstream}/v1/"
api_key_location = "none"
[gateway]
observability.enabled = false
"""


def tensorzero(installer: Installer) -> Contestant:
    """A gateway in Rust, in a Python wheel; observability off, which would need a database. Raises `Unusable`."""
    python = installer.environment(TENSORZERO)

    def launch(place: Place) -> Launch:
        config, url_file = place.folder / "tensorzero.toml", place.folder / "url.txt"
        config.write_text(_TENSORZERO.format(upstream=place.upstream, model=MODEL))
        command = [str(python), str(HERE / "peers" / "tensorzero_gateway.py"), str(config), str(url_file)]
        return Launch(command, {"RUST_LOG": "error"}, url_file)

    return Contestant(
        "tensorzero",
        "TensorZero",
        launch,
        versions_in(python, ["tensorzero", "openai"]),
        path="/openai/v1/chat/completions",
        model="tensorzero::model_name::mock",
        most_streams=1000,
    )


_LITELLM = """\
model_list:
  - model_name: {model}
    litellm_params:
      model: openai/{model}
      api_base: http://127.0.0.1:{upstream}/v1
      api_key: {key}
litellm_settings:
  telemetry: false
"""


def litellm(installer: Installer) -> Contestant:
    """LiteLLM's proxy with one worker and a master key. Raises `Unusable`."""
    python = installer.environment(LITELLM)

    def launch(place: Place) -> Launch:
        config = place.folder / "litellm.yaml"
        config.write_text(_LITELLM.format(model=MODEL, upstream=place.upstream, key=KEY))
        command = [
            *(str(python.parent / "litellm"), "--config", str(config), "--host", "127.0.0.1"),
            *("--port", str(place.port), "--num_workers", "1"),
        ]
        environ = {
            "LITELLM_MASTER_KEY": BEARER,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
        }
        return Launch(command, environ)

    versions = versions_in(python, ["litellm", "uvicorn", "fastapi"])
    return Contestant("litellm", "LiteLLM proxy, 1 worker", launch, versions, most_streams=0, ready_s=90)


def osmosis_ai(installer: Installer) -> Contestant:
    """osmosis-ai's own bridge. Raises `Unusable`."""
    python = installer.environment(OSMOSIS_AI)

    def launch(place: Place) -> Launch:
        upstream = f"http://127.0.0.1:{place.upstream}/v1"
        script = str(HERE / "peers" / "osmosis_ai_bridge.py")
        environ = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
        return Launch([str(python), script, str(place.port), upstream, KEY, BEARER], environ)

    return Contestant(
        "osmosis-ai",
        "osmosis-ai bridge",
        launch,
        versions_in(python, ["osmosis-ai", "litellm", "uvicorn"]),
        path=f"/v1/rollouts/{ROLLOUT}/chat/completions",
        model="osmosis-rollout",
        most_streams=0,
        ready_s=90,
    )


PEERS: Mapping[str, Callable[[Installer], Contestant]] = {
    NGINX: nginx,
    ROLTER: rolter,
    "tensorzero": tensorzero,
    "litellm": litellm,
    "osmosis-ai": osmosis_ai,
}


def peers(installer: Installer, note: Callable[[str], None]) -> list[Contestant]:
    """The peers that are there, in the order of the tables; a missing one is a note."""
    found: list[Contestant] = []
    for name, make in PEERS.items():
        try:
            found.append(make(installer))
        except Unusable as error:
            note(f"{name} was left out: {error}")
    return found


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
