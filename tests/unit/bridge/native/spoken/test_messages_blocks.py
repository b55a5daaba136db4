"""Content blocks of Anthropic Messages as parts of a chat message."""

from __future__ import annotations

from typing import Any

import pytest

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.spoken.messages_blocks import objects_of, say_part

CACHE = {"type": "ephemeral"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}


def said(block: dict[str, Any]) -> list[dict[str, Any]]:
    return [part.said for part in say_part(block, "p")]


def refusal(block: dict[str, Any]) -> str | None:
    with pytest.raises(Refused) as caught:
        say_part(block, "p")
    return caught.value.param


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        ({"type": "text", "text": "t"}, [{"type": "text", "text": "t"}]),
        (
            {"type": "text", "text": "t", "cache_control": CACHE, "citations": None},
            [{"type": "text", "text": "t", "cache_control": CACHE}],
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
            [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}],
        ),
        (
            {
                "type": "image",
                "source": {"type": "url", "url": "https://i.example/p"},
                "cache_control": CACHE,
            },
            [{"type": "image_url", "image_url": {"url": "https://i.example/p"}, "cache_control": CACHE}],
        ),
        (
            {
                "type": "document",
                "source": PDF,
                "title": "T",
                "context": "C",
                "citations": {"enabled": False},
            },
            [
                {"type": "text", "text": "T"},
                {"type": "text", "text": "C"},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUJD"}},
            ],
        ),
        (
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                "title": "T",
                "cache_control": CACHE,
            },
            [{"type": "text", "text": "T"}, {"type": "text", "text": "words", "cache_control": CACHE}],
        ),
        (
            {"type": "document", "source": {"type": "content", "content": "words"}},
            [{"type": "text", "text": "words"}],
        ),
        (
            {
                "type": "document",
                "cache_control": CACHE,
                "source": {"type": "content", "content": [{"type": "text", "text": t} for t in "ab"]},
            },
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": CACHE}],
        ),
    ],
)
def test_a_block_is_said(block: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    assert said(block) == parts


@pytest.mark.parametrize(
    ("block", "param"),
    [
        ({}, "p.type"),
        ({"type": 1}, "p.type"),
        ({"type": "search_result"}, "p.type"),
        ({"type": "server_tool_use"}, "p.type"),
        ({"type": "text"}, "p.text"),
        ({"type": "image"}, "p.source"),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "p.source"),
        ({"type": "image", "source": {"type": "base64", "data": "QUJD"}}, "p.source.media_type"),
        ({"type": "image", "source": {"type": "url", "url": "u", "detail": "low"}}, "p.source.detail"),
        ({"type": "document", "source": {"type": "url", "url": "u"}}, "p.source"),
        ({"type": "document", "source": PDF, "citations": {"enabled": True}}, "p.citations"),
        ({"type": "document", "source": PDF, "citations": "all"}, "p.citations"),
        ({"type": "document", "source": PDF | {"pages": 3}}, "p.source.pages"),
        ({"type": "document", "source": PDF, "title": 3}, "p.title"),
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/html", "data": "d"}},
            "p.source.media_type",
        ),
        ({"type": "document", "source": {"type": "content", "content": []}}, "p.source.content"),
        (
            {"type": "document", "source": {"type": "content", "content": [{"type": "odd"}]}},
            "p.source.content[0].type",
        ),
    ],
)
def test_what_has_no_equal_is_refused_by_its_place(block: dict[str, Any], param: str) -> None:
    assert refusal(block) == param


@pytest.mark.parametrize(("value", "param"), [(None, "p"), ({}, "p"), ([{}, 1], "p[1]")])
def test_blocks_are_a_list_of_objects(value: object, param: str) -> None:
    with pytest.raises(Refused) as caught:
        objects_of(value, "p")
    assert caught.value.param == param
