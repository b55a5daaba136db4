"""F: values survive: nulls, numbers by their text, escapes; and bodies that try a parser are no 500."""

from __future__ import annotations

import json
import random

from osmosis_bridge.conformance.case import Ask, Case, Check, Fault, Seen, exchange
from osmosis_bridge.conformance.checks import (
    called,
    error_object,
    fault,
    forwarded,
    messages_kept,
    not_called,
    nothing_added,
    ours,
    status,
    status_between,
    survives,
)
from osmosis_bridge.conformance.samples import completion
from osmosis_bridge.conformance.script import plain
from osmosis_bridge.conformance.stage import Stage

OK = plain(completion())

KEPT = {
    "F-null": ('"seed":null,"stop":null,"x":null', "null is kept, not dropped"),
    "F-falsy": ('"logprobs":false,"temperature":0,"stop":[],"metadata":{},"user":""', "false, 0, [], {}, \"\" are kept"),
    "F-nested-null": ('"x":{"a":null,"b":[null,{"c":null}],"d":{}}', "nulls inside values are kept"),
    "F-big-int": ('"seed":12345678901234567890,"x":-98765432109876543210', "20-digit integers are kept"),
    "F-huge-int": (f'"x":{"9" * 400}', "an integer of 400 digits is kept"),
    "F-decimal-text": ('"temperature":1.10,"x":[1.0,0.10,100.00]', "1.10 stays 1.10"),
    "F-exponent-text": ('"x":[1E5,1e+5,2.50E-3,0e0]', "exponents keep their spelling"),
    "F-overflow": ('"x":[1e400,-1e400,1e-400]', "numbers beyond a double are kept, never Infinity or 0"),
    "F-precision": ('"x":0.1000000000000000055511151231257827', "digits beyond a double are kept"),
    "F-minus-zero": ('"x":[-0,-0.0]', "minus zero is kept"),
    "F-escapes": (r'"x":"\u00e9\/\b\f\n\t\\\"\u2028\ud83d\ude00","y":"é😀"', "escapes and plain letters mean the same"),
    "F-nul": (r'"x":"a\u0000b"', "an escaped NUL inside a string is kept"),
    "F-odd-names": (r'"":1,"a.b":2,"ключ":3,"__proto__":{"a":1},"constructor":4,"a\"b":5,"a b":6', "odd names are kept"),
    "F-deep-100": ('"x":' + "[" * 100 + "]" * 100, "100 levels of nesting are forwarded"),
    "F-long-string": ('"x":"' + "longtext" * 250_000 + '"', "a string of 2 MB is forwarded"),
    "F-many-fields": (",".join(f'"f{n}":{n}' for n in range(2000)), "2,000 fields are forwarded"),
    "F-json-in-string": (r'"x":"{\"model\":\"a\",\"extra_body\":{\"api_key\":1}}"', "JSON inside a string is a string"),
}  # fmt: skip

REFUSED = {
    "F-empty-body": (b"", "an empty body is a 400"),
    "F-not-json": (b"hello", "a body that is no JSON is a 400"),
    "F-cut-json": (b'{"model":"$MODEL","messages":[{"role":"user","content":"$CASE"}', "a body cut short is a 400"),
    "F-trailing": (b'{"model":"$MODEL","messages":[{"role":"user","content":"$CASE"}]}{}', "two values are a 400"),
    "F-trailing-comma": (b'{"model":"$MODEL","messages":[{"role":"user","content":"$CASE"}],}', "a last comma is a 400"),
    "F-single-quotes": (b"{'model':'m','messages':[{'role':'user','content':'$CASE'}]}", "single quotes are a 400"),
    "F-array-body": (b'[{"role":"user","content":"$CASE"}]', "a list is a 400"),
    "F-string-body": (b'"$CASE"', "a string is a 400"),
    "F-null-body": (b"null", "null is a 400"),
    "F-nan": (b'{"model":"$MODEL","messages":[{"role":"user","content":"$CASE"}],"temperature":NaN}', "NaN is a 400"),
    "F-infinity": (b'{"model":"$MODEL","messages":[{"role":"user","content":"$CASE"}],"x":-Infinity}', "Infinity is a 400"),
    "F-bad-utf8": (b'{"model":"$MODEL","messages":[{"role":"user","content":"$CASE \xff\xfe"}]}', "bytes that are no UTF-8 are a 400"),
    "F-raw-control": (b'{"model":"$MODEL","messages":[{"role":"user","content":"$CASE \x01"}]}', "a raw control character is a 400"),
    "F-bad-escape": (rb'{"model":"$MODEL","messages":[{"role":"user","content":"$CASE \x"}]}', "a bad escape is a 400"),
}  # fmt: skip


def _no_duplicate_trap(seen: Seen) -> Fault | None:
    """With a duplicated `model` or field, what is checked is what is sent: the last one, once, or a 400."""
    if seen.reply.status == 400:
        return None
    for call in seen.calls:
        if call.text().count(b'"seed"') != 1:
            return Fault("the duplicated name goes out once, or is refused", call.text().decode()[:200])
    return None


def _relayed_or_refused(seen: Seen) -> Fault | None:
    """200 with the text at the upstream as it was, or a 400."""
    if seen.reply.status == 400:
        return error_object(seen)
    if seen.reply.status != 200:
        return fault("200 or 400", seen)
    return messages_kept(seen)


def _tolerated(case_id: str, title: str, ask: Ask, *checks: Check) -> Case:
    return exchange(case_id, title, ask, OK, survives, status_between(200, 499), *checks)


_MESSAGES = '"messages":[{"role":"user","content":"$CASE"}]'

HOSTILE = (
    _tolerated("F-duplicate-field", "a duplicated field is sent once or refused", Ask('"seed":1,"seed":2'), _no_duplicate_trap),
    _tolerated(
        "F-duplicate-model", "a duplicated model does not crash", Ask(raw=f'{{"model":"a","model":"b",{_MESSAGES}}}'.encode())
    ),
    _tolerated(
        "F-lone-surrogate",
        "a lone surrogate is relayed or answered 400",
        Ask(messages=r'[{"role":"user","content":"$CASE \ud83d x"}]'),
        _relayed_or_refused,
    ),
    _tolerated("F-lone-surrogate-name", "a lone surrogate in a field's name is no 500", Ask(r'"a\udc00":1')),
    _tolerated("F-deep-5000", "5,000 levels of nesting are no 500", Ask('"x":' + "[" * 5000 + "]" * 5000)),
    _tolerated("F-deep-100000", "100,000 levels of nesting are no 500", Ask('"x":' + '{"a":' * 100_000 + "1" + "}" * 100_000)),
    _tolerated("F-long-name", "a field name of 100 kB is no 500", Ask('"' + "n" * 100_000 + '":1')),
    _tolerated("F-bom", "a byte order mark before the body is no 500", Ask(raw=b"\xef\xbb\xbf{" + _MESSAGES.encode() + b"}")),
    _tolerated("F-utf16", "UTF-16 is read or a 400, no 500", Ask(raw='{"model":"$MODEL","messages":[{"role":"user","content":"$CASE"}]}'.encode("utf-16"))),
    _tolerated("F-no-messages", "a request without messages is no 500", Ask(raw=b'{"model":"$MODEL"}')),
    _tolerated("F-messages-null", "messages null is no 500", Ask(raw=b'{"model":"$MODEL","messages":null,"user":"$CASE"}')),
    _tolerated("F-messages-object", "messages an object is no 500", Ask(raw=b'{"messages":{"content":"$CASE"}}')),
    _tolerated("F-messages-strings", "messages of strings are no 500", Ask(messages='["$CASE"]')),
    _tolerated("F-messages-empty", "no messages are no 500", Ask('"user":"$CASE"', messages="[]")),
    _tolerated("F-messages-numbers", "odd message members are no 500", Ask(messages='[{"role":7,"content":{"a":1}},{"role":"user","content":"$CASE"}]')),
    _tolerated("F26-model-null", "model null is no 500", Ask(model="null")),
    _tolerated("F26-model-number", "model as a number is no 500", Ask(model="7")),
    _tolerated("F26-model-object", "model as an object is no 500", Ask(model='{"a":1}')),
    _tolerated("F26-model-long", "a model name of 100 kB is no 500", Ask(model='"' + "m" * 100_000 + '"')),
    _tolerated("F-content-type-text", "another content-type is no 500", Ask(headers=(("Content-Type", "text/plain"),))),
    _tolerated("F-content-type-charset", "a charset in content-type is no 500", Ask(headers=(("Content-Type", "application/json; charset=utf-8"),))),
    _tolerated("F-content-type-form", "a form content-type is no 500", Ask(headers=(("Content-Type", "multipart/form-data"),))),
)  # fmt: skip


def _random_value(dice: random.Random, depth: int) -> str:
    kind = dice.randrange(8 if depth else 6)
    if kind == 6:
        return "[" + ",".join(_random_value(dice, depth - 1) for _ in range(dice.randrange(4))) + "]"
    if kind == 7:
        parts = (f'"k{n}":{_random_value(dice, depth - 1)}' for n in range(dice.randrange(4)))
        return "{" + ",".join(parts) + "}"
    if kind == 5:
        return json.dumps("".join(dice.choice('aé😀"\\ \n\x7f') for _ in range(dice.randrange(9))))
    number = dice.choice(
        [str(dice.randrange(-(10**22), 10**22)), f"{dice.randrange(99)}.{dice.randrange(1000):03d}0"]
    )
    return (number, number, "true", "false", "null")[kind]


async def _random_bodies(stage: Stage) -> Fault | None:
    dice = random.Random(20_260_101)  # noqa: S311 - the same bodies each time; nothing is secret
    for number in range(20):
        fields = ",".join(f'"q{n}_{number}":{_random_value(dice, 4)}' for n in range(dice.randrange(1, 9)))
        token = stage.play(OK, f"n{number}")
        seen = await stage.exchange(Ask(fields), token)
        if found := forwarded(seen) or nothing_added(seen) or messages_kept(seen):
            return Fault(f"{found.expected} (body {number})", found.seen)
    return None


CASES: tuple[Case, ...] = (
    *(exchange(i, title, Ask(fields), OK, status(200), forwarded) for i, (fields, title) in KEPT.items()),
    *(
        exchange(
            i, title, Ask(raw=body), OK, status(400, 422), not_called, ours(status(400)), ours(error_object)
        )
        for i, (body, title) in REFUSED.items()
    ),
    *HOSTILE,
    Case("F19-random", "for random bodies: what goes out is what came in, and nothing else", _random_bodies),
    exchange(
        "F-order-kept",
        "members keep their order inside values",
        Ask('"x":{"z":1,"a":{"y":2,"b":3},"m":[{"q":1,"c":2}]}'),
        OK,
        status(200),
        forwarded,
        called(1),
    ),
)
