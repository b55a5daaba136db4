"""The environment a command sees: the process's variables, then those of one dotenv file, fixed once read.

Precedence: the process wins over the file. Nothing here touches `os.environ`; `main.py` hands it in once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from osmosis_cli import dotenv
from osmosis_cli.errors import CLIError, Code


class Environment(Mapping[str, str]):
    """Variables by name. A name that was read, or found absent, can no longer be given a value."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._read: set[str] = set()
        self._sealed = False

    def __getitem__(self, name: str) -> str:
        self._read.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        self._sealed = True
        return iter(self._values)

    def __len__(self) -> int:
        self._sealed = True
        return len(self._values)

    def __repr__(self) -> str:
        return f"Environment({len(self._values)} variables)"

    def supply(self, values: Mapping[str, str]) -> None:
        """Add the values whose names are not set yet; raises RuntimeError for a name that was already read."""
        fresh = {name: value for name, value in values.items() if name not in self._values}
        late = sorted(fresh.keys() & self._read)
        if late or (fresh and self._sealed):
            raise RuntimeError(f"environment changed after it was read: {', '.join(late or sorted(fresh))}")
        self._values |= fresh


def find_dotenv(start: Path) -> Path | None:
    """The nearest file `.env` in `start` or a folder above it."""
    candidates = (folder / ".env" for folder in (start, *start.parents))
    return next((path for path in candidates if _is_file(path)), None)


def read_dotenv(path: Path, *, what: str) -> dotenv.Dotenv:
    """The dotenv file at `path`; raises CLIError, naming `what`, when it cannot be read as UTF-8 text."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise CLIError(f"{what} {path} does not exist.", fix="Check the path.", code=Code.NOT_FOUND) from None
    except UnicodeDecodeError:
        raise CLIError(f"{what} {path} is not UTF-8 text.", fix="Save it as UTF-8.") from None
    except OSError as error:
        raise CLIError(f"{what} {path} cannot be read: {error.strerror or error}.") from None
    return dotenv.parse(text)


def malformed_lines(what: str, path: str, lines: tuple[int, ...]) -> CLIError:
    """The error for lines outside the grammar, told by number only: they may hold a secret."""
    numbers = ", ".join(map(str, lines))
    return CLIError(
        f"{what} {path}: line {numbers} is not NAME=value.",
        fix="Write one NAME=value a line; comments start with #, and a value cannot span lines.",
        details={"lines": lines},
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
