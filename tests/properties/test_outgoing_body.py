"""The body that goes out holds what the client wrote, textually, plus `model` and `stream_options`; nothing else."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from osmosis_bridge.controls import is_control
from osmosis_bridge.errors import Refused
from osmosis_bridge.policy import Policy, admit

POLICY = Policy("up/real")
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).flatmap(
    lambda text: st.sampled_from([json.dumps(text), json.dumps(text, ensure_ascii=False)])
)
VALUES = st.recursive(
    st.one_of(st.sampled_from(["null", "true", "false", "[]", "{}"]), NUMBERS, STRINGS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: "[ " + " ,".join(items) + "]"),
        st.lists(st.tuples(STRINGS, inner), max_size=4).map(
            lambda items: "{" + ",\n".join(f"{name} :{value}" for name, value in items) + " }"
        ),
    ),
    max_leaves=12,
)
NAMES = st.one_of(
    st.sampled_from(
        ["temperature", "seed", "stop", "tools", "provider", "metadata", "logit_bias", "x y", "é", ""]
    ),
    st.sampled_from(
        ["api_key", "api_base", "timeout", "callbacks", "litellm_params", "mock_response", "models"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
).filter(lambda name: name not in ("model", "messages", "stream", "stream_options", "extra_body"))
FIELDS = st.dictionaries(NAMES, VALUES, max_size=6)


def written(fields: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields.items()) + "}"


def texts(body: bytes) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in msgspec.json.decode(body, type=dict[str, Raw]).items()}


@given(FIELDS, FIELDS, st.sampled_from([None, "true", "false"]), VALUES)
def test_every_field_goes_out_as_it_was_written_and_nothing_is_added(
    top: dict[str, str], extra: dict[str, str], stream: str | None, message: str
) -> None:
    envelope = {"model": '"mine"', "messages": f"[{message}]", **({"stream": stream} if stream else {})}
    body = written({**envelope, **top, **({"extra_body": written(extra)} if extra else {})})
    out = admit(body.encode(), POLICY)
    client = {**top, **extra}
    expected = {name: text.encode() for name, text in {**envelope, **client}.items() if not is_control(name)}
    expected["model"] = b'"up/real"'
    if stream == "true":
        expected["stream_options"] = b'{"include_usage":true}'
    assert texts(out.body) == expected
    assert set(out.forwarded) == {name for name in client if not is_control(name)}
    assert set(out.stripped) == {name for name in client if is_control(name)}


@given(FIELDS)
def test_admitting_twice_is_admitting_once(fields: dict[str, str]) -> None:
    body = written({"messages": "[]", "stream": "true", **fields}).encode()
    once = admit(body, POLICY)
    twice = admit(once.body, POLICY)
    assert (twice.body, twice.forwarded, twice.stripped) == (once.body, once.forwarded, ())


def decided(body: bytes, policy: Policy) -> Any:
    try:
        return admit(body, policy)
    except Refused as refused:
        return refused


JSONISH = st.lists(
    st.sampled_from(
        [
            b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"1", b"e400", b"-", b"null", b"true", b" ",
            b"\xff", b"\\ud800",
            b'"messages":[]', b'"extra_body":', b'"stream":true', b'"stream_options":', b'"model":', b'"api_key":',
            b'"a"',
            b'"messages":[1e400]', b"\xef\xbb\xbf",
        ]
    ),
    max_size=14,
).map(b"".join)  # fmt: skip


@given(
    st.one_of(st.binary(max_size=60), JSONISH, JSONISH.map(lambda inner: b'{"messages":[],' + inner + b"}"))
)
@example(b'{"messages":[1e400],"extra_body":{"messages":[1e400 ]}}')
@example(b'{"messages":[],"model":"\\ud800"}')
def test_any_bytes_are_admitted_or_refused_with_a_status_and_a_body(body: bytes) -> None:
    for policy in (POLICY, Policy("up/real", controls="reject")):
        found = decided(body, policy)
        if isinstance(found, Refused):
            assert found.status == 400
            assert len(json.loads(found.body())["error"]["message"]) <= 1000
        else:
            assert json.loads(found.body)["model"] == "up/real"
