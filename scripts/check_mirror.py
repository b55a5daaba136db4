#!/usr/bin/env python3
"""Check that unit tests mirror the sources, both ways; knows file names and nothing of what the files do.

A module `bridge/osmosis_bridge/dialects/chat.py` is tested by `tests/unit/bridge/test_chat.py`,
`tests/unit/bridge/test_dialects_chat.py` or `tests/unit/bridge/dialects/test_chat.py`, and by further files whose
names go on from there (`test_chat_tools.py`). Every test file under `tests/unit/bridge` belongs to such a module.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
ROOMS = {"bridge": "osmosis_bridge", "runner": "osmosis_runner", "cli": "osmosis_cli"}
# Folders under tests/unit that test the project itself and not a package of it.
HOUSE = frozenset({"house"})
# Modules with nothing of their own to decide: what they start is tested where it is used.
EXEMPT_NAMES = frozenset({"__main__.py"})
# Cases are tests themselves: tests/conformance runs every one of them.
EXEMPT_FOLDERS = ("bridge/osmosis_bridge/conformance/cases/",)


def decides_something(source: str) -> bool:
    """Whether a module holds a function with a body, rather than names, shapes of values and protocols only."""
    functions = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return any(not all(_says_nothing(statement) for statement in function.body) for function in functions)


def _says_nothing(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring, an ellipsis or `pass`."""
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)


def names_of(module: PurePosixPath) -> frozenset[str]:
    """The test file stems, with their folder, that may mirror a module given relative to its package."""
    parts = [*module.parent.parts, module.stem.strip("_")]
    if module.stem == "__init__":
        parts.pop()
    if not parts:
        return frozenset({"test_init"})
    folder = "/".join(parts[:-1])
    nested = f"{folder}/test_{parts[-1]}" if folder else f"test_{parts[-1]}"
    return frozenset({nested, f"test_{'_'.join(parts)}", f"test_{parts[-1]}"})


def mirrors(test_stem: str, names: frozenset[str]) -> bool:
    """Whether a test file (its folder and stem) is one of these names or goes on from one after an underscore."""
    return any(test_stem == name or test_stem.startswith(f"{name}_") for name in names)


def complaints(modules: dict[PurePosixPath, bool], tests: list[str], room: str) -> list[str]:
    """What does not match in one room: modules that need a test and have none, then tests without a module.

    `modules` says of each module, relative to its package, whether it needs a test.
    """
    names = {module: names_of(module) for module in modules}
    untested = [
        f"{room}/{ROOMS[room]}/{module}: no test file; write tests/unit/{room}/{min(names[module], key=len)}.py"
        for module, needed in modules.items()
        if needed and not any(mirrors(test, names[module]) for test in tests)
    ]
    orphans = [
        f"tests/unit/{room}/{test}.py: no module of {ROOMS[room]} goes by this name; rename it after what it tests"
        for test in tests
        if not any(mirrors(test, possible) for possible in names.values())
    ]
    return untested + orphans


def needs_a_test(path: Path, root: Path) -> bool:
    """Whether a module decides something that no other kind of test is there for."""
    exempt = path.name in EXEMPT_NAMES or path.relative_to(root).as_posix().startswith(EXEMPT_FOLDERS)
    return not exempt and decides_something(path.read_text(encoding="utf-8"))


def survey(root: Path, room: str) -> list[str]:
    """Complaints about one room of the project at `root`."""
    package, folder = root / room / ROOMS[room], root / "tests" / "unit" / room
    modules = {
        PurePosixPath(path.relative_to(package).as_posix()): needs_a_test(path, root)
        for path in sorted(package.rglob("*.py"))
    }
    tests = [
        path.relative_to(folder).with_suffix("").as_posix() for path in sorted(folder.rglob("test_*.py"))
    ]
    return complaints(modules, tests, room)


def main(root: Path) -> int:
    """Print every complaint; 1 when there is one."""
    found = [line for room in ROOMS for line in survey(root, room)]
    strangers = sorted(
        path.name
        for path in (root / "tests" / "unit").iterdir()
        if path.is_dir()
        and path.name not in ROOMS
        and path.name not in HOUSE
        and any(path.glob("**/test_*.py"))
    )
    found += [
        f"tests/unit/{name}: mirrors no package; its name is one of {', '.join(ROOMS)}" for name in strangers
    ]
    for line in found:
        print(line)
    print(
        f"mirror: {len(found)} missing or astray"
        if found
        else "mirror: every module has its tests, every test its module"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(ROOT))
