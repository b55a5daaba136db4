"""Reads a page of prose for the files and symbols it names in backticks; imports nothing it reads about.

A heading that is a folder (`## bridge/osmosis_bridge`) is where the files below it are looked for first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HEADING = re.compile(r"^#+ +`?(?P<title>[^`\n]+?)`?\s*$")
_NAMED = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[\w.-]*[\w-]+(?:/[\w.-]+)*/?")
_ENDINGS = (".py", ".toml", ".md", ".json", ".jsonl", ".html", ".lock", "/")
_SYMBOL = re.compile(r"(?:osmosis_bridge|osmosis_runner|osmosis_cli)(?:\.\w+)+")


@dataclass(frozen=True, slots=True)
class Named:
    """Something a page names: its text, and the folder its heading stands for, if it is one."""

    text: str
    folder: str


def named(page: str) -> Iterator[Named]:
    """Everything in backticks outside of fenced blocks, with the folder of its heading."""
    folder, fenced = "", False
    for line in page.splitlines():
        fenced ^= line.startswith("```")
        if fenced:
            continue
        if heading := _HEADING.match(line):
            title = heading["title"].rstrip("/")
            folder = title if re.fullmatch(r"[\w./-]+", title) and "/" in title else ""
        yield from (Named(text, folder) for text in _NAMED.findall(line))


def files(page: str) -> list[Named]:
    """Those that look like files or folders: they end as files do, or in a slash."""
    return [name for name in named(page) if _FILE.fullmatch(name.text) and name.text.endswith(_ENDINGS)]


def symbols(page: str) -> list[str]:
    """Those that look like modules or what stands in them: `osmosis_bridge.bearers.rollout_bearer`."""
    return [name.text for name in named(page) if _SYMBOL.fullmatch(name.text)]


def place(name: Named, root: Path) -> Path | None:
    """Where a named file is, looked for in its heading's folder and then from the root; None when it is nowhere."""
    places = [root / name.folder / name.text, root / name.text]
    return next((path for path in places if path.exists()), None)


def defines(dotted: str, roots: list[Path]) -> bool:
    """Whether a dotted name is a module below one of the roots, or a name at the top of one (or of a class in one)."""
    parts = dotted.split(".")
    for taken in range(len(parts), 0, -1):
        for root in roots:
            stem = root.joinpath(*parts[:taken])
            source = next(
                (path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None
            )
            if source is not None:
                return _has(ast.parse(source.read_text(encoding="utf-8")), parts[taken:])
    return False


def _has(tree: ast.Module | ast.ClassDef, names: list[str]) -> bool:
    if not names:
        return True
    for node in tree.body:
        if names[0] not in _bound(node):
            continue
        return _has(node, names[1:]) if isinstance(node, ast.ClassDef) else len(names) == 1
    return False


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    return set()
