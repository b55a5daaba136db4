"""No known secret survives, messages are one bounded line, and no failure of a provider is too odd to be told."""

from __future__ import annotations

import json

import msgspec
from hypothesis import assume, example, given
from hypothesis import strategies as st

from osmosis_bridge.errors import BridgeError
from osmosis_bridge.provider_errors import in_band_failure, read_failure
from osmosis_bridge.redact import MESSAGE_LIMIT, REDACTED, Redactor, one_line

# A small alphabet, so that secrets overlap with each other and with their surroundings.
SECRETS = st.lists(st.text('ab:/@ ?="\\é\n', min_size=6, max_size=12), min_size=1, max_size=3)
FILLER = st.text('ab:/@ ?="\\é\n.htpkeysk-', max_size=20)
HOSTS = st.lists(st.sampled_from(["gpu.internal", "a.b", "10.0.0.7"]), max_size=2)


@st.composite
def texts_with_secrets(draw: st.DrawFn) -> tuple[list[str], str]:
    secrets = draw(SECRETS)
    # One secret may be the beginning of another, and a message may break its lines within one.
    secrets += [secret + draw(st.text("ab", max_size=4)) for secret in secrets]
    written = [*secrets, *(secret.replace(" ", "\r\n ") for secret in secrets)]
    parts = draw(st.lists(st.one_of(FILLER, st.sampled_from(written)), min_size=1, max_size=6))
    return secrets, "".join(parts)


def survivors(secrets: list[str], shown: str) -> list[str]:
    """Secrets that can be read in `shown`, the mark of redaction itself aside."""
    known = [secret.strip() for secret in secrets if len(secret.strip()) >= 6]
    return [secret for secret in known for part in shown.split(REDACTED) if secret in part]


@given(texts_with_secrets())
def test_no_known_secret_survives_in_bytes_or_text(case: tuple[list[str], str]) -> None:
    secrets, text = case
    redactor = Redactor(secrets)
    assert survivors(secrets, redactor.scrub(text.encode()).decode()) == []
    assert survivors(secrets, redactor.scrub_text(text)) == []


@given(texts_with_secrets(), HOSTS)
def test_no_known_secret_survives_in_a_message(case: tuple[list[str], str], hosts: list[str]) -> None:
    secrets, text = case
    assert survivors(secrets, Redactor(secrets, hosts).message(text)) == []


@given(texts_with_secrets())
def test_no_known_secret_survives_within_json(case: tuple[list[str], str]) -> None:
    secrets, text = case
    # What json.loads would show the reader must not hold a secret; broken escapes would show as an error.
    for ascii_only in (True, False):
        shown = Redactor(secrets).scrub(json.dumps([text], ensure_ascii=ascii_only).encode())
        assume(b"\\" not in shown)
        assert survivors(secrets, json.loads(shown)[0]) == []


@given(st.text(), st.lists(st.text(min_size=6, max_size=10), max_size=2), HOSTS)
@example("x" * 5000, [], [])
@example("\ud800" * 10, [], [])
def test_a_message_is_always_one_line_of_at_most_a_thousand_characters(
    text: str, secrets: list[str], hosts: list[str]
) -> None:
    for shown in (Redactor(secrets, hosts).message(text), one_line(text)):
        assert len(shown) <= MESSAGE_LIMIT
        assert len(shown.splitlines()) <= 1
        assert shown.encode().decode() == shown


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["error", "message", "detail", "code", "type", "param", "status", "object", "errors", "z"]),
            inner, max_size=4,
        ),
    ),
    max_leaves=10,
)  # fmt: skip


def check(error: BridgeError) -> None:
    assert 400 <= error.status <= 599
    shown = msgspec.json.decode(error.body())["error"]
    assert shown.keys() == {"message", "type", "param", "code"}
    assert isinstance(shown["message"], str)
    assert shown["message"]
    assert len(shown["message"]) <= MESSAGE_LIMIT
    assert isinstance(shown["type"], str)
    assert shown["code"] is None or isinstance(shown["code"], str | int)


@given(
    st.integers(100, 999),
    st.one_of(st.binary(max_size=80), JSON_VALUES.map(lambda value: json.dumps(value).encode())),
)
def test_any_failure_can_be_read(status: int, body: bytes) -> None:
    check(read_failure(status, body, Redactor(["secret-key"])))


@given(JSON_VALUES)
def test_any_failure_under_http_200_can_be_read(value: object) -> None:
    check(in_band_failure(value, Redactor(["secret-key"])))
