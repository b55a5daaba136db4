"""What a run tells whoever watches it: values and the `Observer` protocol.

It knows nothing of terminals, JSON output or how a run is carried out. Every method is called on the run's
event loop, between two items, so it must return quickly and never raise; a watcher that draws keeps the last
`Progress` and redraws at its own pace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

ItemStatus = Literal["success", "failed", "skipped"]


class RunPlan(msgspec.Struct, frozen=True):
    """What is about to run, known once every check that costs nothing has passed and before anything is spent."""

    run_name: str
    config_path: Path
    output_path: Path
    """The run directory, absolute. It may not exist yet."""
    rollout: str
    entrypoint: str
    model_path: str
    dataset_name: str
    dataset_source: str
    """`explicit` (--dataset-file) or `workspace` (data/NAME.*)."""
    dataset_path: Path
    selected_rows: int
    total_rows: int
    runs_per_row: int
    total_items: int
    pending_items: int
    recorded_items: int
    """Items an earlier invocation of this run has recorded and this one keeps."""
    max_in_flight: int
    """Wanted concurrency; the rollout server's own capacity may lower it."""
    secret_names: tuple[str, ...]
    branch: str | None = None
    commit_sha: str | None = None
    in_flight_open: bool = False
    """Nobody asked for a concurrency: the rollout server's own capacity alone will decide."""


class Progress(msgspec.Struct, frozen=True):
    """Where the run stands. Counts include items kept from earlier invocations."""

    total: int
    done: int
    """Items that need not run (again); one that is to be retried is not done, though its record still counts."""
    succeeded: int
    failed: int
    skipped: int
    passed: int
    resumed: int
    in_flight: int
    tokens: int | None
    """Sum over finished items of this run; None while no provider has sent usage."""
    cost_usd: float | None
    elapsed_s: float
    """Since this invocation began to dispatch."""
    finished_here: int
    """Items finished by this invocation (for rates and the time left)."""
    retries: int = 0
    """Calls that the provider turned away for a while (429, 5xx) in this invocation."""
    waiting: int = 0
    """Rollouts in flight whose last call it turned away: they wait to ask again."""

    @property
    def scored(self) -> int:
        """Items that count in the pass rate: all recorded ones but skipped ones."""
        return self.succeeded + self.failed

    @property
    def pass_rate(self) -> float | None:
        """Share of scored items that passed; None before the first."""
        return self.passed / self.scored if self.scored else None


class FinishedItem(msgspec.Struct, frozen=True):
    """One item, after its record is on disk."""

    row_index: int
    run_index: int
    rollout_id: str
    status: ItemStatus
    reward: float | None
    passed: bool
    tokens: int | None
    max_context_tokens: int | None
    duration_ms: int
    source_row_index: int | None = None
    error_type: str | None = None
    error_message: str | None = None
    """Bounded and redacted."""


class Warned(msgspec.Struct, frozen=True):
    """Something the user should know and the run can live with."""

    code: str
    """UPPER_SNAKE, stable, for `--json` watchers."""
    text: str


class LogLine(msgspec.Struct, frozen=True):
    """One line of logs.txt as it is written (for `--verbose`)."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"]
    step: str
    message: str


class Observer(Protocol):
    """Watches one run."""

    def stage(self, text: str) -> None:
        """A stage begins: one short line in present tense, such as `checking model openai/x`."""
        ...

    def warned(self, warning: Warned) -> None:
        """A warning, said once per cause."""
        ...

    def started(self, progress: Progress) -> None:
        """Dispatch begins."""
        ...

    def item_finished(self, item: FinishedItem, progress: Progress) -> None:
        """An item's record is kept."""
        ...

    def moved(self, progress: Progress) -> None:
        """The number in flight changed and nothing else."""
        ...

    def logged(self, line: LogLine) -> None:
        """A line went into logs.txt."""
        ...


class Silent:
    """An `Observer` that watches nothing."""

    def stage(self, text: str) -> None:
        """Ignore a stage."""

    def warned(self, warning: Warned) -> None:
        """Ignore a warning."""

    def started(self, progress: Progress) -> None:
        """Ignore the start."""

    def item_finished(self, item: FinishedItem, progress: Progress) -> None:
        """Ignore an item."""

    def moved(self, progress: Progress) -> None:
        """Ignore a move."""

    def logged(self, line: LogLine) -> None:
        """Ignore a log line."""
