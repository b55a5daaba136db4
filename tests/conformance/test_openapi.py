"""docs/openapi.json against the bridge that it describes: every route, every reply, and requests nobody thought of."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Route

from bridge_process import TOKEN, BridgeProcess, bridge_process
from fakes import FakeTransport, a_bridge
from obliging_upstream import obliging_upstream
from osmosis_bridge.app import Gate
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.metrics import Metrics
from osmosis_bridge.routes import Routes

ROOT = Path(__file__).resolve().parent.parent.parent
FILE = ROOT / "docs" / "openapi.json"
DESCRIBED: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
OPERATIONS = [(path, method) for path, item in DESCRIBED["paths"].items() for method in item]


@pytest.fixture(scope="module")
def bridge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeProcess]:
    folder = tmp_path_factory.mktemp("described")
    with (
        obliging_upstream() as url,
        bridge_process(folder, url, "--max-body-mb", "1", "--keep-transcripts") as running,
    ):
        yield running


def test_the_description_is_current() -> None:
    script = ROOT / "scripts" / "refresh_openapi.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def served() -> set[tuple[str, str]]:
    """Every route of the bridge with its methods."""
    bridge = a_bridge(FakeTransport())
    app = Routes(bridge, Gate(None, None), Metrics(bridge, bridge.transport)).app()
    routes = [route for route in app.routes if isinstance(route, Route) and route.include_in_schema]
    found = {(route.path, method) for route in routes for method in (route.methods or ()) if method != "HEAD"}
    calls = {
        f"/v1{between}{one.path}" for one in DIALECTS.values() for between in ("", "/rollouts/{rollout_id}")
    }
    return found | {(path, "POST") for path in calls}


def test_every_route_is_described_and_nothing_else() -> None:
    described = {(path, method.upper()) for path, method in OPERATIONS}
    assert described == {(re.sub(r":\w+}", "}", path), method) for path, method in served()}


def resolved(value: Any) -> Any:
    """A part of the description with its references followed."""
    while isinstance(value, dict) and "$ref" in value:
        found = DESCRIBED
        for name in value["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        value = found
    return value


def conforms(path: str, method: str, reply: httpx.Response) -> None:
    """Fails unless a reply is one that the description allows."""
    responses = DESCRIBED["paths"][path][method]["responses"]
    response = resolved(responses.get(str(reply.status_code), responses.get("default")))
    assert response is not None, f"{method} {path}: {reply.status_code} is not described"
    kind = reply.headers["content-type"].partition(";")[0]
    content = response["content"]
    assert kind in content, f"{method} {path}: {reply.status_code} with {kind}"
    if kind == "application/json":
        schema = {**content[kind]["schema"], "components": DESCRIBED["components"]}
        Draft202012Validator(schema).validate(reply.json())
    if reply.status_code >= 400:
        assert reply.headers["x-osmosis-error-origin"] == "bridge"


def example(path: str, method: str) -> Any:
    body = resolved(DESCRIBED["paths"][path][method]).get("requestBody")
    return None if body is None else body["content"]["application/json"]["example"]


def asked(
    bridge: BridgeProcess,
    path: str,
    method: str,
    *,
    content: Any = None,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    where = path.replace("{rollout_id}", "open-1").replace("{name}", "any/name")
    given = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json", **(headers or {})}
    body = json.dumps(example(path, method) if content is None else content) if method == "post" else None
    return httpx.request(method, f"{bridge.url}{where}", content=body, headers=given, timeout=20)


def closes(operation: tuple[str, str]) -> bool:
    return operation[0].endswith("/close")


# A rollout that is closed takes no more calls, so closing comes last.
@pytest.mark.parametrize(("path", "method"), sorted(OPERATIONS, key=closes))
def test_replies_are_as_described(bridge: BridgeProcess, path: str, method: str) -> None:
    reply = asked(bridge, path, method)
    assert reply.status_code == 200, reply.text
    conforms(path, method, reply)
    if DESCRIBED["paths"][path][method].get("security") != []:
        refused = asked(bridge, path, method, headers={"authorization": "Bearer wrong"})
        assert refused.status_code == 401 or path.startswith("/v1/rollouts/{rollout_id}/models")
        conforms(path, method, refused)
    wrong = "put" if method == "post" else "delete"
    assert asked(bridge, path, wrong).status_code == 405
    cross_site = asked(bridge, path, method, headers={"origin": "https://elsewhere.example"})
    assert cross_site.status_code == 403
    conforms(path, method, cross_site)


CALLS = [
    path
    for path, _ in OPERATIONS
    if "requestBody" in DESCRIBED["paths"][path].get("post", {}) and "rollout_id" not in path
]


@pytest.mark.parametrize("path", CALLS)
def test_calls_are_answered_and_refused_as_described(bridge: BridgeProcess, path: str) -> None:
    body = example(path, "post")
    operation = DESCRIBED["paths"][path]["post"]
    report = asked(bridge, path, "post", headers={"x-osmosis-dry-run": "1"})
    assert report.json()["outgoing"]["url"].endswith(path)
    conforms(path, "post", report)
    if "text/event-stream" in operation["responses"]["200"]["content"]:
        stream = asked(bridge, path, "post", content={**body, "stream": True})
        assert (stream.status_code, "error" in stream.text) == (200, False)
        conforms(path, "post", stream)
    refused = [
        asked(bridge, path, "post", content=wrong)
        for wrong in ([], {**body, "model": 1}, {**body, "extra_body": 1})
    ]
    assert [reply.status_code for reply in refused] == [400] * 3
    too_large = asked(bridge, path, "post", content={**body, "user": "x" * 1_100_000})
    coded = asked(bridge, path, "post", headers={"content-encoding": "br"})
    assert (too_large.status_code, coded.status_code) == (413, 415)
    for reply in (*refused, too_large, coded):
        conforms(path, "post", reply)


def test_requests_that_nobody_thought_of_are_answered_as_described(
    bridge: BridgeProcess, tmp_path: Path
) -> None:
    """Schemathesis makes requests that fit the description, and ones that do not."""
    program = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"
    start = [sys.executable, "-c", program, "--config-file", str(settings(tmp_path))]
    done = subprocess.run(
        [*start, "run", str(calls_only(tmp_path)), "--url", bridge.url,
         "-H", f"Authorization: Bearer {TOKEN}", "--no-color", "--max-examples", "6", "--generation-deterministic",
         "--phases", "examples,coverage,fuzzing", "--checks", ",".join(CHECKS)],
        capture_output=True, text=True, timeout=55, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Traceback" not in bridge.log
    assert '"event":"fault"' not in bridge.log


CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "positive_data_acceptance",
    "unsupported_method",
    "ignored_auth",
)


def calls_only(folder: Path) -> Path:
    """The description without dry runs, which answer 200 to what a call would be refused for."""
    described = json.loads(FILE.read_text("utf-8"))
    for item in described["paths"].values():
        for operation in item.values():
            named = operation["parameters"]
            operation["parameters"] = [each for each in named if each["name"] != "X-Osmosis-Dry-Run"]
    file = folder / "openapi.json"
    file.write_text(json.dumps(described))
    return file


def settings(folder: Path) -> Path:
    """An empty file of settings, so that none of a person's own is read."""
    file = folder / "schemathesis.toml"
    file.write_text("")
    return file
