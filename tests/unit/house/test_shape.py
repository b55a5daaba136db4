"""The shape check: every limit is seen to hold at its bound and to fail one beyond."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_shape


def texts(source: str) -> list[str]:
    return [complaint.text for complaint in check_shape.of_module("x.py", source)]


def function_of(lines: int) -> str:
    return "def f():\n" + "    x = 1\n" * (lines - 1)


def nested(depth: int) -> str:
    blocks = [f"{'    ' * (level + 1)}if x:\n" for level in range(depth)]
    return "def f(x):\n" + "".join(blocks) + "    " * (depth + 1) + "pass\n"


def test_a_function_may_have_sixty_lines_and_no_more() -> None:
    assert texts(function_of(60)) == []
    assert texts(function_of(61)) == ["f has 61 lines; 60 is the most, 40 the aim"]


def test_decorators_count_as_lines_of_their_function() -> None:
    assert texts("@d\n" + function_of(60)) == ["f has 61 lines; 60 is the most, 40 the aim"]


def test_a_function_may_nest_three_blocks_deep_and_no_more() -> None:
    assert texts(nested(3)) == []
    assert texts(nested(4)) == ["f nests 4 blocks deep; 3 is the most"]


def test_a_ladder_of_elifs_is_one_block() -> None:
    ladder = "def f(x):\n    if x == 1:\n        pass\n" + "".join(
        f"    elif x == {number}:\n        pass\n" for number in range(2, 9)
    )
    assert texts(ladder) == []


def test_an_if_alone_in_an_else_is_an_elif_written_longer() -> None:
    assert (
        texts("def f(x):\n    if x:\n        pass\n    else:\n        for y in x:\n            pass\n") == []
    )


def test_a_function_in_a_function_starts_at_no_depth() -> None:
    outer = "def f(x):\n    if x:\n        if x:\n"
    inner = "            def g():\n                if x:\n                    if x:\n                        pass\n"
    assert texts(outer + inner) == []


def test_a_module_may_have_four_hundred_lines_and_no_more() -> None:
    assert texts("x = 1\n" * 400) == []
    assert texts("x = 1\n" * 401) == ["the module has 401 lines; 400 is the most"]


@pytest.mark.parametrize("statement", ["import json", "from json import loads", "from . import json"])
def test_imports_stand_at_the_top(statement: str) -> None:
    (text,) = texts(f"def f():\n    {statement}\n")
    assert text.endswith("imports stand at the top of the file")


def test_litellm_alone_may_be_imported_when_it_is_needed() -> None:
    assert texts("def f():\n    import litellm.types\n    from litellm import acompletion\n") == []


def test_a_global_is_named() -> None:
    assert texts("def f():\n    global a, b\n") == ["`global a, b`: pass the value instead"]


def test_a_folder_is_walked_and_what_is_allowed_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / "long.py"
    long.write_text(function_of(61))
    assert check_shape.main([str(tmp_path)]) == 1
    assert f"{long.as_posix()}:1: f has 61 lines" in capsys.readouterr().out
    monkeypatch.setitem(check_shape.ALLOWED, (long.as_posix(), "f"), "a table")
    assert check_shape.main([str(tmp_path)]) == 0
