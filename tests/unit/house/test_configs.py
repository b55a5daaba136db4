"""The run files under configs/ are examples to copy: each is valid, and what it names is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from osmosis_runner.config import load_config
from osmosis_runner.rows import read_rows

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = sorted((ROOT / "configs").rglob("*.toml"))


def test_there_is_a_run_file_for_the_quickstart() -> None:
    assert ROOT / "configs/eval/quickstart.toml" in CONFIGS


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_run_file_is_valid_and_its_rollout_is_here(path: Path) -> None:
    config = load_config(path, ROOT)
    assert (ROOT / "rollouts" / config.rollout / config.entrypoint).is_file()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_dataset_of_a_run_file_is_here_and_every_row_can_be_read(path: Path) -> None:
    found = list((ROOT / "data").glob(f"{load_config(path, ROOT).dataset}.*"))
    assert len(found) == 1
    assert read_rows(found[0]).total_rows > 0


def test_the_quickstart_asks_for_the_model_that_needs_no_key() -> None:
    assert (
        load_config(ROOT / "configs/eval/quickstart.toml", ROOT).model_path == "local/smollm2-135m-instruct"
    )
