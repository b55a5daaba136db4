from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

import pytest

from osmosis_runner.rollout import places
from osmosis_runner.rollout.agent import GraderContext
from osmosis_runner.rollout.places import author_traceback, is_library, named_place, raised_at, standing_at


def caught(function: Any) -> BaseException:
    with pytest.raises(BaseException) as info:
        function()
    return info.value


def of_json() -> None:
    json.loads("{")


def test_the_innermost_line_of_the_authors_own_is_named_under_those_of_libraries() -> None:
    error = caught(of_json)
    assert raised_at(error) == f"test_places.py:{of_json.__code__.co_firstlineno + 1} in of_json"
    assert "decoder.py" in author_traceback(error)


def test_an_exception_that_went_through_no_authors_code_has_no_place() -> None:
    assert raised_at(ValueError("never raised")) is None


def of_ours() -> None:
    GraderContext.set_reward(None, "1")  # type: ignore[arg-type]


def test_frames_of_ours_are_left_out_and_causes_stay() -> None:
    def chained() -> None:
        try:
            of_ours()
        except TypeError as error:
            raise RuntimeError("second") from error

    told = author_traceback(caught(chained))
    assert "agent.py" not in told
    assert re.search(
        r"in of_ours\n.*TypeError: set_reward.*direct cause.*RuntimeError: second", told, re.DOTALL
    )


def test_the_way_into_a_thread_is_left_out() -> None:
    error = caught(lambda: asyncio.run(asyncio.to_thread(of_json)))
    assert "threads.py" not in author_traceback(error)
    assert "thread.py" not in author_traceback(error)


def test_a_message_of_megabytes_leaves_the_frames_in_sight() -> None:
    def loud() -> None:
        raise ValueError("x" * 3_000_000)

    told = author_traceback(caught(loud))
    assert "in loud" in told
    assert told.endswith("xxx…\n")
    assert len(told) < 4_000


def test_members_of_a_group_are_told() -> None:
    def grouped() -> None:
        raise ExceptionGroup("several", [caught(of_ours), ValueError("x")])  # type: ignore[list-item]

    told = author_traceback(caught(grouped))
    assert "of_ours" in told
    assert "agent.py" not in told


@pytest.mark.parametrize(
    ("path", "library"),
    [
        ("/home/a/rollouts/x/main.py", False),
        ("/home/a/.venv/lib/python3.12/site-packages/openai/client.py", True),
        ("/usr/lib/python3.11/json/decoder.py", True),
        ("<frozen importlib>", True),
        (places.__file__, True),
    ],
)
def test_what_is_installed_is_no_code_of_the_authors(path: str, library: bool) -> None:
    assert is_library(path) is library


def test_a_place_is_the_files_name_line_and_function() -> None:
    assert named_place("/a/b/main.py", 8, "run") == "main.py:8 in run"


def test_where_code_stands_is_its_innermost_line_of_no_library() -> None:
    found: list[str] = []

    def look() -> None:
        found.append(standing_at(sys._getframe()))

    json.loads("1", parse_int=lambda _: look())
    assert found == [f"test_places.py:{look.__code__.co_firstlineno + 1} in look"]
    assert standing_at(None) == "an unknown place"
