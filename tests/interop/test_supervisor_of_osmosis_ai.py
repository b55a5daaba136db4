"""A rollout written with this project is driven by osmosis-ai's own supervisor."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from interop_workspace import Bench, Finished, eventually, finished, make_osmosis_ai, rows_of
from osmosis_runner.interpreters import search_path
from rollouts_under_test import json_lines
from tool_provider import ToolProvider

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="session")
def osmosis_ai() -> Path:
    return make_osmosis_ai()


def command(osmosis_ai: Path, bench: Bench, dataset: Path) -> list[str]:
    bench.environ |= {
        "HOSTED_VLLM_API_BASE": bench.provider_url,
        "HOSTED_VLLM_API_KEY": "sk-the-providers-own-key",
        # It leaves finding an interpreter to uv, which stumbles over a version manager's stand-ins.
        "PATH": search_path(bench.environ),
    }
    words = [str(osmosis_ai), "--json", "eval", "run", "configs/eval/ours.toml", "--yes", "--name", "r"]
    return [*words, "--dataset-file", str(dataset), "--output", str(bench.output), "--max-in-flight", "4"]


def drive(osmosis_ai: Path, bench: Bench, rows: list[dict[str, object]]) -> Finished:
    return finished(bench.start(command(osmosis_ai, bench, bench.write_rows(rows))))


def test_our_host_is_scored_counted_and_kept(osmosis_ai: Path, bench: Bench, provider: ToolProvider) -> None:
    done = drive(osmosis_ai, bench, rows_of("ask", "raise", "remove", "ask", ("sleep", 0.5), "ask"))
    assert done.code == 0, done.err
    told = done.resource
    assert (told["succeeded"], told["failed"], told["skipped"]) == (4, 1, 1)
    assert told["metrics"]["tokens_used"] == provider.tokens
    index = {line["row_index"]: line for line in json_lines(bench.run_dir / "index.jsonl")}
    assert [index[row].get("reward") for row in range(6)] == [1.0, None, None, 1.0, 1.0, 1.0]
    assert index[1]["error_type"] == "agent_error"
    # Their supervisor names a trajectory only when it can read it and it is of this rollout.
    assert [row for row, line in index.items() if "trajectory_filename" in line] == [0, 2, 3, 4, 5]
    for row in (0, 2, 3, 4, 5):
        kept = bench.run_dir / "artifacts" / f"row_{row}_run_0" / "note.txt"
        assert kept.read_text() == "kept"
    assert "SDK" not in done.err


def test_their_interrupt_ends_our_host_and_leaves_the_rest_pending(
    osmosis_ai: Path, bench: Bench, provider: ToolProvider
) -> None:
    dataset = bench.write_rows(rows_of("ask", "ask", *[("sleep", 60)] * 6))
    process = bench.start(command(osmosis_ai, bench, dataset))
    # Their supervisor counts a result a moment after it has recorded it.
    eventually(lambda: bench.log.count("work item finished") == 2)
    server = json.loads((bench.run_dir / "server.json").read_text())
    process.send_signal(signal.SIGINT)
    done = finished(process, within_s=40)
    assert done.code == 1
    assert (done.resource["succeeded"], done.document["status"]) == (2, "partial")
    assert not Path(f"/proc/{server['pid']}").exists()
