"""Tells a provider that is out from items that fail. Pure.

An item that failed because the provider failed it is held back. When the provider answers somebody for all that, what
is held may try again (and fails when it has tried often enough); when enough have failed in a row with no answer
between them, the provider is suspected, and what is held was never judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Held = TypeVar("Held")

SUSPICIOUS = 5
"""Provider failures in a row before the provider itself is asked."""


@dataclass(slots=True)
class Breaker(Generic[Held]):
    """Counts provider failures without a good end between them."""

    threshold: int = SUSPICIOUS
    held: list[Held] = field(default_factory=list[Held])

    def provider_failed(self, item: Held) -> bool:
        """Hold an item back; returns whether the provider is now suspected."""
        self.held.append(item)
        return len(self.held) >= self.threshold

    def release(self) -> list[Held]:
        """Take everything that is held."""
        held, self.held = self.held, []
        return held
