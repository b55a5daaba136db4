"""Every route that is not a call: models, totals, closing a rollout, health, metrics. Errors look like all others."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import msgspec
import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from osmosis_bridge.app import Gate
from osmosis_bridge.bearers import ROLLOUT_ID_RULE, valid_rollout_id
from osmosis_bridge.call import DEFAULT_ALIAS
from osmosis_bridge.dialects.messages import MESSAGES_DIALECT
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.errors import BridgeError, Refused
from osmosis_bridge.metrics import Metrics
from osmosis_bridge.serve import Bridge
from osmosis_bridge.unserved import dialect_near, no_route, wrong_method

_STRAGGLERS_S = 2.0
_WAIT_S = 0.01
_PATH_SHOWN = 120
_ANTHROPICS = "anthropic-version"


class Routes:
    """The handlers; one method a route."""

    def __init__(self, bridge: Bridge, gate: Gate, metrics: Metrics) -> None:
        self._bridge = bridge
        self._gate = gate
        self._metrics = metrics
        self._created = int(time.time())

    def app(self) -> Starlette:
        """The routes as an application."""
        app = Starlette(
            routes=[
                # Calls never come here; the routes say which method they have.
                *_call_routes("/v1"),
                *_call_routes("/v1/rollouts/{rollout_id}"),
                Route("/v1/models", self.models),
                Route("/v1/models/{name:path}", self.model),
                Route("/v1/rollouts/{rollout_id}/models", self.models),
                Route("/v1/rollouts/{rollout_id}/models/{name:path}", self.model),
                Route("/v1/rollouts/{rollout_id}/usage", self.usage),
                Route("/v1/rollouts/{rollout_id}/close", self.close, methods=["POST"]),
                Route("/v1/rollouts/{rollout_id}/transcript", self.transcript),
                Route("/usage", self.whole_usage),
                Route("/health", self.health),
                Route("/metrics", self.metrics),
            ],
            exception_handlers={
                HTTPException: self._http_error,
                BridgeError: _bridge_error,
                Exception: _fault,
            },
        )
        # A redirect would name a host that the client's own Host header chose.
        app.router.redirect_slashes = False
        return app

    async def models(self, request: Request) -> Response:
        """`GET /v1/models`: the one model there is."""
        self._gate.caller(_headers(request))
        return self._json({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """`GET /v1/models/NAME`: any name is an alias of the one model."""
        self._gate.caller(_headers(request))
        return self._json({**self._model(), "id": request.path_params["name"]})

    async def usage(self, request: Request) -> Response:
        """`GET /v1/rollouts/ID/usage`: live totals of one rollout."""
        headers = _headers(request)
        in_path = request.path_params["rollout_id"]
        rollout_id = self._gate.rollout(self._gate.caller(headers), in_path, headers)
        return self._json(self._totals(rollout_id))

    async def close(self, request: Request) -> Response:
        """`POST /v1/rollouts/ID/close`: no more calls; the totals, on disk before they are told.

        Calls that are still running, such as those of a rollout that was just killed, may end first, for a short time.
        """
        self._admin(request)
        rollout_id = _named(request)
        accounts, loop = self._bridge.accounts, asyncio.get_running_loop()
        accounts.close(rollout_id)
        self._bridge.attempts.forget(rollout_id)
        deadline = loop.time() + _STRAGGLERS_S
        while accounts.in_flight(rollout_id) and loop.time() < deadline:  # noqa: ASYNC110 - accounts know no event
            await asyncio.sleep(_WAIT_S)
        await self._bridge.ledger.sync()
        transcripts = self._bridge.recorder.transcripts
        if transcripts is not None:
            transcripts.forget(rollout_id)
        return self._json(self._totals(rollout_id))

    async def transcript(self, request: Request) -> Response:
        """`GET /v1/rollouts/ID/transcript`: what an open rollout said last, `{"messages":[...],"complete":bool}`."""
        self._admin(request)
        transcripts = self._bridge.recorder.transcripts
        if transcripts is None:
            message = "no transcripts are kept; --keep-transcripts keeps them"
            raise Refused(message, status=404, type="not_found_error", code="no_transcripts")
        told = msgspec.json.encode(transcripts.tell(_named(request)))
        return Response(self._bridge.redactor.scrub(told), media_type="application/json")

    async def whole_usage(self, request: Request) -> Response:
        """`GET /usage`: live totals of all rollouts."""
        self._admin(request)
        accounts = self._bridge.accounts
        return self._json({**accounts.whole.as_dict(), "rollouts": len(accounts)})

    async def health(self, _request: Request) -> Response:
        """`GET /health`: open to all, says nothing but whether calls are served, and why not."""
        trouble = self._bridge.ledger.trouble
        if trouble is None:
            return self._json({"status": "ok"})
        # Its file's name is nobody's business here.
        return self._json({"status": "failing", "reason": f"the ledger {trouble.reason}"}, 503)

    async def metrics(self, request: Request) -> Response:
        """`GET /metrics`: Prometheus text."""
        self._admin(request)
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    def _json(self, content: object, status: int = 200) -> Response:
        # A caller may have put a secret where a name stands.
        body = self._bridge.redactor.scrub(orjson.dumps(content))
        return Response(body, status, media_type="application/json")

    def _admin(self, request: Request) -> None:
        if self._gate.caller(_headers(request)).kind != "run":
            message = "only the run's own bearer may do this"
            raise Refused(message, status=403, type="permission_error", code="forbidden")

    def _totals(self, rollout_id: str) -> dict[str, Any]:
        return {"rollout_id": rollout_id, **self._bridge.accounts.totals(rollout_id).as_dict()}

    def _model(self) -> dict[str, Any]:
        created = self._created
        return {"id": DEFAULT_ALIAS, "object": "model", "created": created, "owned_by": "osmosis-bridge"}

    async def _http_error(self, request: Request, error: Exception) -> Response:
        refused = cast("HTTPException", error)
        if refused.status_code == 404:
            path = request.scope["path"]
            return _failed(request, no_route(path, self._bridge.redactor.message(path)[:_PATH_SHOWN]))
        allowed = ", ".join(sorted(dict(refused.headers or {}).get("Allow", "").split(", ")))
        if request.method == "OPTIONS":
            # Says no more than the 405 would; no page of another origin comes this far, and none is granted anything.
            return Response(status_code=204, headers={"allow": f"{allowed}, OPTIONS"})
        return _failed(request, wrong_method(request.method, allowed))


def _named(request: Request) -> str:
    """The rollout in the path."""
    rollout_id = str(request.path_params["rollout_id"])
    if not valid_rollout_id(rollout_id):
        raise Refused(f"a rollout id is {ROLLOUT_ID_RULE}", code="invalid_rollout_id")
    return rollout_id


def _headers(request: Request) -> dict[bytes, bytes]:
    return dict(request.scope["headers"])


async def _bridge_error(request: Request, error: Exception) -> Response:
    return _failed(request, cast("BridgeError", error))


async def _fault(request: Request, _error: Exception) -> Response:
    # Starlette raises it again, for the log.
    message = "the bridge failed on this request; its log says why"
    return _failed(request, BridgeError(message, code="internal_error"))


def _call_routes(prefix: str) -> list[Route]:
    """A route for each path of a call; one that only spares clients a setting is not described."""
    return [
        Route(prefix + path, _never, methods=["POST"], include_in_schema=path == dialect.path)
        for dialect in DIALECTS.values()
        for path in dialect.served_at
    ]


async def _never(_request: Request) -> Response:
    raise BridgeError("a call took the way of other routes")


def _failed(request: Request, error: BridgeError) -> Response:
    """An error in the shape that the client reads: of its path, or the one that its headers speak of."""
    near = dialect_near(request.scope["path"])
    if near is None and _ANTHROPICS in request.headers:
        near = MESSAGES_DIALECT
    body = error.body() if near is None else near.error_body(error)
    response = Response(body, error.status, media_type="application/json")
    for name, value in ((b"x-osmosis-error-origin", error.origin.encode()), *error.headers):
        response.headers.append(name.decode(), value.decode("latin-1"))
    return response
