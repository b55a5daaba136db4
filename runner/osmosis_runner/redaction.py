"""Which values of a run must appear nowhere, and the redactor that sees to it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from osmosis_bridge.redact import REDACTED, Redactor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHORTEST_AMBIENT = 8

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL")
_BEARER = re.compile(r"\borb-[A-Za-z0-9._-]{16,}")


class RunRedactor(Redactor):
    """Knows the secrets of one run, and the shape of the bearers it hands to rollouts."""

    def line(self, text: str) -> str:
        """A line of a log with secrets taken out and nothing else changed."""
        return _BEARER.sub(REDACTED, self.scrub_text(text))


def run_redactor(environ: Mapping[str, str], secrets: Iterable[str]) -> RunRedactor:
    """A redactor for given secrets and for what the environment holds under names that sound like secrets."""
    ambient = [
        value
        for name, value in environ.items()
        if len(value) >= SHORTEST_AMBIENT and _SECRET_NAME.search(name.upper())
    ]
    return RunRedactor([*secrets, *ambient])
