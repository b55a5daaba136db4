#!/usr/bin/env python3
"""Check the shape of the code: how long, how deep, how nested; knows syntax and nothing of meaning.

The limits are those of CONTRIBUTING.md. What ruff can count (complexity, parameters) is left to ruff. A module may go
beyond a limit only by standing in `ALLOWED` with its reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 60
NESTING = 3
LAZY_IMPORTS = frozenset({"litellm"})

ALLOWED: dict[tuple[str, str], str] = {}
"""(path, name of the function or "") that may go beyond a limit, and why."""

BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Complaint:
    """One place beyond a limit; `name` is the function's, or empty for the module."""

    path: str
    line: int
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def blocks_in(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """The statements right below a node, each with whether it goes one level down (an `elif` does not)."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and [child] == node.orelse
        yield child, isinstance(child, BLOCKS) and not is_elif


def nesting(node: ast.AST) -> int:
    """How many blocks deep a function's deepest statement stands; functions inside it are counted for themselves."""
    return max((nesting(child) + deeper for child, deeper in blocks_in(node)), default=0)


def lazy_imports(function: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines and names of imports inside a function that are not on the list of those that may stand there."""
    imports = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imports:
        names = (
            [node.module or "."] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        )
        yield from ((node.lineno, name) for name in names if name.split(".")[0] not in LAZY_IMPORTS)


def of_function(path: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Complaint]:
    """Complaints about one function."""
    name, line = function.name, function.lineno
    start = min([line, *(decorator.lineno for decorator in function.decorator_list)])
    lines = (function.end_lineno or line) - start + 1
    if lines > FUNCTION_LINES:
        yield Complaint(
            path, line, name, f"{name} has {lines} lines; {FUNCTION_LINES} is the most, 40 the aim"
        )
    if (depth := nesting(function)) > NESTING:
        yield Complaint(path, line, name, f"{name} nests {depth} blocks deep; {NESTING} is the most")
    for at, module in lazy_imports(function):
        yield Complaint(path, at, name, f"{name} imports {module!r}; imports stand at the top of the file")


def of_module(path: str, source: str) -> list[Complaint]:
    """Complaints about one module, in the order of its lines."""
    tree = ast.parse(source, filename=path)
    found: list[Complaint] = []
    if (lines := source.count("\n")) > MODULE_LINES:
        found.append(Complaint(path, 1, "", f"the module has {lines} lines; {MODULE_LINES} is the most"))
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            found += of_function(path, node)
        elif isinstance(node, ast.Global):
            found.append(
                Complaint(path, node.lineno, "", f"`global {', '.join(node.names)}`: pass the value instead")
            )
    return sorted(set(found), key=lambda complaint: (complaint.line, complaint.text))


def main(folders: list[str]) -> int:
    """Print every complaint about the Python files below the folders; 1 when there is one."""
    files = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    found = [
        complaint
        for path in files
        for complaint in of_module(path.as_posix(), path.read_text(encoding="utf-8"))
        if (complaint.path, complaint.name) not in ALLOWED
    ]
    for complaint in found:
        print(complaint)
    print(f"shape: {len(files)} modules, {len(found)} beyond a limit")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["bridge", "runner", "cli"]))
