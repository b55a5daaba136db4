"""The route of a model path: every provider, every precedence, and every mistake before a call is made."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis_bridge.provider_table import NATIVE, WIRE
from osmosis_bridge.providers import OPENAI_ENDPOINTS, find_wire
from osmosis_bridge.routing import Route, RouteError, plan_route, read_base_url, read_key
from osmosis_bridge.upstream import Endpoint

SECRET = "sk-canary-3141592653589793"


def plan(model: str, environ: Mapping[str, str] | None = None, **settings: Any) -> Route:
    given = {"api_base": None, "api_key_env": None, "lane": "auto", **settings}
    return plan_route(model, environ=environ or {}, **given)


def refusal(model: str, environ: Mapping[str, str] | None = None, **settings: Any) -> RouteError:
    with pytest.raises(RouteError) as caught:
        plan(model, environ, **settings)
    assert str(caught.value) == caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


# --- providers of the catalogue


def test_openrouter_keeps_the_slashes_of_the_model() -> None:
    route = plan("openrouter/openai/gpt-4o-mini:free", {"OPENROUTER_API_KEY": "k"})
    assert route == Route(
        provider="openrouter",
        upstream_model="openai/gpt-4o-mini:free",
        base_url="https://openrouter.ai/api/v1",
        api_key="k",
        key_variable="OPENROUTER_API_KEY",
    )


def test_openrouters_own_models_keep_their_full_name() -> None:
    environ = {"OPENROUTER_API_KEY": "k"}
    assert plan("openrouter/auto", environ).upstream_model == "openrouter/auto"
    assert plan("openrouter/openrouter/auto", environ).upstream_model == "openrouter/auto"


@pytest.mark.parametrize("row", WIRE, ids=lambda row: row[0])
def test_every_wire_provider_has_a_route(row: tuple[Any, ...]) -> None:
    prefix, base_url, keys, bases, suffix, _ = row
    environ = {name: f"key-{number}" for number, name in enumerate(keys)}
    if base_url:
        route = plan(f"{prefix}/vendor/model", environ)
        assert (route.provider, route.base_url, route.private_endpoint) == (prefix, base_url, False)
        assert (route.api_key, route.key_variable) == (("key-0", keys[0]) if keys else (None, None))
        Endpoint.parse(base_url)
    else:
        assert refusal(f"{prefix}/vendor/model", environ).code == "api_base_missing"
    for name in bases:
        given = plan(f"{prefix}/m", {**environ, name: "http://10.0.0.7:9000/base/"})
        assert given.base_url == f"http://10.0.0.7:9000/base{suffix}"
        assert given.private_endpoint


@pytest.mark.parametrize(
    "row", [row for row in WIRE if row[2] and row[1].startswith("https")], ids=lambda row: row[0]
)
def test_a_hosted_provider_without_its_key_is_refused_and_the_variables_are_named(
    row: tuple[Any, ...],
) -> None:
    error = refusal(f"{row[0]}/m")
    assert error.code == "api_key_missing"
    assert all(name in error.message for name in row[2])
    assert "--api-key-env" in error.message


def test_openai_goes_to_openai_unless_a_base_is_given() -> None:
    environ = {"OPENAI_API_KEY": "k"}
    official = plan("openai/gpt-4o", environ)
    assert (official.base_url, official.private_endpoint) == ("https://api.openai.com/v1", False)
    by_variable = plan(
        "openai/x", {**environ, "OPENAI_BASE_URL": "http://h:1/v1", "OPENAI_API_BASE": "http://i"}
    )
    assert by_variable.base_url == "http://h:1/v1"
    assert plan("openai/x", {**environ, "OPENAI_API_BASE": "http://i"}).base_url == "http://i"
    by_flag = plan("openai/x", {"OPENAI_BASE_URL": "http://h:1/v1"}, api_base="http://127.0.0.1:9/v1")
    assert (by_flag.base_url, by_flag.api_key, by_flag.private_endpoint) == (
        "http://127.0.0.1:9/v1",
        None,
        True,
    )


def test_an_empty_base_variable_counts_as_not_set() -> None:
    route = plan("openai/x", {"OPENAI_BASE_URL": " ", "OPENAI_API_BASE": "", "OPENAI_API_KEY": "k"})
    assert route.base_url == "https://api.openai.com/v1"


def test_a_base_that_equals_the_catalogues_is_not_private() -> None:
    route = plan("openai/x", {"OPENAI_API_KEY": "k"}, api_base="https://api.openai.com/v1/")
    assert not route.private_endpoint


@pytest.mark.parametrize("prefix", ["ollama", "ollama_chat"])
@pytest.mark.parametrize(
    ("base", "expected"),
    [
        (None, "http://localhost:11434/v1"),
        ("http://gpu:11434", "http://gpu:11434/v1"),
        ("http://gpu:11434/", "http://gpu:11434/v1"),
        ("http://gpu:11434/v1", "http://gpu:11434/v1"),
        ("http://gpu:11434/v1/", "http://gpu:11434/v1"),
        ("http://gpu/v1/chat/completions", "http://gpu/v1"),
        ("http://gpu/x/chat/completions", "http://gpu/x"),
    ],
)
def test_ollama_is_reached_below_v1_and_needs_no_key(prefix: str, base: str | None, expected: str) -> None:
    route = plan(f"{prefix}/qwen3:0.6b", {} if base is None else {"OLLAMA_API_BASE": base})
    assert (route.base_url, route.upstream_model, route.api_key) == (expected, "qwen3:0.6b", None)
    assert route.private_endpoint == (base is not None)
    if base is not None:
        assert plan(f"{prefix}/m", api_base=base).base_url == expected


@pytest.mark.parametrize(
    "prefix", ["hosted_vllm", "lm_studio", "litellm_proxy", "xinference", "custom_openai"]
)
def test_a_server_of_ones_own_needs_an_address_and_no_key(prefix: str) -> None:
    error = refusal(f"{prefix}/m")
    assert error.code == "api_base_missing"
    assert "--api-base" in error.message
    route = plan(f"{prefix}/org/m", api_base="http://127.0.0.1:8000/v1")
    assert (route.provider, route.upstream_model, route.api_key) == (prefix, "org/m", None)


def test_every_provider_takes_its_base_from_a_variable_of_the_usual_form() -> None:
    assert plan("poe/m", {"POE_API_BASE": "http://h/v1"}).base_url == "http://h/v1"
    assert plan("nano-gpt/m", {"NANO_GPT_API_BASE": "http://h/v1"}).base_url == "http://h/v1"


def test_the_flag_wins_over_the_variable() -> None:
    route = plan("groq/m", {"GROQ_API_BASE": "http://a/v1", "GROQ_API_KEY": "k"}, api_base="http://b/v1")
    assert route.base_url == "http://b/v1"


def test_key_variables_are_tried_in_order() -> None:
    first, *others = find_wire("together_ai").key_variables  # type: ignore[union-attr]
    everything = {name: f"key-of-{name}" for name in [*reversed(others), first]}
    assert plan("together_ai/m", everything).key_variable == first
    assert plan("together_ai/m", {others[-1]: "k", first: "  "}).key_variable == others[-1]


def test_fireworks_models_get_their_full_name_once() -> None:
    environ = {"FIREWORKS_API_KEY": "k"}
    assert plan("fireworks_ai/m", environ).upstream_model == "accounts/fireworks/models/m"
    assert (
        plan("fireworks_ai/accounts/me/deployments/d", environ).upstream_model == "accounts/me/deployments/d"
    )
    assert plan("fireworks_ai/m#me/d", environ).upstream_model == "m#me/d"


# --- anything else with a base


@pytest.mark.parametrize("model", ["Qwen/Qwen3-8B", "gpt-4o", "a/b/c", "/m"])
def test_an_unknown_prefix_with_a_base_goes_there_whole(model: str) -> None:
    route = plan(model, {"OPENAI_API_KEY": SECRET}, api_base="http://127.0.0.1:8000/v1")
    assert (route.provider, route.upstream_model) == ("custom", model)
    # No variable is this server's usual one, so no key of another provider reaches it.
    assert (route.api_key, route.private_endpoint) == (None, True)


def test_an_unknown_prefix_without_a_base_names_the_nearest_and_the_remedy() -> None:
    error = refusal("opnrouter/a/b")
    assert error.code == "provider_unknown"
    assert "openrouter/a/b" in error.message
    assert "--api-base" in error.message
    assert "groq/m" in refusal("Groq/m").message
    assert "meta_llama/m" in refusal("meta-llama/m").message
    assert "did you mean" not in refusal("zzzzzz/m").message


def test_a_model_without_a_provider_is_told_how_to_write_it() -> None:
    error = refusal("gpt-4o")
    assert error.code == "provider_unknown"
    assert "openai/gpt-4o" in error.message


@pytest.mark.parametrize(
    "model", ["", "openai/", "local/", "anthropic/", "a b", "openai/a\nb", " openai/x", "a\x00b"]
)
def test_a_model_path_that_names_nothing_is_refused(model: str) -> None:
    assert refusal(model, api_base="http://h").code == "model_invalid"


# --- lanes


@pytest.mark.parametrize(("prefix", "variables"), NATIVE)
def test_a_native_provider_is_translated_for(prefix: str, variables: tuple[str, ...]) -> None:
    environ = {variables[0]: "k-1234567"} if variables else {}
    route = plan(f"{prefix}/m", environ)
    assert (route.lane, route.provider, route.upstream_model, route.base_url) == ("native", prefix, "m", None)
    assert route.api_key == ("k-1234567" if variables else None)
    assert refusal(f"{prefix}/m", lane="wire").code == "api_base_missing"


def test_a_native_provider_without_its_key_is_refused_before_any_call() -> None:
    error = refusal("anthropic/claude-x")
    assert error.code == "api_key_missing"
    assert "ANTHROPIC_API_KEY" in error.message


def test_a_native_provider_at_an_address_that_is_given_needs_no_key() -> None:
    route = plan("anthropic/claude-x", api_base="http://127.0.0.1:9/")
    assert (route.lane, route.base_url, route.private_endpoint) == ("native", "http://127.0.0.1:9", True)


def test_a_native_provider_on_the_wire_lane_goes_to_its_openai_endpoint() -> None:
    base = OPENAI_ENDPOINTS["anthropic"]
    route = plan("anthropic/claude-x", {"ANTHROPIC_API_KEY": "k"}, api_base=base, lane="wire")
    assert route == Route(
        provider="anthropic",
        upstream_model="claude-x",
        base_url="https://api.anthropic.com/v1",
        api_key="k",
        key_variable="ANTHROPIC_API_KEY",
    )
    assert plan("anthropic/c", api_base="http://h/v1", lane="wire").private_endpoint


def test_a_wire_provider_is_translated_for_when_that_is_asked_for() -> None:
    route = plan("openai/gpt-x", {"OPENAI_API_KEY": "k-1234567"}, lane="native")
    assert (route.lane, route.provider, route.upstream_model) == ("native", "openai", "gpt-x")


def test_the_native_lane_has_nothing_to_translate_for_a_local_model() -> None:
    assert refusal("local/smollm2-135m-instruct", lane="native").code == "native_lane_missing"


def test_the_native_lane_translates_only_for_providers_it_knows() -> None:
    error = refusal("antropic/x", lane="native", api_base="http://h")
    assert error.code == "provider_unknown"
    assert "anthropic" in error.message


def test_the_wire_lane_changes_nothing_for_a_wire_provider() -> None:
    environ = {"GROQ_API_KEY": "k"}
    assert plan("groq/m", environ, lane="wire") == plan("groq/m", environ)


# --- local models


def test_a_local_model_has_no_address_until_it_runs() -> None:
    assert plan("local/smollm2-135m-instruct") == Route(
        provider="local", upstream_model="smollm2-135m-instruct", local_model="smollm2-135m-instruct"
    )


@pytest.mark.parametrize("settings", [{"api_base": "http://h"}, {"api_key_env": "K"}])
def test_a_local_model_takes_no_endpoint_and_no_key(settings: dict[str, str]) -> None:
    error = refusal("local/smollm2-135m-instruct", None, **settings)
    assert error.code == "local_takes_no_endpoint"
    assert "--" + next(iter(settings)).replace("_", "-") in error.message


# --- keys


def test_the_named_variable_replaces_the_usual_one() -> None:
    route = plan("groq/m", {"MINE": "a", "GROQ_API_KEY": "b"}, api_key_env="MINE")
    assert (route.api_key, route.key_variable) == ("a", "MINE")
    assert plan("x/y", {"MINE": "a"}, api_base="http://h", api_key_env="MINE").api_key == "a"


@pytest.mark.parametrize("environ", [{}, {"MINE": ""}, {"MINE": " \n"}])
def test_a_named_variable_without_a_value_is_refused(environ: dict[str, str]) -> None:
    error = refusal("groq/m", {**environ, "GROQ_API_KEY": "b"}, api_key_env="MINE")
    assert error.code == "api_key_missing"
    assert "MINE" in error.message


@pytest.mark.parametrize("name", [SECRET, "gsk_abcdEFGH1234", "sk.a", "a b", ""])
def test_a_key_given_in_the_place_of_its_name_is_not_shown(name: str) -> None:
    error = refusal("groq/m", api_key_env=name)
    assert error.code == "api_key_missing"
    assert not name or name not in error.message
    assert "name of an environment variable" in error.message


@pytest.mark.parametrize("text", ["k", "k\n", "k\r\n", "  k\t"])
def test_white_space_around_a_key_is_not_part_of_it(text: str) -> None:
    assert read_key(text, "K") == "k"


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {SECRET}",
        f"{SECRET}\n{SECRET}",
        f"{SECRET}é",
        f"{SECRET}\x01",
        f'"{SECRET}"',
        f"{SECRET}\udcff",
    ],
)
def test_a_key_that_no_header_can_hold_is_refused_unseen(text: str) -> None:
    error = refusal("groq/m", {"GROQ_API_KEY": text})
    assert error.code == "api_key_invalid"
    assert "GROQ_API_KEY" in error.message
    assert SECRET not in error.message


def test_the_key_is_not_in_the_repr_of_a_route() -> None:
    assert SECRET not in repr(plan("groq/m", {"GROQ_API_KEY": SECRET}))


def test_a_route_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan("local/x").provider = "other"  # type: ignore[misc]


# --- base URLs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://h/v1", "http://h/v1"),
        ("http://h/v1///", "http://h/v1"),
        ("http://h", "http://h"),
        ("http://h/", "http://h"),
        (" https://H:8443/V1 ", "https://h:8443/V1"),
        ("HTTPS://h/v1", "https://h/v1"),
        ("http://h/p/chat/completions", "http://h/p"),
        ("http://h/p/chat/completions/", "http://h/p"),
        ("http://h/chat/completions", "http://h"),
        ("https://h/openai?api-version=2024-10-21", "https://h/openai?api-version=2024-10-21"),
        ("https://h/d/chat/completions?api-version=1", "https://h/d?api-version=1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://under_score:1/v1", "http://under_score:1/v1"),
    ],
)
def test_a_base_url_is_brought_into_one_form(text: str, expected: str) -> None:
    base_url, _ = read_base_url(text, "--api-base")
    assert base_url == expected
    assert read_base_url(base_url, "--api-base") == (expected, False)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("localhost:8000/v1", "'http://localhost:8000/v1'"),
        ("127.0.0.1:8000", "'http://127.0.0.1:8000'"),
        ("gpu:8000/v1", "'http://gpu:8000/v1'"),
        ("api.example.com/v1", "'https://api.example.com/v1'"),
        ("/v1", "http(s)://HOST"),
        ("ftp://h/v1", "'ftp'"),
        ("file:///etc/passwd", "'file'"),
        ("http:///v1", "host"),
        ("http://h:0/v1", "host"),
        ("http://h:99999/v1", "port"),
        ("http://h:x/v1", "port"),
        ("http://[::1/v1", "host"),
        ("http://[nope]/v1", "host"),
        ("http://-h/v1", "host"),
        ("http://a..b/v1", "host"),
        ("http://h/v1#x", "'#'"),
        ("http://h/a b", "space"),
        ("http://h/a\tb", "space"),
    ],
)
def test_a_base_url_that_cannot_be_used_is_refused_with_a_hint(text: str, hint: str) -> None:
    error = refusal("x/y", api_base=text)
    assert error.code == "api_base_invalid"
    assert "--api-base" in error.message
    assert hint in error.message


@pytest.mark.parametrize(
    "text",
    [
        f"http://user:{SECRET}@h/v1",
        f"http://{SECRET}@h/v1",
        f"user:{SECRET}@h/v1",
        f"h/v1?key={SECRET}",
        f"ftp://h/v1?key={SECRET}",
        f"http://h:x/v1?key={SECRET}",
    ],
)
def test_a_secret_in_a_refused_base_url_is_not_shown(text: str) -> None:
    error = refusal("x/y", api_base=text)
    assert error.code == "api_base_invalid"
    assert SECRET not in error.message


def test_a_bad_base_in_a_variable_names_the_variable() -> None:
    error = refusal("groq/m", {"GROQ_API_BASE": "localhost:1", "GROQ_API_KEY": "k"})
    assert "GROQ_API_BASE" in error.message


@given(st.text(st.sampled_from("htps:/@#?[]%.-_~ ahvé1290\n\x00"), max_size=40) | st.text(max_size=20))
def test_what_is_accepted_as_a_base_is_an_endpoint(text: str) -> None:
    for candidate in (text, f"http://{text}", f"https://h/{text}"):
        with contextlib.suppress(RouteError):
            Endpoint.parse(read_base_url(candidate, "--api-base")[0])


# --- OpenAI's Responses for every dialect


def test_a_model_path_that_says_responses_is_translated() -> None:
    route = plan("openai/responses/gpt-5.6", {"OPENAI_API_KEY": "k"})
    assert (route.lane, route.provider, route.upstream_model) == ("native", "openai", "responses/gpt-5.6")
    assert plan("openai/gpt-5.6", {"OPENAI_API_KEY": "k"}).lane == "wire"
    assert plan("openrouter/responses/m", {"OPENROUTER_API_KEY": "k"}).lane == "wire"


def test_a_model_path_that_says_responses_is_refused_on_the_wire_lane() -> None:
    error = refusal("openai/responses/gpt-5.6", {"OPENAI_API_KEY": "k"}, lane="wire")
    assert error.code == "native_lane_missing"
    assert "--lane wire" in error.message
