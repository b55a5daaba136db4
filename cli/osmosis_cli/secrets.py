"""Values for the names in `[secrets] required` (SPEC.md b.4): a file, then the environment, then a hidden prompt.

Values are held in memory and handed on; nothing here stores or shows one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from osmosis_cli import dotenv
from osmosis_cli.environment import malformed_lines, read_dotenv
from osmosis_cli.errors import CLIError, Code
from osmosis_cli.render import Output

STDIN = "-"
WHAT = "Secrets file"


def read_secrets_file(given: str | None, out: Output, cwd: Path) -> dict[str, str]:
    """The values in the file `given`, or on stdin for `-`; raises CLIError for a line that is not NAME=value."""
    if given is None:
        return {}
    if given == STDIN:
        found = dotenv.parse(out.stdin.read())
    else:
        found = read_dotenv(cwd / Path(given).expanduser(), what=WHAT)
    if found.malformed:
        raise malformed_lines(WHAT, given, found.malformed)
    return found.values


def resolve(
    names: Iterable[str], from_file: Mapping[str, str], environ: Mapping[str, str], out: Output
) -> dict[str, str]:
    """A value for each name; raises INTERACTIVE_REQUIRED naming all that are missing when nobody can be asked."""
    wanted = tuple(names)
    values = {name: from_file.get(name) or environ.get(name) or "" for name in wanted}
    missing = [name for name in wanted if not values[name]]
    if missing and not out.interactive:
        raise _missing(missing)
    for name in missing:
        values[name] = out.ask_hidden(f"Value of {name}")
    empty = [name for name in wanted if not values[name]]
    if empty:
        raise _missing(empty)
    return values


def _missing(names: list[str]) -> CLIError:
    return CLIError(
        f"No value for the secrets {', '.join(names)}.",
        fix="Set them in the environment or in a file given with --secrets-file.",
        code=Code.INTERACTIVE_REQUIRED,
        details={"missing": names, "flags": ["--secrets-file"]},
    )
