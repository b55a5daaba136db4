from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from pathlib import Path

from mock_provider import MockProvider
from osmosis_runner.config import load_config
from osmosis_runner.run import RunOptions, RunOutcome, run_evaluation
from rollouts_under_test import Watcher, json_lines

ROOT = Path(__file__).parents[2]
WORDS = {"times": "*", "plus": "+", "minus": "-"}


def calculate(question: str) -> int:
    left, word, right = [str(found) for found in re.findall(r"\d+|times|plus|minus|[*+-]", question)]
    return {"*": int.__mul__, "+": int.__add__, "-": int.__sub__}[WORDS.get(word, word)](
        int(left), int(right)
    )


def run(tmp_path: Path, provider: MockProvider, rows: str | None = None) -> tuple[RunOutcome, Path]:
    for folder in ("configs", "rollouts", "data"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "configs" / "training").mkdir(exist_ok=True)
    config = tmp_path / "configs/eval/quickstart.toml"
    text = config.read_text().replace("local/smollm2-135m-instruct", "openai/mock")
    config.write_text(text)
    options = RunOptions(
        config_path=config,
        workspace=tmp_path,
        environ={**os.environ, "OPENAI_API_KEY": "sk-0123456789"},
        name="q",
        rows=rows,
        api_base=provider.url,
        api_key_env="OPENAI_API_KEY",
    )
    return asyncio.run(run_evaluation(options, Watcher())), tmp_path / ".osmosis" / "evals" / "q"


def test_the_config_names_what_is_there() -> None:
    config = load_config(ROOT / "configs/eval/quickstart.toml", ROOT)
    assert config.model_path == "local/smollm2-135m-instruct"
    assert (ROOT / "rollouts" / config.rollout / config.entrypoint).is_file()
    assert config.required_secrets == ()


def test_the_labels_are_right_and_the_first_row_is_the_one_the_readme_shows() -> None:
    rows = json_lines(ROOT / "data/quickstart.jsonl")
    assert len(rows) == 20
    assert rows[0] == {"user_prompt": "What is 7 times 8?", "ground_truth": "56"}
    assert all(str(calculate(row["user_prompt"])) == row["ground_truth"] for row in rows)


def test_a_model_that_can_calculate_passes_every_row_in_two_calls(tmp_path: Path) -> None:
    with MockProvider(answer=lambda text: f"It is {calculate(text)}." if text != "hi" else "hi") as provider:
        outcome, folder = run(tmp_path, provider)
    assert (outcome.ended, outcome.succeeded) == ("complete", 20)
    assert outcome.metrics["pass_rate"] == 1.0
    assert outcome.metrics["calls"] == 40
    first = next(line for line in json_lines(folder / "index.jsonl") if line["row_index"] == 0)
    assert first["tokens"] == 2 * first["max_context_tokens"]


def test_two_answers_that_differ_are_settled_by_a_third_call(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(text: str) -> str:
        asked.append(text)
        return "54" if text == "What is 7 times 8?" and asked.count(text) == 1 else "7 * 8 = 56"

    with MockProvider(answer=answer) as provider:
        outcome, folder = run(tmp_path, provider, rows="0")
    assert asked == ["hi", "What is 7 times 8?", "7 * 8 =", "What is 7 times 8?"]
    assert outcome.metrics["passed"] == 1
    trajectory = json.loads((folder / "trajectories" / "row_0_run_0.json").read_text())
    assert trajectory["steps"][-1]["message"] == "The answer is 56."
    assert trajectory["extra"]["osmosis"]["sample_metrics"] == {"calls": 3}


def test_a_model_that_says_no_number_fails_rows_and_not_the_run(tmp_path: Path) -> None:
    with MockProvider() as provider:
        outcome, _ = run(tmp_path, provider, rows="0-3")
    assert (outcome.ended, outcome.succeeded, outcome.metrics["pass_rate"]) == ("complete", 4, 0.0)
