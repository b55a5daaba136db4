from __future__ import annotations

from osmosis_runner.redaction import run_redactor

BEARER = "orb-0123456789abcdef." + "a" * 40


def test_given_secrets_and_ambient_keys_are_taken_out_of_a_line() -> None:
    redactor = run_redactor({"OPENAI_API_KEY": "sk-ambient-1", "HOME": "/home/somebody"}, ["given-secret"])
    line = redactor.line("a sk-ambient-1 b given-secret c /home/somebody")
    assert line == "a [REDACTED] b [REDACTED] c /home/somebody"


def test_short_ambient_values_are_ordinary_words() -> None:
    assert run_redactor({"TOKEN": "dev"}, []).line("dev") == "dev"


def test_bearers_of_rollouts_are_known_by_their_shape() -> None:
    assert run_redactor({}, []).line(f"key={BEARER} end") == "key=[REDACTED] end"


def test_a_line_keeps_its_spaces() -> None:
    assert run_redactor({}, []).line("  a   b\tc") == "  a   b\tc"
