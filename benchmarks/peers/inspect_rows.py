# pyright: basic, reportMissingImports=false
"""The same rows through Inspect AI: one generation a row, and a score. Runs in that package's own environment.

inspect_rows.py ROWS_FILE UPSTREAM_URL IN_FLIGHT LOG_FOLDER
"""

import json
import sys
from pathlib import Path

import inspect_ai
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate


def main() -> None:
    rows_file, upstream, in_flight, log_folder = sys.argv[1:]
    rows = [json.loads(line) for line in Path(rows_file).read_text().splitlines()]
    samples = [Sample(input=row["user_prompt"], target=row["ground_truth"]) for row in rows]
    task = inspect_ai.Task(dataset=MemoryDataset(samples), solver=generate(), scorer=includes())
    (log,) = inspect_ai.eval(
        task,
        model="openai/mock-1",
        model_base_url=upstream,
        model_args={"responses_api": False},
        max_connections=int(in_flight),
        max_samples=int(in_flight),
        display="none",
        log_dir=log_folder,
    )
    print(json.dumps({"status": log.status, "rows": log.results.completed_samples if log.results else 0}))


if __name__ == "__main__":
    main()
