"""The catalogue of providers: what it finds, and how fast it is there."""

from __future__ import annotations

import pytest

from osmosis_bridge.provider_table import NATIVE, WIRE
from osmosis_bridge.providers import LOCAL_PREFIX, OPENAI_ENDPOINTS, find_native, find_wire, nearest_prefixes


def test_a_prefix_is_wire_or_native_and_stands_once() -> None:
    prefixes = [row[0] for row in (*WIRE, *NATIVE)]
    assert len(prefixes) == len(set(prefixes))
    assert LOCAL_PREFIX not in prefixes


def test_both_kinds_are_found_by_their_exact_prefix() -> None:
    groq = find_wire("groq")
    assert groq is not None
    assert (groq.base_url, groq.key_variables, groq.base_variables) == (
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        ("GROQ_API_BASE",),
    )
    anthropic = find_native("anthropic")
    assert anthropic is not None
    assert anthropic.key_variables[0] == "ANTHROPIC_API_KEY"
    assert find_wire("anthropic") is find_native("groq") is find_wire("Groq") is find_wire("") is None


@pytest.mark.parametrize(
    ("prefix", "hosted"),
    [("openai", True), ("groq", True), ("ollama", False), ("llamafile", False), ("hosted_vllm", False)],
)
def test_a_provider_is_hosted_when_its_own_address_is_on_the_internet(prefix: str, hosted: bool) -> None:
    provider = find_wire(prefix)
    assert provider is not None
    assert provider.hosted is hosted


def test_every_base_url_is_complete_and_every_variable_a_name() -> None:
    for prefix, base_url, keys, bases, suffix, model_prefix in WIRE:
        assert base_url == "" or base_url.startswith(
            ("https://", "http://localhost:", "http://127.0.0.1:")
        ), prefix
        assert not base_url.endswith("/"), prefix
        assert all(name.isidentifier() and name.isupper() for name in (*keys, *bases)), prefix
        assert suffix == "" or (suffix[0] == "/" and suffix[-1] != "/"), prefix
        assert model_prefix == "" or model_prefix.endswith("/"), prefix


def test_openais_key_and_base_are_only_for_openai() -> None:
    allowed = {"openai", "custom_openai"}
    for prefix, _, keys, bases, _, _ in WIRE:
        named = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"} & {*keys, *bases}
        assert prefix in allowed or not named, prefix


def test_every_endpoint_in_a_hint_belongs_to_a_prefix_that_needs_one() -> None:
    needing = {row[0] for row in WIRE if not row[1]} | {row[0] for row in NATIVE}
    assert set(OPENAI_ENDPOINTS) <= needing


def test_the_nearest_prefixes_come_best_first() -> None:
    assert nearest_prefixes("openruter")[0] == "openrouter"
    assert nearest_prefixes("OPENAI") == ["openai"]
    assert nearest_prefixes("lokal")[0] == "local"
    assert nearest_prefixes("grok")[0] == "groq"
    assert nearest_prefixes("anthropc")[0] == "anthropic"


@pytest.mark.parametrize("prefix", ["qqqqqqqq", "nope", "mycompany", "x"])
def test_a_prefix_like_no_other_is_near_none(prefix: str) -> None:
    assert nearest_prefixes(prefix) == []
