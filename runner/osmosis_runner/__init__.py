"""Runs dataset rows as rollouts through the bridge, and keeps what came of them."""

__version__ = "0.1.0"
