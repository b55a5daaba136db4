"""What must be seen after an exchange: small functions that return a `Fault` where it is not."""

from __future__ import annotations

from collections.abc import Sequence

from osmosis_bridge.conformance.case import Check, Fault, Seen
from osmosis_bridge.conformance.exact import Exact, at, difference, items, members, parse, show, strings
from osmosis_bridge.conformance.reply import Reply

ENVELOPE = frozenset({"model", "messages", "stream", "stream_options", "extra_body"})


def brief(reply: Reply, limit: int = 160) -> str:
    """A reply in one line."""
    if not reply.status:
        return f"no reply ({reply.end})"
    text = reply.body.decode("utf-8", "replace").replace("\r", "\\r").replace("\n", "\\n")
    shown = text if len(text) <= limit else text[: limit // 2] + " … " + text[-limit // 2 :]
    ending = "" if reply.end == "clean" else f" [{reply.end}]"
    return f"{reply.status} {shown}{ending}"


def fault(expected: str, seen: Seen) -> Fault:
    """A fault that shows the reply."""
    return Fault(expected, brief(seen.reply))


def ours(check: Check) -> Check:
    """A check that only our own bridge is held to."""
    return lambda seen: check(seen) if seen.ours else None


def status(*codes: int) -> Check:
    """The reply's status is one of these."""

    def check(seen: Seen) -> Fault | None:
        if seen.reply.status in codes:
            return None
        return fault(f"status {' or '.join(map(str, codes))}", seen)

    return check


def status_between(low: int, high: int) -> Check:
    """The reply's status is in this range, both ends included."""

    def check(seen: Seen) -> Fault | None:
        return None if low <= seen.reply.status <= high else fault(f"a status from {low} to {high}", seen)

    return check


def survives(seen: Seen) -> Fault | None:
    """An answer came, whole, and it is no 500."""
    reply = seen.reply
    if reply.status and reply.status != 500 and reply.end == "clean":
        return None
    return fault("a whole reply that is no 500", seen)


def called(times: int = 1) -> Check:
    """The upstream received the request this many times."""

    def check(seen: Seen) -> Fault | None:
        if len(seen.calls) == times:
            return None
        return Fault(
            f"{times} request(s) at the upstream", f"{len(seen.calls)}; client saw {brief(seen.reply)}"
        )

    return check


not_called = called(0)


def forwarded(seen: Seen) -> Fault | None:
    """Every field of the client stands in the outgoing body, equal to the last digit; ours adds nothing."""
    if not seen.calls:
        return fault("the request reaches the upstream", seen)
    sent, out = members(seen.sent_json), members(seen.upstream_json)
    extra = members(sent.get("extra_body"))
    want = {name: value for name, value in {**sent, **extra}.items() if name not in ENVELOPE}
    for name, value in want.items():
        if name not in out:
            return Fault(f"{name} = {show(value, 80)} at the upstream", f"{name} is missing")
        if found := difference(value, out[name], name):
            return Fault(f"{name} forwarded equal", found)
    return nothing_added(seen) if seen.ours else None


def nothing_added(seen: Seen) -> Fault | None:
    """The outgoing body names nothing but the client's fields, `model` and `stream_options`."""
    sent, out = members(seen.sent_json), members(seen.upstream_json)
    allowed = {*sent, *members(sent.get("extra_body")), "model", "stream_options"} - {"extra_body"}
    added = [name for name in out if name not in allowed]
    if not added:
        return None
    return Fault("no field that the client did not send", f"{added[0]} = {show(out[added[0]], 80)} was added")


def messages_kept(seen: Seen) -> Fault | None:
    """The messages reach the upstream equal; of other proxies', nulls may be left out and members added."""
    return _messages(seen, loose=not seen.ours)


def messages_exact(seen: Seen) -> Fault | None:
    """The messages reach the upstream equal, nulls and order of members counted."""
    return _messages(seen, loose=False)


def _messages(seen: Seen, *, loose: bool) -> Fault | None:
    if not seen.calls:
        return fault("the request reaches the upstream", seen)
    sent, out = at(seen.sent_json, "messages"), at(seen.upstream_json, "messages")
    found = difference(sent, out, "messages", loose=loose)
    return Fault("messages forwarded equal", found) if found else None


def upstream_has(name: str, text: str) -> Check:
    """A field of the outgoing body has this value."""

    def check(seen: Seen) -> Fault | None:
        if not seen.calls:
            return fault("the request reaches the upstream", seen)
        out = members(seen.upstream_json)
        if name not in out:
            return Fault(f"{name} = {text} at the upstream", f"{name} is missing")
        found = difference(parse(text), out[name], name)
        return Fault(f"{name} = {text} at the upstream", found) if found else None

    return check


def configured_model(seen: Seen) -> Fault | None:
    """Every request that reached the upstream asks for the model that the proxy is configured with."""
    for call in seen.calls:
        model = at(call.json(), "model")
        if model != seen.upstream_model:
            return Fault(
                f"the configured model, {seen.upstream_model!r}, answers", f"{show(model)} was asked for"
            )
    return None


def upstream_lacks(*names: str) -> Check:
    """None of these fields stands in any outgoing body, at the top or inside a literal extra_body."""

    def check(seen: Seen) -> Fault | None:
        for call in seen.calls:
            out = members(call.json())
            there = [n for n in names if n in out or n in members(out.get("extra_body"))]
            if there:
                return Fault(f"{there[0]} is not sent to the upstream", show(call.json(), 160))
        return None

    return check


def upstream_bytes_lack(*texts: str) -> Check:
    """None of these texts occurs anywhere in what the upstream received."""

    def check(seen: Seen) -> Fault | None:
        for call in seen.calls:
            there = [text for text in texts if text.encode() in call.head + call.text()]
            if there:
                return Fault(f"{there[0]!r} does not reach the upstream", "it did")
        return None

    return check


def unchanged(sent: str) -> Check:
    """The plain reply equals what the upstream sent, `model` apart.

    Other proxies may rewrite the envelope and add members: of theirs, the choices must have lost and changed nothing.
    """
    want = parse(sent)

    def check(seen: Seen) -> Fault | None:
        if seen.reply.status != 200:
            return fault("the upstream's reply", seen)
        if not seen.ours:
            found = difference(at(want, "choices"), at(seen.reply.json, "choices"), "choices", loose=True)
            return Fault("nothing of the choices lost or changed", found) if found else None
        found = difference(_without_model(want), _without_model(seen.reply.json))
        return Fault("the upstream's reply, unchanged but for model", found) if found else None

    return check


def _without_model(value: Exact) -> Exact:
    return {k: v for k, v in value.items() if k != "model"} if isinstance(value, dict) else value


def relayed(payloads: Sequence[str]) -> Check:
    """The client's chunks are exactly these, in this order, `model` apart.

    Other proxies may rewrite the envelope, and add chunks and members: theirs must hold these choices, in this order.
    """
    wanted = [parse(payload) for payload in payloads]

    def check(seen: Seen) -> Fault | None:
        got = seen.reply.payloads()
        return _same_chunks(wanted, got, seen) if seen.ours else _held_in_order(wanted, got)

    return check


def _same_chunks(wanted: Sequence[Exact], got: Sequence[Exact], seen: Seen) -> Fault | None:
    for number, (want, have) in enumerate(zip(wanted, got, strict=False)):
        if found := difference(_without_model(want), _without_model(have), f"chunk {number}"):
            return Fault("every chunk unchanged but for model", found)
    if len(wanted) != len(got):
        return Fault(f"{len(wanted)} chunks", f"{len(got)}: {brief(seen.reply)}")
    return None


def _held_in_order(wanted: Sequence[Exact], got: Sequence[Exact]) -> Fault | None:
    left = list(got)
    for want in wanted:
        choices = at(want, "choices")
        while left and difference(choices, at(left[0], "choices"), loose=True):
            left.pop(0)
        if not left:
            return Fault(
                f"a chunk that holds {show(choices, 160)}", f"none, in order, among {len(got)} chunks"
            )
        left.pop(0)
    return None


def says(text: str, finish: str | None = "stop") -> Check:
    """The answer is complete: this text, this finish once, and on a stream a `[DONE]` and no error."""

    def check(seen: Seen) -> Fault | None:
        reply = seen.reply
        expected = f"a complete answer: {text[:60]!r}, finish {finish}"
        if reply.status != 200 or reply.end != "clean" or reply.content() != text or reply.errors():
            return fault(expected, seen)
        if finish is not None and reply.finishes() != [finish]:
            return Fault(expected, f"finish {[show(reason) for reason in reply.finishes()]}: {brief(reply)}")
        if reply.is_stream and not reply.done:
            return fault(f"{expected} and [DONE]", seen)
        return None

    return check


def stream_fails(*, invented: bool = True) -> Check:
    """The stream visibly failed: an error event, or an error status before it; no `[DONE]`, no invented finish.

    `invented=False` where the upstream did send a finish other than `error` or `""`.
    """

    def check(seen: Seen) -> Fault | None:
        reply = seen.reply
        if reply.status >= 400:
            return error_object(seen)
        if reply.done:
            return fault("no [DONE] after a failure", seen)
        if not reply.errors():
            return fault('a data event with an "error" object', seen)
        if invented and any(reason not in {"error", ""} for reason in reply.finishes()):
            return fault("no finish_reason that the upstream did not send", seen)
        return None

    return check


def error_object(seen: Seen) -> Fault | None:
    """The error has a message, and from our own bridge exactly message, type, param and code."""
    found = seen.reply.errors()
    if not found or not isinstance(found[0].get("message"), str) or not found[0]["message"]:
        return fault('an "error" object with a message', seen)
    if seen.ours:
        return full_error(seen)
    return None


def full_error(seen: Seen) -> Fault | None:
    """The error object has message, type, param and code, and is served as JSON."""
    found = seen.reply.errors()
    if not found or not {"message", "type", "param", "code"} <= set(found[0]):
        return fault('{"error":{"message","type","param","code"}}', seen)
    typed = seen.reply.header("content-type") or ""
    if not seen.reply.is_stream and not typed.startswith("application/json"):
        return Fault("content-type application/json", typed or "none")
    return None


def error_says(*texts: str) -> Check:
    """The error carries these texts."""

    def check(seen: Seen) -> Fault | None:
        shown = show(dict(seen.reply.errors()[0]), 2000) if seen.reply.errors() else ""
        missing = [text for text in texts if text not in shown]
        return fault(f"an error that says {missing[0]!r}", seen) if missing else None

    return check


def header_is(name: str, value: str) -> Check:
    """A reply header has this value."""

    def check(seen: Seen) -> Fault | None:
        got = seen.reply.header(name)
        return None if got == value else Fault(f"reply header {name}: {value}", f"{got}")

    return check


def header_absent(*names: str) -> Check:
    """None of these reply headers is there."""

    def check(seen: Seen) -> Fault | None:
        there = [name for name in names if seen.reply.header(name) is not None]
        return Fault(f"no reply header {there[0]}", f"{seen.reply.header(there[0])}") if there else None

    return check


def reply_lacks(*texts: str) -> Check:
    """None of these texts occurs anywhere in the reply, headers included."""

    def check(seen: Seen) -> Fault | None:
        there = [text for text in texts if text.encode() in seen.reply.raw + seen.reply.body]
        return Fault(f"{there[0]!r} is not shown to the client", brief(seen.reply, 400)) if there else None

    return check


def keeps_secrets(seen: Seen) -> Fault | None:
    """No credential of the proxy's occurs in the reply or in the ledger's lines, spelled out or in escapes."""
    reply = seen.reply
    values = [reply.json, *reply.payloads(), *seen.records]
    decoded = "\n".join(text for value in values for text in strings(value))
    shown = reply.raw + reply.body + decoded.encode("utf-8", "surrogatepass")
    if any(secret.encode() in shown for secret in seen.secrets):
        return Fault("the provider's credential is not shown", "it stands in the reply or the record")
    return None


def recorded(state: str, **fields: Exact) -> Check:
    """The ledger holds exactly one record of the call, of this status and with these values."""

    def check(seen: Seen) -> Fault | None:
        if not seen.readable:
            return None
        if len(seen.records) != 1:
            return Fault(f"one record, {state}", f"{len(seen.records)} records")
        record = members(seen.records[0])
        wanted: dict[str, Exact] = {"status": state, **fields}
        for name, want in wanted.items():
            if record.get(name) != want:
                return Fault(f"record: {name} = {show(want)}", show(record.get(name)))
        return None

    return check


def record_lists(name: str, *values: str) -> Check:
    """A list of the record holds these values."""

    def check(seen: Seen) -> Fault | None:
        if not seen.readable:
            return None
        record = members(seen.records[0]) if seen.records else {}
        have = items(record.get(name))
        missing = [value for value in values if value not in have]
        return Fault(f"record: {name} holds {missing[0]}", show(record.get(name))) if missing else None

    return check
