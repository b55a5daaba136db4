from __future__ import annotations

import json

from osmosis_runner.preview import row_preview
from osmosis_runner.row_store import Row


def preview(messages: list, label: str | None = None, metadata: dict | None = None) -> dict:
    line = row_preview(Row(3, 9, messages, label, metadata))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


def test_instructions_are_left_out_and_texts_joined() -> None:
    assert preview(
        [
            {"role": "system", "content": "secret rules"},
            {"role": "developer", "content": "more"},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": None},
            {
                "role": "user",
                "content": [{"type": "text", "text": "two"}, {"type": "image_url", "image_url": {}}],
            },
        ],
        label="4",
    ) == {"row_index": 3, "prompt": "one\n\n\n\ntwo", "label": "4"}


def test_a_row_without_prompt_shows_its_metadata_sorted() -> None:
    assert preview([], metadata={"b": 1, "a": {"d": 1, "c": "é"}}) == {
        "row_index": 3,
        "prompt": '{"a":{"c":"é","d":1},"b":1}',
    }


def test_long_texts_are_cut() -> None:
    line = preview([{"role": "user", "content": "é" * 5_000}], label="y" * 501)
    assert line["prompt"] == "é" * 2_000
    assert line["label"] == "y" * 500
    assert len(preview([], metadata={"a": "x" * 5_000})["prompt"]) == 2_000


def test_an_empty_label_is_kept_and_a_missing_one_left_out() -> None:
    assert preview([{"role": "user", "content": "q"}], label="")["label"] == ""
    assert "label" not in preview([{"role": "user", "content": "q"}])
