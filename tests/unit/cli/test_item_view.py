"""One item in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from osmosis_cli.item_view import SHOWN, Item, item_result
from osmosis_cli.output import DetailResult, document, encode, plain_lines
from osmosis_runner.journal_record import JournalRecord
from osmosis_runner.trajectory import Attempt, build_trajectory, enrich
from stored_runs import record

PARTS = [{"type": "text", "text": "Weather in\nParis?"}, {"type": "image_url", "image_url": {"url": "data:"}}]
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": PARTS},
    {"role": "assistant", "content": None, "reasoning_content": "I should look.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "18 degrees\nrain"},
    {"role": "assistant", "content": "Rain.\x1b[2J"},
]


def call(seq: int, prompt: int, completion: int) -> dict[str, Any]:
    """One call as the bridge keeps it."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"seq": seq, "status": "ok", "duration_ms": 400, "usage": usage}


def trajectory(*calls: dict[str, Any], messages: list[dict[str, Any]] = MESSAGES) -> dict[str, Any]:
    """A trajectory as the runner keeps it."""
    attempt = Attempt("r", 4, 0, label="rain", reward=0.5, metrics={"turns": 2}, notes="partial: timeout")
    return enrich(build_trajectory(messages, attempt, "1"), calls, "local/tiny")


def viewed(steps: dict[str, Any], shown: JournalRecord | None = None, prompt: str = "") -> DetailResult:
    """An item as it is shown."""
    one = shown or record(4, reward=0.5, source_row_index=9, calls=2, prompt_tokens=90, completion_tokens=10)
    return item_result(Item("quick", one, steps, prompt, (("Artifacts", Path("/runs/quick/artifacts")),)))


def test_messages_tool_calls_and_results_are_read_in_order() -> None:
    result = viewed(trajectory(call(1, 40, 8), call(2, 50, 2)))
    assert [(section.title, section.lines) for section in result.sections] == [
        ("1. system", ("Be brief.",)),
        ("2. user", ("Weather in", "Paris?", '{"type": "image_url", "image_url": {"url": "data:"}}')),
        (
            "3. agent (prompt 40, completion 8, 0.4s)",
            (
                "[reasoning]",
                "I should look.",
                "[answer]",
                'call c1: weather({"city": "Paris"})',
                "result of c1:",
                "  18 degrees",
                "  rain",
            ),
        ),
        ("4. agent (prompt 50, completion 2, 0.4s)", ("Rain.[2J",)),
    ]


def test_facts_tell_the_reward_the_label_the_tokens_and_the_files() -> None:
    result = viewed(trajectory())
    assert result.title == "Run quick, row 4, run 0"
    assert dict(result.rows) == {
        "Row": "4 (source 9)",
        "Run": "0",
        "Status": "success",
        "Reward": "0.5",
        "Label": "rain",
        "Metrics": "turns 2",
        "Model": "local/tiny",
        "Note": "partial: timeout",
        "Tokens": "100 (prompt 90, completion 10) in 2 calls; max context 60",
        "Duration": "1.5s",
        "Artifacts": "/runs/quick/artifacts",
    }


def test_a_model_that_answered_in_place_of_the_one_asked_for_is_named() -> None:
    def served(*names: str) -> str | None:
        calls = [{**call(place, 40, 8), "served_model": name} for place, name in enumerate(names)]
        return dict(viewed(trajectory(*calls)).rows).get("Served Model")

    assert served("tiny", "tiny") is None
    assert served("local/tiny") is None
    assert served("tiny-2024", "other") == "tiny-2024, other"
    # As many calls as steps, or not.
    assert served("ny", "tiny", "ny") == "ny"


def test_calls_of_which_the_step_is_unknown_are_listed_at_the_end() -> None:
    last = viewed(trajectory(call(1, 40, 8), call(2, 50, 2), call(3, 60, 1))).sections[-1]
    assert last.title == "Calls to the model"
    assert [line.split(",")[0] for line in last.lines] == ["1. prompt 40", "2. prompt 50", "3. prompt 60"]


def test_a_failure_without_a_trajectory_tells_its_error_its_prompt_and_its_traceback() -> None:
    failed = record(
        4, status="failed", reward=None, error_type="agent_error", error_phase="agent", tokens=None, attempt=3,
        error_message="ValueError: no", error_traceback="Traceback:\n  line 1\nValueError: no\n",
    )  # fmt: skip
    result = viewed({}, failed, "Weather?")
    told = dict(result.rows)
    assert told["Error"] == "agent failed: ValueError: no"
    assert (told["Reward"], told["Prompt"], told["Trajectory"]) == ("none", "Weather?", "none was kept")
    assert told["Attempt"] == "3"
    assert "Tokens" not in told
    assert result.sections[0].lines == ("Traceback:", "  line 1", "ValueError: no")


def test_a_message_without_end_is_cut_for_people_and_whole_for_programs() -> None:
    result = viewed(trajectory(messages=[{"role": "user", "content": "x" * (SHOWN + 5)}]))
    assert result.sections[0].lines == ("x" * SHOWN, "[5 more characters; --json shows all]")
    assert "x" * (SHOWN + 5) in encode(document(result))


def test_a_trajectory_of_another_shape_shows_what_it_has() -> None:
    strange: dict[str, Any] = {
        "agent": [],
        "steps": [
            3,
            {"source": 1, "message": {"a": 1}, "tool_calls": [{}], "observation": {"results": [None]}},
        ],
        "extra": {"osmosis": {"unmatched_calls": [{}], "label": 7}},
    }
    lines = plain_lines(viewed(strange))
    assert '  {"a": 1}' in lines
    assert "1. unknown:" in lines
    assert "  1. no usage" in lines
