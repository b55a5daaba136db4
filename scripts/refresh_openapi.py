#!/usr/bin/env python3
"""Write docs/openapi.json: every route of the bridge, from the table of dialects and the types that routes answer with.

`--check` writes nothing and exits 1 when the file is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from osmosis_bridge import __version__
from osmosis_bridge.accounts import Totals
from osmosis_bridge.client_headers import VALUE_LIMIT
from osmosis_bridge.dialects.dialect import Dialect
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.report import ForwardingReport
from osmosis_bridge.transcripts import Told

FILE = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"
Json = dict[str, Any]

ROLLOUT_ID: Json = {
    "name": "rollout_id",
    "in": "path",
    "required": True,
    "description": "Which rollout: letters, digits, '.', '_' and '-', a letter or digit first.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"},
    "example": "row-7-run-0",
}
MODEL_NAME: Json = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "Any name: every one is an alias of the one model.",
    "schema": {"type": "string", "minLength": 1},
    "example": "osmosis-rollout",
}
NAMED: Json = {
    "name": "X-Osmosis-Rollout-Id",
    "in": "header",
    "description": "Which rollout, where neither the path nor the bearer says it.",
    "schema": ROLLOUT_ID["schema"],
}
DRY_RUN: Json = {
    "name": "X-Osmosis-Dry-Run",
    "in": "header",
    "description": "`1`: the reply is a report on what would be sent; no provider is called and nothing recorded."
    " Empty or `0`: an ordinary call.",
    "schema": {"type": "string"},
    "example": "0",
}
REFUSALS = {
    "400": "the request cannot be served as it is; `param` names the field at fault",
    "401": "no valid bearer",
    "403": "the bearer is another rollout's, or the Host or Origin header is not this bridge's",
    "404": "no such route",
    "405": "another method is for this route",
}
CALL_FAILURES = {
    "409": "the rollout is closed",
    "413": "the body is larger than --max-body-mb",
    "415": "the body's content-encoding is not read",
    "431": "the headers are too large",
    "500": "the bridge failed, or could not keep the record of the call",
    "502": "the provider could not be reached, or did not answer in the form it should",
    "503": "all connections to the provider are in use, or no record can be kept; see Retry-After",
    "504": "the provider took too long",
    "default": "the provider's own status, with its error made safe to show",
}
REPLY_HEADERS: Json = {
    "x-osmosis-call-id": {"description": "The call's id in the ledger.", "schema": {"type": "string"}},
    "x-osmosis-stripped": {
        "description": "The controls that were taken out, comma separated.",
        "schema": {"type": "string"},
    },
}
ORIGIN: Json = {
    "x-osmosis-error-origin": {
        "description": "Who says no.",
        "schema": {"type": "string", "enum": ["bridge", "upstream"]},
    }
}
SUMMARIES = {
    "chat": ("A chat completion, whole or as a stream", "choices"),
    "responses": ("A response, whole or as a stream", "output"),
    "messages": ("A message, whole or as a stream", "content"),
    "completions": ("A text completion, whole or as a stream", "choices"),
    "embeddings": ("Embeddings", "data"),
}


def described() -> Json:
    """The whole description."""
    paths: Json = {}
    for dialect in DIALECTS.values():
        paths[f"/v1{dialect.path}"] = {"post": call(dialect, NAMED)}
        paths[f"/v1/rollouts/{{rollout_id}}{dialect.path}"] = {"post": call(dialect, ROLLOUT_ID)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "osmosis-bridge",
            "version": __version__,
            "description": "An OpenAI-compatible proxy that records every call.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8400"}],
        "security": [{"bearer": []}],
        "paths": {**paths, **other_paths()},
        "components": {"schemas": schemas(), "responses": failures(), "securitySchemes": {"bearer": BEARER}},
    }


BEARER: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "OSMOSIS_BRIDGE_TOKEN, which may do everything, or a rollout's own, which may call in its name only."
    " Without OSMOSIS_BRIDGE_TOKEN (on loopback only) none is needed.",
}


def call(dialect: Dialect, rollout: Json) -> Json:
    """One way of making a call; `rollout` is the parameter that says whose it is."""
    summary, holds = SUMMARIES[dialect.name]
    reply: Json = {"type": "object", "required": [holds], "additionalProperties": True}
    content: Json = {"application/json": {"schema": {"anyOf": [reply, ref("ForwardingReport")]}}}
    if dialect.envelope.streams:
        content["text/event-stream"] = {"schema": ref("Event")}
    error = "MessagesError" if dialect.name == "messages" else "Error"
    found = {status: failure(error, status) for status in (*REFUSALS, *CALL_FAILURES)}
    description = "The provider's reply, `model` replaced by the client's own."
    passed = [name.decode() for name in dialect.passed]
    body: Json = {"application/json": {"schema": request(dialect), "example": example(dialect)}}
    return {
        "summary": summary,
        "description": f"On the wire lane {', '.join(sorted(passed))} and no other header of the client go out as they"
        f" are; a value beyond {VALUE_LIMIT} bytes is refused.",
        "operationId": dialect.name + ("OfRollout" if rollout is ROLLOUT_ID else ""),
        "parameters": [rollout, DRY_RUN],
        "requestBody": {"required": True, "content": body},
        "responses": {
            "200": {"description": description, "headers": REPLY_HEADERS, "content": content},
            **found,
        },
    }


def request(dialect: Dialect) -> Json:
    """The fields that the bridge reads; all others are forwarded as they are."""
    envelope = dialect.envelope
    content: Json = {"type": "array"} if envelope.listed else {}
    made: Json = {
        "model": {"type": "string", "description": "Any name; the configured model answers."},
        envelope.content: content,
        "extra_body": {
            "type": "object",
            "description": "Merged into the top level; its values win.",
            "properties": {**dict.fromkeys((*envelope.names, "extra_body"), False), "model": {}},
        },
    }
    if envelope.streams:
        made["stream"] = {"type": "boolean"}
    required = [envelope.content] if envelope.required else []
    return {"type": "object", "properties": made, "required": required, "additionalProperties": True}


def example(dialect: Dialect) -> Json:
    """A request that is served."""
    said = {"role": "user", "content": "What is 7 times 8?"}
    content: Any = [said] if dialect.envelope.listed else "What is 7 times 8?"
    return {"model": "osmosis-rollout", dialect.envelope.content: content}


def other_paths() -> Json:
    """Every route that is not a call."""
    models = get("models", "The one model there is", "Models")
    model = get("model", "A model by any name", "Model", MODEL_NAME)
    closing = "Close a rollout: no more calls; its totals, every record of it on disk before they are told"
    return {
        "/v1/models": {"get": models},
        "/v1/models/{name}": {"get": model},
        "/v1/rollouts/{rollout_id}/models": {"get": again(models)},
        "/v1/rollouts/{rollout_id}/models/{name}": {"get": again(model)},
        "/v1/rollouts/{rollout_id}/usage": {
            "get": get("usage", "Live totals of a rollout", "RolloutTotals", ROLLOUT_ID)
        },
        "/v1/rollouts/{rollout_id}/close": {
            "post": may_fail(get("close", closing, "RolloutTotals", ROLLOUT_ID), "Error")
        },
        "/v1/rollouts/{rollout_id}/transcript": {
            "get": get(
                "transcript", "What an open rollout said last, with --keep-transcripts", "Told", ROLLOUT_ID
            )
        },
        "/usage": {"get": get("usageOfAll", "Live totals of all rollouts", "WholeTotals")},
        "/health": {
            "get": {
                **may_fail(get("health", "Whether calls are served", "Health"), "Failing"),
                "security": [],
            }
        },
        "/metrics": {"get": metrics()},
    }


def get(operation: str, summary: str, schema: str, *parameters: Json) -> Json:
    """A route that answers with one JSON object."""
    content = {"application/json": {"schema": ref(schema)}}
    found = {status: failure("Error", status) for status in REFUSALS}
    answer: Json = {"description": summary, "content": content}
    return {
        "summary": summary,
        "operationId": operation,
        "parameters": list(parameters),
        "responses": {"200": answer, **found},
    }


def may_fail(operation: Json, schema: str) -> Json:
    """The same route, which answers 503 while no record can be kept."""
    content = {"application/json": {"schema": ref(schema)}}
    failing: Json = {"description": "no record can be kept at present", "content": content}
    return {**operation, "responses": {**operation["responses"], "503": failing}}


def again(operation: Json) -> Json:
    """The same route under a rollout's own base URL; the rollout's id is not looked at."""
    anyone = {**ROLLOUT_ID, "schema": {"type": "string", "minLength": 1}}
    name = f"{operation['operationId']}OfRollout"
    return {**operation, "operationId": name, "parameters": [anyone, *operation["parameters"]]}


def metrics() -> Json:
    """Figures for Prometheus."""
    made = get("metrics", "Prometheus text", "Error")
    made["responses"]["200"]["content"] = {"text/plain": {"schema": {"type": "string"}}}
    return made


def failure(schema: str, status: str) -> Json:
    """An error's reply, by reference."""
    return {"$ref": f"#/components/responses/{schema}_{status}"}


def failures() -> Json:
    """The replies that are errors, in either shape."""
    every = {**REFUSALS, **CALL_FAILURES}
    return {
        f"{schema}_{status}": {
            "description": text,
            "headers": ORIGIN,
            "content": {"application/json": {"schema": ref(schema)}},
        }
        for schema in ("Error", "MessagesError")
        for status, text in every.items()
    }


def ref(name: str) -> Json:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def schemas() -> Json:
    """What routes answer with."""
    _, found = msgspec.json.schema_components(
        [Totals, ForwardingReport, Told], ref_template="#/components/schemas/{name}"
    )
    totals: Json = found["Totals"]
    totals["required"] = ["calls", "calls_without_usage"]
    text, count, empty = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": ["string", "null"]}
    error = {"message": text, "type": text, "param": empty, "code": {"type": ["string", "integer", "null"]}}
    model = {"id": text, "object": {"const": "model"}, "created": count, "owned_by": text}
    listed = {"object": {"const": "list"}, "data": {"type": "array", "items": ref("Model")}}
    made = {
        "Error": strict(error=strict(**error)),
        "MessagesError": {
            "type": "object",
            "required": ["type", "error"],
            "properties": {
                "type": {"const": "error"},
                "error": {"type": "object", "required": ["type", "message"]},
            },
        },
        "Event": {
            "type": "object",
            "description": "Each event of the stream, as the dialect writes it.",
            "properties": {"event": text, "data": text},
            "required": ["data"],
        },
        "Health": strict(status={"const": "ok"}),
        "Failing": strict(status={"const": "failing"}, reason=text),
        "Model": strict(**model),
        "Models": strict(**listed),
        "RolloutTotals": {
            "allOf": [ref("Totals"), {"required": ["rollout_id"], "properties": {"rollout_id": text}}]
        },
        "WholeTotals": {
            "allOf": [ref("Totals"), {"required": ["rollouts"], "properties": {"rollouts": count}}]
        },
    }
    return {**found, **made}


def strict(**properties: Json) -> Json:
    """An object that has exactly these members."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def main() -> int:
    """The command."""
    text = json.dumps(described(), indent=2, ensure_ascii=False) + "\n"
    if "--check" in sys.argv[1:]:
        if FILE.exists() and FILE.read_text("utf-8") == text:
            return 0
        print(f"{FILE} is out of date; run {sys.argv[0]}")
        return 1
    FILE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
