"""Options kept as a list, so that a command with many of them stays readable. It knows no option."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def with_options(options: Sequence[Callable[[Function], Function]]) -> Callable[[Function], Function]:
    """A decorator that gives a command all of `options`, listed in their order."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate
