"""Redaction: secrets by value everywhere, by shape in messages; one line, bounded."""

from __future__ import annotations

import json
import time

import pytest

from osmosis_bridge.redact import MESSAGE_LIMIT, Redactor, credentials_in, one_line

KEY = "sk-live-0123456789abcdef"


def test_every_secret_is_replaced_wherever_it_stands() -> None:
    redactor = Redactor([KEY, "run-token-1"])
    assert redactor.scrub_text(f"a {KEY}b run-token-1") == "a [REDACTED]b [REDACTED]"
    assert redactor.scrub(f"a {KEY}b run-token-1".encode()) == b"a [REDACTED]b [REDACTED]"


def test_content_without_a_secret_is_passed_on_as_the_same_object() -> None:
    content = b"no secret here"
    assert Redactor([KEY]).scrub(content) is content


def test_a_longer_secret_is_replaced_before_a_shorter_one_within_it() -> None:
    redactor = Redactor(["secret", "secret-and-more"])
    assert redactor.scrub_text("secret-and-more secret") == "[REDACTED] [REDACTED]"


def test_values_too_short_to_be_secrets_are_passed_over() -> None:
    redactor = Redactor(["", "a", "abcde", "     "])
    assert redactor.scrub_text("a abcde      ") == "a abcde      "
    assert Redactor(["abcdef"]).scrub_text("abcdef") == "[REDACTED]"


def test_a_secret_with_white_space_around_it_is_known_without_it_too() -> None:
    assert Redactor([f" {KEY}\n"]).scrub_text(f"x{KEY}y") == "x[REDACTED]y"


@pytest.mark.parametrize("secret", ['pa"ss\\word', "pässwörd/1+2==", "tab\tand\nline", "snow \u2603 man"])
def test_a_secret_is_known_in_the_forms_json_and_urls_give_it(secret: str) -> None:
    redactor = Redactor([secret])
    slashed = json.dumps(secret).replace("/", "\\/")
    for shown in (json.dumps(secret), json.dumps(secret, ensure_ascii=False), slashed):
        assert redactor.scrub(shown.encode()) == b'"[REDACTED]"'
    assert Redactor(["pä ss/word"]).scrub(b"?k=p%C3%A4%20ss%2Fword") == b"?k=[REDACTED]"


def test_a_secret_that_is_not_text_in_any_encoding_breaks_nothing() -> None:
    secret = b"key-\xff\xfe-bytes".decode("utf-8", "surrogateescape")
    assert Redactor([secret]).scrub(b"x key-\xff\xfe-bytes") == b"x [REDACTED]"


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-abcdefgh12345678.",
        "sk-proj-Ab_cd-EF0123456789 and xai-0123456789abcdef and gsk_0123456789abcdef",
        "hf_0123456789abcdefgh ghp_0123456789abcdef github_pat_0123456789ABCDEFGH",
        "AIzaSyA0123456789abcdefghij_kl AKIA0123456789ABCDEF",
        "Authorization: Bearer abcdefgh12345678 / basic QWxhZGRpbjpvcGVu",
        "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.SflKxwRJSMeKKF2QT4",
        "the bearer orb-r-17.0123456789abcdef0123456789abcdef01234567",
        "api_key=abcdef123456 'api-key': 'abcdef123456' {\"token\": \"abcdef123456\"}",
        '{\\"api_key\\": \\"abcdef123456\\"} password = hunter2hunter2; X-Api-Key: abcdef123456',
    ],
)
def test_words_that_look_like_keys_are_taken_out_of_messages(text: str) -> None:
    shown = Redactor().message(text)
    assert "[REDACTED]" in shown
    for part in ("12345678", "0123456789", "abcdef123456", "QWxh", "SflK", "hunter2"):
        assert part not in shown


@pytest.mark.parametrize(
    "text",
    [
        "The model `gpt-9` does not exist; see https://example.com/docs/models for a list",
        "Rate limit reached: 3 requests per min. Limit: 3 / min. Please try again in 20s.",
        "max_tokens must be at most 4096, got 99999 (key 'max_tokens')",
        "this task-force is risk-averse: disk-full",
        "[REDACTED]",
    ],
)
def test_ordinary_messages_are_left_as_they_are(text: str) -> None:
    assert Redactor().message(text) == text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pw@h.example/v1", "https://h.example/v1"),
        ("https://user:p(w'@h.example/v1", "https://h.example/v1"),
        ("https://h.example/v1?key=abc&x=1", "https://h.example/v1?…"),
        ("https://h.example?key=a/b", "https://h.example?…"),
        ("https://h.example/v1#access_token=x", "https://h.example/v1?…"),
        ("http://[::1]:8000/v1?key=abc", "http://[::1]:8000/v1?…"),
        ("http://u:p@[fe80::1%25eth0]:8000/v1?key=abc", "http://[fe80::1%25eth0]:8000/v1?…"),
        ("POST http://h/a?b (http://h/c?d), done", "POST http://h/a?… (http://h/c?…), done"),
        ("redis://:pass@cache:6379/0", "redis://cache:6379/0"),
        ("https://", "https://"),
        ('{"url":"https://h/v1","mail":"a@b"}', '{"url":"https://h/v1","mail":"a@b"}'),
    ],
)
def test_urls_lose_their_credentials_their_query_and_their_fragment(url: str, shown: str) -> None:
    assert Redactor().message(url) == shown


def test_private_hosts_are_not_shown_with_or_without_a_port() -> None:
    redactor = Redactor([], ["gpu-7.internal", "gpu-7.internal.example", "10.0.0.7", ""])
    text = "connect to GPU-7.internal:8000 or gpu-7.internal.example. http://10.0.0.7:80/v1 110.0.0.7 gpu-7.internals"
    shown = "connect to [private host] or [private host]. http://[private host]/v1 110.0.0.7 gpu-7.internals"
    assert redactor.message(text) == shown


def test_a_message_is_one_line_without_control_characters() -> None:
    shown = Redactor().message(" a\r\n\tb\x00\x1b[31mc\u2028d\x85e\x9bf\x7f ")
    assert shown == "a b [31mc d e f"


def test_a_secret_that_only_shows_when_line_breaks_become_spaces_is_replaced() -> None:
    assert (
        Redactor(["correct horse battery"]).message("it is: correct\nhorse\n battery!")
        == "it is: [REDACTED]!"
    )


def test_a_message_is_at_most_a_thousand_characters_and_says_that_it_was_cut() -> None:
    assert Redactor().message("x" * MESSAGE_LIMIT) == "x" * MESSAGE_LIMIT
    assert Redactor().message("x" * (MESSAGE_LIMIT + 1)) == "x" * (MESSAGE_LIMIT - 1) + "…"


def test_a_secret_at_the_cut_is_not_left_in_halves() -> None:
    redactor = Redactor([KEY])
    for lead in (MESSAGE_LIMIT - 10, 8 * MESSAGE_LIMIT - 10):
        assert "sk-live" not in redactor.message("x " * (lead // 2) + KEY)


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert Redactor().message("a\ud800b") == "a?b"
    assert one_line("a\ud800b") == "a?b"


def test_one_line_is_bounded_by_the_limit_given() -> None:
    assert one_line("a\nb", 3) == "a b"
    assert one_line("a\nbc", 3) == "a …"


@pytest.mark.parametrize(
    "text",
    [
        "https://" * 200_000,
        "a@" * 500_000,
        "key=" * 300_000,
        "eyJ" * 400_000,
        "sk-" * 400_000,
        " " * 1_000_000,
    ],
)
def test_a_message_of_a_megabyte_does_not_hold_anybody_up(text: str) -> None:
    begun = time.process_time()
    assert len(Redactor([KEY], ["gpu-7.internal"]).message(text)) <= MESSAGE_LIMIT
    # Generous: it is a hang that this is about, and it takes milliseconds.
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("https://h/v1", []),
        ("https://h/v1?api-version=2024-10-21&deployment=gpt", []),
        ("https://h/v1?api-version=1&api_key=AbC%2Fd", ["AbC%2Fd", "AbC/d"]),
        ("https://h/v1?sig=a+b&subscription-key=x1&X-Token=y", ["a+b", "a b", "x1", "y"]),
        ("http://user:p%40ss@proxy:8080", ["p%40ss", "p@ss"]),
        ("http://user@proxy:8080", []),
        ("https://h/?key=&token", []),
        ("http://[broken", []),
        ("", []),
    ],
)
def test_the_secrets_of_a_url_are_its_password_and_what_is_named_like_a_key(
    url: str, secrets: list[str]
) -> None:
    assert credentials_in(url) == secrets
