"""Runs one evaluation in a process of its own and prints how it ended, as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from osmosis_runner.run import run_evaluation
from rollouts_under_test import Watcher, Workspace


def main() -> None:
    given = json.loads(sys.argv[1])
    workspace = Workspace(Path(given["root"]), given["url"])
    watcher = Watcher()
    outcome = asyncio.run(run_evaluation(workspace.options(**given["changes"]), watcher, workspace.patience))
    told = {"reason": outcome.reason, "told": len(watcher.items)} if outcome.ended == "halted" else {}
    print(json.dumps({"ended": outcome.ended, "signal": outcome.signal, "pending": outcome.pending, **told}))


if __name__ == "__main__":
    main()
