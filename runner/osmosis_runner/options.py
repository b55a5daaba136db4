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
    limit: int | None = None
    """The first so many rows, instead of the config's `evaluation.limit`; `rows` goes before both."""
    max_in_flight: int | None = None
    fresh: bool = False
    retry_failed: bool = False
    retry_skipped: bool = False
    extend: bool = False
    """A run of that name may be given more attempts a row and more rows behind those it has."""
    max_retries: int = 2
    """How often an item runs again after faults that are not its own; 0: never, and clients of the bridge are told
    not to send a failed call again either."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Values of `[secrets] required` names, already resolved."""
    approve: Callable[[RunPlan], Mapping[str, str] | None] | None = None
    """Asked once when work is pending and before anything is spent or created. Returns the values of the
    secrets (then `secrets` is not used), or None to decline. May block: nothing else is running then."""
    api_base: str | None = None
    """Endpoint of the provider, instead of the one the model's prefix names."""
    api_key_env: str | None = None
    python: str | None = None
    """Interpreter of the rollout, a path or a version. Default: of a project what uv chooses among those that are
    installed, of any other rollout the one running this."""
    rollout_port: int | None = None
    rollout_command: tuple[str, ...] | None = None
    """Starts the rollout server, in the rollout's folder; goes before the command of its `rollout.toml`."""
    rollout_url: str | None = None
    """Where a rollout server already answers; then none is started."""
    skip_preflight: bool = False
    command: str | None = None
    """What was typed, ready to be typed again with a `--name`; default: the command and the run file alone."""
    pass_provider_key: bool = False
    """Give the rollout also that secret whose value is the key the bridge calls the model with."""
