"""Providers that take OpenAI's fields: as they are, but for a few names."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.families.chat import CHAT, MISTRAL, OPENAI, OUTPUT_LIMIT_ONLY
from osmosis_bridge.native.rule import Asked


@pytest.mark.parametrize(
    ("model", "fields", "place"),
    [
        ("gpt-4o", {}, "max_tokens"),
        ("gpt-5-mini", {}, "max_completion_tokens"),
        ("o3", {}, "max_completion_tokens"),
        ("o3", {"max_completion_tokens": 7}, "max_tokens"),
        ("my-o3-like", {}, "max_tokens"),
    ],
)
def test_reasoning_models_of_openai_s_get_the_limit_under_its_new_name(
    model: str, fields: dict[str, int], place: str
) -> None:
    assert OPENAI.rule("max_tokens", 5, Asked(fields, model=model)).at == ((place,),)


def test_names_that_differ_are_the_provider_s() -> None:
    nothing = Asked({})
    assert MISTRAL.rule("seed", 7, nothing).at == (("random_seed",),)
    assert MISTRAL.rule("tool_choice", "required", nothing).value == "any"
    assert MISTRAL.rule("tool_choice", "auto", nothing).value == "auto"
    assert OUTPUT_LIMIT_ONLY.rule("max_completion_tokens", 7, nothing).at == (("max_tokens",),)
    assert CHAT.rule("max_completion_tokens", 7, nothing).at == (("max_completion_tokens",),)
