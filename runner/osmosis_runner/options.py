"""What the user asks of a run, as one value. Knows nothing of how it is carried out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from osmosis_runner.events import RunPlan


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asked for. Paths may be relative to the current folder; `environ` is read, never changed."""

    config_path: Path
    workspace: Path
    environ: Mapping[str, str] = field(repr=False)
    """The process environment: the only place credentials of the provider are taken from."""
    output_root: Path | None = None
    """Default `<workspace>/.osmosis/evals`."""
    name: str | None = None
    dataset_file: Path | None = None
    rows: str | None = None
    max_in_flight: int | None = None
    fresh: bool = False
    retry_failed: bool = False
    retry_skipped: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Values of `[secrets] required` names, already resolved."""
    approve: Callable[[RunPlan], Mapping[str, str] | None] | None = None
    """Asked once when work is pending and before anything is spent or created. Returns the values of the
    secrets (then `secrets` is not used), or None to decline. May block: nothing else is running then."""
    api_base: str | None = None
    """Endpoint of the provider, instead of the one the model's prefix names."""
    api_key_env: str | None = None
    python: str | None = None
    """Interpreter for rollouts without an environment of their own; default: the one running this."""
    rollout_port: int | None = None
    skip_preflight: bool = False
