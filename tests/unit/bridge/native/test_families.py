"""Which dialect a model speaks, and the rules that hold for all of them."""

from __future__ import annotations

import pytest

from osmosis_bridge.native.families import family_of
from osmosis_bridge.native.families.anthropic import ANTHROPIC, VERTEX_CLAUDE
from osmosis_bridge.native.families.bedrock import CONVERSE
from osmosis_bridge.native.families.chat import CHAT, MISTRAL, OPENAI, OUTPUT_LIMIT_ONLY
from osmosis_bridge.native.families.cohere import COHERE
from osmosis_bridge.native.families.gemini import GEMINI
from osmosis_bridge.native.families.ollama import OLLAMA, OLLAMA_GENERATE
from osmosis_bridge.native.families.other import OTHER
from osmosis_bridge.native.rule import OPENAI_FIELDS, Asked, Family

ALL = (
    ANTHROPIC,
    VERTEX_CLAUDE,
    CONVERSE,
    CHAT,
    OPENAI,
    OUTPUT_LIMIT_ONLY,
    MISTRAL,
    COHERE,
    GEMINI,
    OLLAMA,
    OLLAMA_GENERATE,
    OTHER,
)


@pytest.mark.parametrize(
    ("provider", "model", "family"),
    [
        ("anthropic", "claude-x", ANTHROPIC),
        ("vertex_ai", "claude-x", VERTEX_CLAUDE),
        ("vertex_ai", "gemini-x", GEMINI),
        ("vertex_ai", "meta/llama", OTHER),
        ("bedrock", "amazon.nova", CONVERSE),
        ("bedrock", "invoke/anthropic.claude", OTHER),
        ("azure", "my-deployment", OPENAI),
        ("azure_ai", "claude-x", ANTHROPIC),
        ("azure_ai", "mistral", CHAT),
        ("ollama", "llama3", OLLAMA_GENERATE),
        ("watsonx", "x", OTHER),
    ],
)
def test_a_model_s_dialect_is_known_by_its_provider_and_name(
    provider: str, model: str, family: Family
) -> None:
    assert family_of(provider, model, speaks_openai=False) is family


def test_what_a_provider_with_openai_s_chat_speaks_besides_is_known_by_its_name() -> None:
    def speaks(provider: str) -> list[str]:
        return sorted(family_of(provider, "m", speaks_openai=True).speaks)

    assert speaks("newcomer") == speaks("openai") == speaks("azure") == ["/completions", "/embeddings"]
    assert speaks("groq") == speaks("deepseek") == []
    assert speaks("mistral") == ["/embeddings"]
    assert speaks("cerebras") == speaks("xai") == ["/completions"]


def test_an_unknown_provider_that_speaks_openai_s_is_relayed() -> None:
    assert family_of("newcomer", "m", speaks_openai=True) is CHAT


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_every_field_has_a_rule_for_any_value(family: Family) -> None:
    asked = Asked({"tools": [1]}, supported=OPENAI_FIELDS)
    for name in (*OPENAI_FIELDS, "x_new", "thinking", "top_k"):
        for value in (None, True, 0, 2.5, "text", [], ["a"], {}, {"type": "odd"}):
            rule = family.rule(name, value, asked)
            assert rule.act in ("place", "translate", "absent", "refuse")
            assert rule.why or rule.act in ("place", "translate")
            assert rule.at or rule.act in ("absent", "refuse")


@pytest.mark.parametrize(
    "family", [family for family in ALL if not family.relayed and family is not OTHER], ids=lambda f: f.name
)
def test_metadata_goes_to_claude_as_a_user_id_alone_and_nowhere_else(family: Family) -> None:
    claude = family in (ANTHROPIC, VERTEX_CLAUDE)
    assert family.rule("metadata", {"user_id": "u"}, Asked({})).act == ("place" if claude else "refuse")
    assert family.rule("metadata", {"team": "t"}, Asked({})).act == "refuse"
