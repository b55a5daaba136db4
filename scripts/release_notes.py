#!/usr/bin/env python3
"""Gather changelog.d/ into CHANGELOG.md for a release: `scripts/release_notes.py VERSION DATE`.

Knows the names of the fragments and the marker in the changelog; knows nothing of versions' meaning or of git.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARKER = "<!-- releases, newest first -->\n"
KINDS = {"breaking": "Breaking", "change": "Changed", "fix": "Fixed"}
"""The kinds of fragments and their headings, in the order in which a release lists them."""

NAME = re.compile(r"(?P<issue>\d+)(?:-(?P<word>[a-z0-9-]+))?\.(?P<kind>breaking|change|fix)\.md")


def astray(folder: Path) -> list[str]:
    """Names in the folder that are neither fragments nor its README."""
    return sorted(
        path.name for path in folder.iterdir() if path.name != "README.md" and not NAME.fullmatch(path.name)
    )


def entry(issue: str, text: str) -> str:
    """One fragment as an item of a list, with its issue."""
    words = " ".join(text.split())
    return f"- {words} (#{issue})"


def section(version: str, date: str, fragments: dict[str, str]) -> str:
    """A release's part of the changelog, from fragments by file name; names must match `NAME`."""
    matches = sorted((match for name in fragments if (match := NAME.fullmatch(name))), key=_by_issue)
    parts = [f"## {version} ({date})\n"]
    for kind, heading in KINDS.items():
        entries = [entry(match["issue"], fragments[match[0]]) for match in matches if match["kind"] == kind]
        if entries:
            parts.append(f"### {heading}\n\n" + "\n".join(entries) + "\n")
    return "\n".join(parts)


def _by_issue(match: re.Match[str]) -> tuple[int, str]:
    return int(match["issue"]), match["word"] or ""


def release(root: Path, version: str, date: str) -> int:
    """Write the section of this release and remove its fragments; 1 when something stands in the way."""
    folder, changelog = root / "changelog.d", root / "CHANGELOG.md"
    if strangers := astray(folder):
        print(f"changelog.d: {', '.join(strangers)}: not named ISSUE.KIND.md, see its README")
        return 1
    fragments = {
        path.name: path.read_text(encoding="utf-8")
        for path in folder.glob("*.md")
        if path.name != "README.md"
    }
    text = changelog.read_text(encoding="utf-8")
    if not fragments or MARKER not in text:
        print(
            "changelog.d: nothing to release"
            if not fragments
            else f"CHANGELOG.md: the line {MARKER.strip()!r} is gone"
        )
        return 1
    changelog.write_text(
        text.replace(MARKER, f"{MARKER}\n{section(version, date, fragments)}", 1), encoding="utf-8"
    )
    for name in fragments:
        (folder / name).unlink()
    return 0


def main(arguments: list[str]) -> int:
    """Check the arguments, then release; 2 when they are wrong."""
    if len(arguments) != len(("version", "date")) or not re.fullmatch(r"\d{4}-\d\d-\d\d", arguments[1]):
        print("usage: scripts/release_notes.py VERSION YYYY-MM-DD", file=sys.stderr)
        return 2
    return release(ROOT, arguments[0], arguments[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
