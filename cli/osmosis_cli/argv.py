"""Where the two format flags may stand: anywhere before a literal `--` (SPEC.md a.1).

Pure: arguments in, a format and the other arguments out.
"""

from __future__ import annotations

from collections.abc import Sequence

from osmosis_cli.output import Format

FLAGS = {"--json": Format.JSON, "--plain": Format.PLAIN}


def take_formats(arguments: Sequence[str]) -> tuple[list[Format], list[str]]:
    """The formats asked for, in order and without repeats, and the arguments that remain."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head, rest = arguments[:end], list(arguments[end:])
    formats = list(dict.fromkeys(FLAGS[word] for word in head if word in FLAGS))
    return formats, [word for word in head if word not in FLAGS] + rest
