"""The table of dialects: every one under its own name, and no two at one path."""

from __future__ import annotations

from osmosis_bridge.dialects.table import DIALECTS


def test_every_dialect_stands_under_its_name() -> None:
    assert list(DIALECTS) == ["chat", "responses", "messages", "completions", "embeddings"]
    assert all(dialect.name == name for name, dialect in DIALECTS.items())


def test_no_two_dialects_are_served_at_one_path() -> None:
    paths = [path for dialect in DIALECTS.values() for path in dialect.served_at]
    assert len(set(paths)) == len(paths)
    assert {dialect.path for dialect in DIALECTS.values()} == {
        "/chat/completions", "/responses", "/messages", "/completions", "/embeddings",
    }  # fmt: skip


def test_the_envelope_of_each_names_what_the_bridge_reads() -> None:
    assert {name: dialect.envelope.names for name, dialect in DIALECTS.items()} == {
        "chat": ("model", "messages", "stream", "stream_options"),
        "responses": ("model", "input", "stream"),
        "messages": ("model", "messages", "stream"),
        "completions": ("model", "prompt", "stream", "stream_options"),
        "embeddings": ("model", "input"),
    }
