from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pytest

from osmosis_runner.dataset_problems import Place, Problems, Unreadable
from osmosis_runner.errors import DatasetError
from osmosis_runner.row_rules import DEEPEST, RowRules, chat_messages, json_ready, misspelt_columns
from osmosis_runner.row_store import Row, RowStore


def judged(*rows: Mapping[str, object]) -> tuple[list[Row], tuple[str, ...]]:
    store, problems = RowStore(), Problems("d")
    rules = RowRules(store, problems)
    for offset, columns in enumerate(rows):
        rules.judge(Place(offset + 1, offset), columns, lambda column, c=columns: json.dumps(c[column]))
    problems.raise_any()
    return list(store), rules.ignored_columns


def row(**columns: object) -> Row:
    return judged(columns)[0][0]


def refused(**columns: object) -> list[tuple[str | None, str, str]]:
    with pytest.raises(DatasetError) as caught:
        judged(columns)
    return [(issue.column, issue.found, issue.fix) for issue in caught.value.issues]


def test_prompts_become_messages_and_the_label_text() -> None:
    assert row(system_prompt="s", user_prompt="u", ground_truth="1") == Row(
        0, 0, [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], "1", None
    )
    assert row(user_prompt="   ", label="1").messages == [{"role": "user", "content": "   "}]


def test_empty_text_and_null_are_absent() -> None:
    assert row(system_prompt="", user_prompt="u", ground_truth=None, label="2") == Row(
        0, 0, [{"role": "user", "content": "u"}], "2", None
    )
    assert refused(user_prompt="", ground_truth="1")[0][:2] == ("user_prompt", "'user_prompt' is empty")
    assert refused(user_prompt="u", ground_truth=None)[0][:2] == ("ground_truth", "'ground_truth' is null")


@pytest.mark.parametrize(
    ("value", "text"), [(4, "4"), (4.0, "4.0"), (True, "true"), (False, "false"), (0, "0"), ("text", "text")]
)
def test_a_number_or_boolean_is_taken_as_its_json_text(value: object, text: str) -> None:
    assert row(user_prompt="q", ground_truth=value).label == text
    assert row(user_prompt=value, ground_truth="1").messages == [{"role": "user", "content": text}]


@pytest.mark.parametrize(("value", "kind"), [(["a"], "a list"), ({"x": 1}, "an object"), ([], "a list")])
def test_a_list_or_object_is_no_text(value: object, kind: str) -> None:
    [(column, found, fix)] = refused(user_prompt="q", ground_truth=value)
    assert column == "ground_truth"
    assert kind in found
    assert "metadata" in fix
    [(column, found, _)] = refused(user_prompt=value, ground_truth="1")
    assert column == "user_prompt"
    assert kind in found


def test_a_missing_column_names_what_is_there_and_the_nearest() -> None:
    problems = refused(prompt="q", answer="1", user_promt="q")
    assert [problem[0] for problem in problems] == ["ground_truth", "user_prompt"]
    assert "columns are 'prompt', 'answer', 'user_promt'" in problems[1][1]
    assert "rename 'user_promt' to 'user_prompt'" in problems[1][2]


def problems_of(*rows: Mapping[str, object]) -> list[tuple[int | None, str | None]]:
    with pytest.raises(DatasetError) as caught:
        judged(*rows)
    return [(issue.row, issue.column) for issue in caught.value.issues]


def test_a_column_that_no_row_has_is_missed_in_every_row_and_told_once() -> None:
    with pytest.raises(DatasetError) as caught:
        judged(*[{"prompt": "q", "answer": "1"}] * 3)
    assert [(kind.first.column, kind.count, kind.rows) for kind in caught.value.kinds.listed] == [
        ("ground_truth", 3, [0, 1, 2]),
        ("user_prompt", 3, [0, 1, 2]),
    ]


def test_a_column_that_other_rows_have_is_missed_in_every_row_without_it() -> None:
    whole, partial = {"user_prompt": "q", "label": "1"}, {"user_prompt": "q"}
    assert problems_of(whole, partial, whole, partial) == [(1, "ground_truth"), (3, "ground_truth")]


def test_two_labels_that_differ_are_refused_and_equal_ones_taken() -> None:
    assert row(user_prompt="q", ground_truth="1", label="1").label == "1"
    assert row(user_prompt="q", ground_truth=1, label="1").label == "1"
    [(column, found, _)] = refused(user_prompt="q", ground_truth="1", label="2")
    assert column == "label"
    assert "'1'" in found
    assert "'2'" in found


def test_a_row_with_metadata_needs_nothing_else() -> None:
    assert row(metadata={"a": 1}) == Row(0, 0, [], None, {"a": 1})
    assert row(metadata='{"a": {"b": [1, null]}}').metadata == {"a": {"b": [1, None]}}
    assert row(user_prompt="q", metadata="").metadata is None
    assert row(user_prompt="q", metadata={}).metadata is None


@pytest.mark.parametrize("value", ["", "  ", None, {}, "{}"])
def test_a_row_with_neither_prompt_nor_metadata_is_refused(value: object) -> None:
    [(column, found, _)] = refused(metadata=value, ground_truth="1")
    assert column == "metadata"
    assert "neither a prompt nor metadata" in found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([1], "a list where an object belongs"),
        ("[1,2]", "a list where an object belongs"),
        (3, "a number where an object belongs"),
        ("{'a': 1}", "invalid JSON"),
        ('{"a":1,"a":2}', "stands twice"),
        ({"a": {"b": math.nan}}, "nan, which JSON cannot hold"),
        ({"a": 2**64}, "more than 64 bits"),
        ({"a": -(2**63) - 1}, "more than 64 bits"),
        ('{"a": 123456789012345678901234567890}', "more than 64 bits"),
        ({"a": b"x"}, "a bytes, which JSON does not know"),
        ({1: "x"}, "a key that is a int"),
    ],
)
def test_metadata_that_is_no_exact_json_object_is_refused(value: object, found: str) -> None:
    [(column, text, _)] = refused(user_prompt="q", metadata=value)
    assert (column or "").startswith("metadata")
    assert found in text


def test_the_place_inside_metadata_is_told() -> None:
    [(column, _, _)] = refused(user_prompt="q", metadata={"a": [{"b": 1}, {"b": 2**70}]})
    assert column == "metadata.a[1].b"


def test_metadata_that_is_nested_too_deeply_is_refused() -> None:
    value: object = 1
    for _ in range(DEEPEST + 2):
        value = {"a": value}
    with pytest.raises(Unreadable, match="nested"):
        json_ready(value)


def test_chat_messages_are_taken_as_they_are() -> None:
    messages = [
        {"role": "developer", "content": "d"},
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "tool", "content": "r", "tool_call_id": "a"},
    ]
    assert row(messages=messages, label="1").messages == messages
    assert row(messages=json.dumps(messages), label="1").messages == messages


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({}, "where a list of messages belongs"),
        ("{}", "where a list of messages belongs"),
        ([], "where a list of messages belongs"),
        (["x"], "where a message belongs"),
        ([{"content": "q"}], "has no 'role'"),
        ([{"role": 1, "content": "q"}], "the role is 1"),
        ([{"role": "user", "content": 3}], "not text or a list of parts"),
        ([{"role": "user"}], "the user message has no 'content'"),
        ([{"role": "user", "content": "q", "n": math.inf}], "inf, which JSON"),
    ],
)
def test_messages_of_another_shape_are_refused(value: object, found: str) -> None:
    problems = refused(messages=value, label="1")
    assert any(found in text for _, text, _ in problems)
    if value not in ({}, "{}", []):
        assert problems[0][0] is not None
        assert problems[0][0].startswith("messages[0]")


def test_messages_exclude_the_two_prompts_and_need_a_label_like_them() -> None:
    messages = [{"role": "user", "content": "q"}]
    assert refused(messages=messages, user_prompt="q", label="1")[0][0] == "messages"
    assert refused(messages=messages, system_prompt="s", label="1")[0][0] == "messages"
    assert refused(messages=messages)[0][0] == "ground_truth"
    assert row(messages=messages, user_prompt="", label="1").messages == messages


def test_a_refused_value_is_not_reported_a_second_time_as_missing() -> None:
    assert [problem[0] for problem in refused(messages="nonsense", label="1")] == ["messages"]


def test_all_problems_of_a_row_are_told_at_once() -> None:
    columns = [problem[0] for problem in refused(system_prompt=["x"], user_prompt={"y": 1}, label=[3])]
    assert columns == ["label", "system_prompt", "user_prompt"]


def test_columns_that_differ_by_case_or_spaces_are_told_once() -> None:
    assert [problem.column for problem in misspelt_columns(["User_Prompt", " label", "system prompt", "id"])] == [
        "User_Prompt", " label", "system prompt",
    ]  # fmt: skip
    assert misspelt_columns(["label", "Label"]) == []
    store, problems = RowStore(), Problems("d")
    rules = RowRules(store, problems)
    for offset in range(3):
        rules.judge(Place(offset + 1, offset), {"user_prompt": "q", "label": "1", "Metadata": {}}, str)
    assert problems.total == 1


def test_ignored_columns_are_remembered_in_order() -> None:
    _, ignored = judged(
        {"user_prompt": "q", "label": "1", "id": 1}, {"zeta": 1, "user_prompt": "q", "label": "1", "id": 2}
    )
    assert ignored == ("id", "zeta")


def test_chat_messages_need_a_list() -> None:
    with pytest.raises(Unreadable):
        chat_messages(None)
