from __future__ import annotations

from osmosis_runner.toml_lines import scan_lines

TEXT = '''# n = 1
top = 1
[experiment]
rollout = "x"
text = """
n = 3
[evaluation]
"""
"entry.point" = 'y'  # [nothing]
[ evaluation ]
n = 4
n = 5
deep.inner = 1
[evaluation]
'''


def test_keys_and_sections_have_the_line_where_they_stand() -> None:
    lines = scan_lines(TEXT)
    assert lines.of("top") == 2
    assert lines.of("experiment") == 3
    assert lines.of("experiment.rollout") == 4
    assert lines.of("evaluation.n") == 11
    assert lines.of("evaluation.deep.inner") == 13


def test_a_missing_key_has_the_line_of_its_section_and_an_unknown_one_none() -> None:
    lines = scan_lines(TEXT)
    assert lines.of("evaluation.limit") == 10
    assert lines.of("secrets.required") is None


def test_repeated_keys_and_sections_are_told() -> None:
    assert scan_lines(TEXT).repeats == (("evaluation.n", 12), ("evaluation", 14))


def test_a_multi_line_string_that_ends_on_its_own_line_hides_nothing() -> None:
    lines = scan_lines("a = '''x'''\nb = \"\"\"y\"\"\"\nc = 1\n")
    assert lines.of("c") == 3


def test_windows_line_ends_and_dotted_keys_outside_of_sections_are_placed() -> None:
    lines = scan_lines("experiment.rollout = 'x'\r\nevaluation.n = 2\r\n")
    assert lines.of("evaluation.n") == 2
    assert lines.of("experiment") == 1
