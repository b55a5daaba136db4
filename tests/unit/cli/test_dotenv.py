"""The grammar of dotenv files."""

from __future__ import annotations

import pytest

from osmosis_cli.dotenv import parse


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A=1\nB = two words \n", {"A": "1", "B": "two words"}),
        ("export A=1", {"A": "1"}),
        ("exported=1", {"exported": "1"}),
        ("# A=1\n\n  # B=2\nC=3 # not a comment", {"C": "3 # not a comment"}),
        ("A='it''s'\nB=\"x\"\nC='x\"\nD=\"", {"A": "it''s", "B": "x", "C": "'x\"", "D": '"'}),
        ('A=""', {"A": ""}),
        ("A=", {"A": ""}),
        ("A=b=c", {"A": "b=c"}),
        ("A=1\nA=2", {"A": "2"}),
        ("\ufeffA=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
    ],
)
def test_values_are_read_by_the_grammar(text: str, values: dict[str, str]) -> None:
    found = parse(text)
    assert found.values == values
    assert found.malformed == ()


@pytest.mark.parametrize("line", ["sk-secret", "1A=x", "A B=x", "=x", "export", "A-B=x", "A=nul\0", "Ä=1"])
def test_a_line_outside_the_grammar_is_told_by_its_number(line: str) -> None:
    found = parse(f"# first\n{line}\nB=2")
    assert found.malformed == (2,)
    assert found.values == {"B": "2"}
