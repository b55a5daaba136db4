"""C: who may call: bearers, rollout ids, hosts and origins, paths. All of it is this bridge's own surface."""

from __future__ import annotations

from osmosis_bridge.bearers import rollout_bearer
from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, exchange, with_bearer
from osmosis_bridge.conformance.checks import (
    brief,
    called,
    error_object,
    fault,
    full_error,
    header_absent,
    header_is,
    not_called,
    ours,
    says,
    status,
    status_between,
)
from osmosis_bridge.conformance.exact import at, integer, show
from osmosis_bridge.conformance.reply import Reply
from osmosis_bridge.conformance.samples import completion
from osmosis_bridge.conformance.script import plain
from osmosis_bridge.conformance.stage import Stage

OK = plain(completion())
CHAT = "/v1/chat/completions"


def locked(case_id: str, title: str, auth: str, *headers: tuple[str, str], path: str | None = None) -> Case:
    """A credential that opens nothing: 401, no provider call."""

    async def play(stage: Stage) -> Fault | None:
        bearer = stage.target.bearer or ""
        stage.play(OK)
        value = auth.replace("BEARER", bearer)
        places = tuple((name, text.replace("BEARER", bearer)) for name, text in headers)
        where = path.replace("BEARER", bearer) if path else None
        seen = await stage.exchange(Ask(auth=value, headers=places, path=where))
        checks: tuple[Check, ...] = (
            status_between(400, 499),
            not_called,
            ours(status(401)),
            ours(full_error),
        )
        return next((found for check in checks if (found := check(seen))), None)

    return with_bearer(Case(case_id, title, play, "ours" if path else "portable"))


async def _lower_scheme(stage: Stage) -> Fault | None:
    for number, scheme in enumerate(("bearer", "BEARER")):
        token = stage.play(OK, f"n{number}")
        reply = await stage.ask(Ask(auth=f"{scheme} {stage.target.bearer}"), token)
        if reply.content() != "hello":
            return Fault(f"the scheme {scheme} is accepted", brief(reply))
    return None


BEARERS = (
    locked("C-no-bearer", "no bearer: 401", ""),
    locked("C-wrong-bearer", "a wrong bearer: 401", "Bearer wrong-bearer-000"),
    locked("C-short-bearer", "an empty bearer: 401", "Bearer"),
    locked("C-basic", "the bearer by another scheme: 401", "Basic BEARER"),
    locked("C-no-scheme", "the bearer without a scheme: 401", "BEARER"),
    locked("C-longer-bearer", "the bearer and one letter: 401", "Bearer BEARERx"),
    locked("C-list-bearer", "a list of bearers: 401", "Bearer wrong, Bearer BEARER"),
    locked("C-long-bearer", "a bearer of 7 kB: 401", "Bearer " + "b" * 7000),
    locked("C-latin-bearer", "a bearer beyond ASCII: 401, no 500", "Bearer \xe9\xff"),
    locked("C-query-bearer", "a bearer in the query opens nothing", "", path=f"{CHAT}?api_key=BEARER&token=BEARER"),
    locked("C-cookie-bearer", "a bearer in a cookie opens nothing", "", ("Cookie", "token=BEARER")),
    with_bearer(Case("C-scheme-case", "the scheme may be written in any case", _lower_scheme)),
)  # fmt: skip


async def _own_rollout(stage: Stage) -> Fault | None:
    bearer = rollout_bearer(stage.target.bearer or "", stage.rollout)
    for number, path in enumerate((CHAT, "/v1/rollouts/{rollout}/chat/completions")):
        seen = await stage.exchange(Ask(auth=f"Bearer {bearer}", path=path), stage.play(OK, f"n{number}"))
        if found := says("hello")(seen):
            return found
    got = await stage.totals()
    return None if integer(got.get("calls")) == 2 else Fault("two calls of the rollout", show(dict(got)))


async def _foreign_rollout(stage: Stage) -> Fault | None:
    """A rollout's bearer opens no other rollout, by path, by header, or by the admin routes."""
    stage.play(OK)
    bearer = f"Bearer {rollout_bearer(stage.target.bearer or '', 'somebody-else')}"
    by_path = await stage.ask(Ask(auth=bearer, path="/v1/rollouts/{rollout}/chat/completions"))
    closing = await stage.get("/v1/rollouts/somebody-else/close", method="POST", auth=bearer)
    usage = await stage.get("/v1/rollouts/{rollout}/usage", auth=bearer)
    for what, reply in (("calls", by_path), ("close", closing), ("usage", usage)):
        if reply.status not in {401, 403, 404}:
            return Fault(f"{what}: 401 or 403 with another rollout's bearer", brief(reply))
    return Fault("no provider call", "one was made") if stage.received() else None


async def _bearer_decides(stage: Stage) -> Fault | None:
    """A call with a rollout's bearer counts for that rollout whatever the header says."""
    bearer = rollout_bearer(stage.target.bearer or "", f"{stage.rollout}-true")
    stage.play(OK)
    reply = await stage.ask(Ask(auth=f"Bearer {bearer}"))
    got = await stage.totals(f"{stage.rollout}-true")
    if reply.status in {401, 403}:
        return None
    return (
        None if integer(got.get("calls")) == 1 else Fault("counted for the bearer's rollout", show(dict(got)))
    )


async def _forged(stage: Stage) -> Fault | None:
    good = rollout_bearer(stage.target.bearer or "", stage.rollout)
    forged = (
        good[:-1] + ("0" if good[-1] != "0" else "1"),
        good.replace(stage.rollout, "other-rollout"),
        good + "0",
        good[:20],
    )
    for number, value in enumerate(forged):
        token = stage.play(OK, f"n{number}")
        reply = await stage.ask(Ask(auth=f"Bearer {value}"), token)
        if reply.status != 401 or stage.received(token):
            return Fault("401 for a forged bearer", brief(reply))
    return None


async def _closed(stage: Stage) -> Fault | None:
    """After close: totals are told, and calls get 409, also with the rollout's own bearer."""
    await stage.ask(Ask(), stage.play(OK, "before"))
    told = await stage.get("/v1/rollouts/{rollout}/close", method="POST")
    if told.status != 200 or integer(at(told.json, "calls")) != 1 or integer(at(told.json, "tokens")) != 10:
        return Fault("200 with calls 1, tokens 10", brief(told))
    after = stage.play(OK, "after")
    bearer = f"Bearer {rollout_bearer(stage.target.bearer or '', stage.rollout)}"
    for auth in (None, bearer):
        reply = await stage.ask(Ask(auth=auth), after)
        if reply.status != 409 or stage.received(after):
            return Fault("409 for a closed rollout, no provider call", brief(reply))
    again = await stage.get("/v1/rollouts/{rollout}/close", method="POST")
    return None if again.status in {200, 409} else Fault("closing twice harms nothing", brief(again))


def hostile(case_id: str, rollout: str, *, header: bool = False) -> Case:
    """A rollout id that is no safe path segment is a 4xx and costs no provider call."""
    shown = rollout if len(rollout) < 40 else f"{rollout[:20]}…"
    path = CHAT if header else f"/v1/rollouts/{rollout}/chat/completions"
    extra = (("X-Osmosis-Rollout-Id", rollout),) if header else ()
    title = f"rollout id {shown!r} in the {'header' if header else 'path'} is refused"
    return exchange(case_id, title, Ask(path=path, headers=extra), OK, status_between(400, 499), ours(full_error), not_called, scope="ours")  # fmt: skip


ROLLOUTS = (
    with_bearer(Case("C-rollout-bearer", "a rollout's bearer opens its own rollout, by both paths", _own_rollout, "ours")),
    with_bearer(Case("C-foreign-bearer", "and no other one", _foreign_rollout, "ours")),
    with_bearer(Case("C-bearer-decides", "the bearer decides whose call it is", _bearer_decides, "ours")),
    with_bearer(Case("C-forged-bearer", "a forged bearer opens nothing", _forged, "ours")),
    Case("C-closed", "a closed rollout tells its totals and takes no calls", _closed, "ours"),
    hostile("C-id-dots", ".."),
    hostile("C-id-encoded-dots", "%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
    hostile("C-id-encoded-slash", "a%2Fb"),
    hostile("C-id-slash", "a/b"),
    hostile("C-id-empty", ""),
    hostile("C-id-nul", "a%00b"),
    hostile("C-id-crlf", "a%0d%0ax-injected:%201"),
    hostile("C-id-space", "a%20b"),
    hostile("C-id-unicode", "%E6%97%A5%E6%9C%AC"),
    hostile("C-id-bad-utf8", "%ff%fe"),
    hostile("C-id-long", "r" * 3000),
    hostile("C-id-header-dots", "../../etc/passwd", header=True),
    hostile("C-id-header-long", "r" * 3000, header=True),
    hostile("C-id-header-latin", "r\xe9", header=True),
)  # fmt: skip


def foreign(case_id: str, title: str, *headers: tuple[str, str]) -> Case:
    """A request that a page of another site could make a browser send."""
    return exchange(case_id, title, Ask(headers=headers), OK, status_between(400, 499), error_object, not_called, header_absent("access-control-allow-origin"), scope="ours")  # fmt: skip


async def _no_cors(stage: Stage) -> Fault | None:
    """A preflight of another site is not granted."""
    ask = Ask(
        method="OPTIONS",
        headers=(("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")),
        auth="",
    )
    reply = await stage.ask(ask)
    allowed = reply.header("access-control-allow-origin")
    return None if allowed is None else Fault("no access-control-allow-origin", allowed)


ORIGINS = (
    foreign("C-host-evil", "a foreign Host on loopback is refused (DNS rebinding)", ("Host", "evil.example")),
    foreign("C-host-evil-port", "also with a port", ("Host", "evil.example:8400")),
    foreign("C-host-empty", "an empty Host is refused", ("Host", "")),
    foreign("C-host-prefix", "a Host that only begins like ours is refused", ("Host", "127.0.0.1.evil.example")),
    foreign("C-host-user", "a Host with a user is refused", ("Host", "127.0.0.1@evil.example")),
    foreign("C-origin-evil", "a foreign Origin is refused", ("Origin", "https://evil.example")),
    foreign("C-origin-null", "an Origin of null is refused", ("Origin", "null")),
    exchange("C-host-localhost", "localhost is ours", Ask(headers=(("Host", "localhost:1234"),)), OK, says("hello"), scope="ours"),
    exchange("C-host-ipv6", "[::1] is ours", Ask(headers=(("Host", "[::1]:1234"),)), OK, says("hello"), scope="ours"),
    Case("C-no-cors", "a preflight of another site is not granted", _no_cors, "ours"),
)  # fmt: skip


def path_case(case_id: str, title: str, method: str, path: str, *codes: int) -> Case:
    """A path or method that does not exist: JSON in the one shape."""

    async def play(stage: Stage) -> Fault | None:
        reply = await stage.ask(
            Ask(method=method, path=path, raw=b"" if method in {"GET", "HEAD"} else b"{}")
        )
        seen = await stage.seen(Ask(), reply)
        return status(*codes)(seen) or (None if method == "HEAD" else full_error(seen))

    return Case(case_id, title, play, "ours")


def _models(reply: Reply) -> bool:
    return at(reply.json, "object") == "list" and at(reply.json, "data", 0, "id") == "osmosis-rollout"


async def _surface(stage: Stage) -> Fault | None:
    """health, models, usage and metrics answer as promised."""
    models = await stage.get("/v1/models")
    if models.status != 200 or not _models(models):
        return Fault("/v1/models lists osmosis-rollout", brief(models))
    health = await stage.get("/health")
    if health.status != 200:
        return Fault("/health 200", brief(health))
    whole = await stage.get("/usage")
    if whole.status != 200 or integer(at(whole.json, "calls")) is None or at(whole.json, "rollouts") is None:
        return Fault("/usage with calls and rollouts", brief(whole))
    open_doors = [await stage.get(path, auth="") for path in ("/usage", "/v1/rollouts/{rollout}/usage")]
    if stage.target.bearer and any(reply.status == 200 for reply in open_doors):
        return Fault("usage is told only to a bearer", brief(open_doors[0]))
    return None


async def _options(stage: Stage) -> Fault | None:
    """An answer without a body that names the methods, with and without a bearer, and no call of the provider."""
    for path, method in ((CHAT, "POST"), ("/v1/rollouts/{rollout}/messages", "POST"), ("/health", "GET")):
        reply = await stage.get(path, method="OPTIONS", auth="")
        if reply.status not in {200, 204} or method not in (reply.header("allow") or "") or reply.body:
            return Fault(f"{path}: allow: {method}", f"{reply.header('allow')}; {brief(reply)}")
    return None


def _origin_bridge(seen: Seen) -> Fault | None:
    return header_is("x-osmosis-error-origin", "bridge")(seen)


async def _unknown_rollout(stage: Stage) -> Fault | None:
    """Totals of a rollout that never called: zero calls or 404, no 500."""
    reply = await stage.get("/v1/rollouts/never-seen-before/usage")
    if reply.status == 404:
        return None
    return None if integer(at(reply.json, "calls")) == 0 else Fault("calls 0, or 404", brief(reply))


def _by_path(seen: Seen) -> Fault | None:
    return None if at(seen.reply.json, "object") == "chat.completion" else fault("a completion", seen)


PATHS = (
    path_case("C-404", "a path that does not exist is a JSON 404", "GET", "/nothing/here", 404),
    path_case("C-404-post", "also for POST", "POST", "/v1/nothing", 404),
    path_case("C-405", "GET on the chat path is a JSON 405", "GET", CHAT, 405),
    path_case("C-405-put", "PUT too", "PUT", CHAT, 405),
    path_case("C-404-case", "paths are case-sensitive", "POST", "/V1/Chat/Completions", 404),
    path_case("C-double-slash", "a doubled slash is no way round", "POST", "//v1/chat/completions", 404, 400),
    path_case("C-dots", "dots in the path lead nowhere", "POST", "/v1/rollouts/a/../../../etc/passwd", 404, 400, 405),
    path_case("C-head", "HEAD on the chat path is no 500", "HEAD", CHAT, 405),
    exchange("C-path-rollout", "the path with a rollout id answers", Ask(path="/v1/rollouts/{rollout}/chat/completions"), OK, says("hello"), _by_path, called(1), scope="ours"),
    exchange("C-origin-bridge", "an error of the bridge says that it is the bridge's", Ask(raw=b"{"), OK, status(400), _origin_bridge, scope="ours"),
    Case("C-options", "OPTIONS says which methods a path has", _options, "ours"),
    Case("C-surface", "health, models and usage answer as promised", _surface, "ours"),
    Case("C-unknown-rollout", "totals of a rollout that never called", _unknown_rollout, "ours"),
)  # fmt: skip

CASES: tuple[Case, ...] = (*BEARERS, *ROLLOUTS, *ORIGINS, *PATHS)
