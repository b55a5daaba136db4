"""Looking into JSON values: at a path, for all words, for a node. Knows no dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

Json = Any
"""A JSON value; what it holds is somebody else's to say."""
Path = tuple[str, ...]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""Where there is nothing, not even null."""


class Conflict(Exception):
    """A value cannot be put where another one stands; `path` is where."""

    def __init__(self, path: Path) -> None:
        super().__init__(shown(path))
        self.path = path


def shown(path: Path) -> str:
    """A path as people write it: `generationConfig.topK`."""
    return ".".join(path)


def as_object(value: Json) -> dict[str, Json]:
    """`value` where it is an object, else an empty one."""
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}


def as_items(value: Json) -> list[Json]:
    """`value` where it is a list, else an empty one."""
    return cast("list[Json]", value) if isinstance(value, list) else []


def at(tree: Json, path: Path) -> Json:
    """What stands at `path`, `MISSING` where nothing does."""
    for name in path:
        tree = as_object(tree).get(name, MISSING)
    return tree


def spelled(tree: Mapping[str, Json], name: str) -> str:
    """`name` as `tree` has it, capitals and underscores aside: `maxTokens` and `max_tokens` are one name."""
    if name in tree:
        return name
    plain = _plain(name)
    return next((known for known in tree if _plain(known) == plain), name)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def put(
    tree: dict[str, Json], path: Path, value: Json, *, override: bool = False, alike: bool = False
) -> Path:
    """Put `value` at `path` of the object `tree`, in place; where it stands then.

    Objects are merged. Where another value stands already, it is replaced if `override`, else `Conflict` is raised.
    `alike` takes a name that is there in another spelling (`spelled`) for the same.
    """
    root, above, last = tree, [*path[:-1]], path[-1]
    for depth, name in enumerate(above):
        above[depth] = name = spelled(tree, name) if alike else name
        inner: Json = tree.setdefault(name, {})
        if not isinstance(inner, dict):
            raise Conflict((*above[: depth + 1],))
        tree = cast("dict[str, Json]", inner)
    last = spelled(tree, last) if alike else last
    path = (*above, last)
    found: Json = tree.get(last, MISSING)
    if isinstance(found, dict) and isinstance(value, dict):
        for name, inner in cast("dict[str, Json]", value).items():
            put(root, (*path, name), inner, override=override, alike=alike)
        return path
    if found is not MISSING and not override and not same(found, value):
        raise Conflict(path)
    tree[last] = value
    return path


def same(one: Json, other: Json) -> bool:
    """JSON equality: `1` and `true` differ, `1` and `1.0` do not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        first, second = cast("dict[str, Json]", one), cast("dict[str, Json]", other)
        return first.keys() == second.keys() and all(same(first[name], second[name]) for name in first)
    if isinstance(one, list) and isinstance(other, list):
        left, right = cast("list[Json]", one), cast("list[Json]", other)
        return len(left) == len(right) and all(map(same, left, right))
    return bool(one == other)


def nodes(tree: Json) -> Iterator[Json]:
    """`tree` and everything within it, outermost first."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, dict):
            pending.extend(cast("dict[str, Json]", node).values())
        elif isinstance(node, list):
            pending.extend(cast("list[Json]", node))


def objects(tree: Json) -> Iterator[dict[str, Json]]:
    """Every object within `tree`, itself included."""
    return (cast("dict[str, Json]", node) for node in nodes(tree) if isinstance(node, dict))


def strings(tree: Json) -> list[str]:
    """Every string value within `tree`; names are none."""
    return [node for node in nodes(tree) if isinstance(node, str)]


def words(tree: Json, without: frozenset[str] = frozenset()) -> set[str]:
    """Every name and every scalar within `tree`, in lower case; names of `without` and what is under them left out."""
    found: set[str] = set()
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            members = cast("dict[str, Json]", node)
            kept = [name for name in members if name not in without]
            found.update(name.lower() for name in kept)
            pending.extend(members[name] for name in kept)
        elif isinstance(node, list):
            pending.extend(cast("list[Json]", node))
        elif node is not None:
            found.add(str(node).lower())
    return found
