"""The configuration: precedence, and a clear error for every mistake."""

from __future__ import annotations

import pytest

from osmosis_bridge.config import KEYS, BridgeConfig, ConfigError, default_of, parse

TOKEN = {"OSMOSIS_BRIDGE_TOKEN": "run-token-1"}


def config(
    flags: dict[str, object] | None = None, text: str | None = None, environ: dict[str, str] | None = None
):
    return parse({"model": "openai/x", **(flags or {})}, text, "bridge.toml", environ or {})


def complaint(
    flags: dict[str, object] | None = None, text: str | None = None, environ: dict[str, str] | None = None
):
    with pytest.raises(ConfigError) as caught:
        config(flags, text, environ)
    return str(caught.value)


def test_the_defaults_serve_loopback_without_a_bearer() -> None:
    found = config()
    assert (found.host, found.port, found.token, found.on_loopback) == ("127.0.0.1", 8400, None, True)
    assert (found.lane, found.controls, found.max_body_mb, found.log_format) == (
        "auto",
        "strip",
        64,
        "console",
    )


def test_nothing_is_kept_of_what_is_said_and_clients_may_ask_again_unless_told_otherwise() -> None:
    found = config()
    assert (found.keep_transcripts, found.client_retries) == (False, True)
    found = config({"client_retries": False}, "keep_transcripts = true")
    assert (found.keep_transcripts, found.client_retries) == (True, False)


def test_a_flag_wins_over_the_file_and_the_file_over_the_default() -> None:
    text = "port = 1000\ngrace_s = 5\ncontrols = 'reject'"
    found = config({"port": 2000, "grace_s": None}, text)
    assert (found.port, found.grace_s, found.controls) == (2000, 5.0, "reject")


def test_the_model_may_stand_in_the_file() -> None:
    assert parse({}, 'model = "openrouter/a/b"', "f", {}).model == "openrouter/a/b"


def test_an_empty_repeatable_flag_was_not_given() -> None:
    text = 'allowed_hosts = ["A.example"]'
    assert config({"allowed_hosts": ()}, text).allowed_hosts == ("a.example",)
    assert config({"allowed_hosts": ("B.example",)}, text).allowed_hosts == ("b.example",)


@pytest.mark.parametrize("flags", [{"model": None}, {"model": ""}])
def test_without_a_model_nothing_is_served(flags: dict[str, object]) -> None:
    assert "--model" in complaint(flags)


def test_the_bearer_comes_from_the_environment_and_is_in_no_repr() -> None:
    found = config(environ={**TOKEN, "OPENAI_API_KEY": "sk-1"})
    assert found.token == "run-token-1"
    assert "run-token-1" not in repr(found)
    assert "sk-1" not in repr(found)
    assert config(environ={"OSMOSIS_BRIDGE_TOKEN": ""}).token is None


def test_the_environment_is_a_copy_that_refuses_changes() -> None:
    environ = {"A": "1"}
    found = config(environ=environ)
    environ["A"] = "2"
    assert found.environ == {"A": "1"}
    with pytest.raises(TypeError):
        found.environ["A"] = "3"  # pyright: ignore[reportIndexIssue]
    with pytest.raises(AttributeError):
        found.port = 1  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "token", ["short", "has a space", "tab\tin token", "ünïcödé-token", "line\nbreak-token"]
)
def test_a_bearer_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    text = complaint(environ={"OSMOSIS_BRIDGE_TOKEN": token})
    assert "OSMOSIS_BRIDGE_TOKEN must be at least 8 visible ASCII characters" in text
    assert token not in text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "bridge.example"])
def test_any_address_but_loopback_needs_a_bearer(host: str) -> None:
    assert "OSMOSIS_BRIDGE_TOKEN" in complaint({"host": host})
    assert config({"host": host}, environ=TOKEN).on_loopback is False


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    assert config({"host": host}).on_loopback


def test_a_file_that_is_no_toml_is_named() -> None:
    assert complaint(text="port = ") == "bridge.toml: not TOML: Invalid value (at end of document)"


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    assert complaint(text="prot = 1") == "bridge.toml: unknown key 'prot'; did you mean 'port'?"
    assert "known keys: model, api_base" in complaint(text="zzzz = 1")


@pytest.mark.parametrize("key", ["token", "environ"])
def test_secrets_do_not_belong_into_the_file_and_are_not_shown(key: str) -> None:
    text = complaint(text=f'{key} = "the-secret-value"')
    assert f"unknown key {key!r}" in text
    assert "the-secret-value" not in text


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ({"port": -1}, "port must be a whole number from 0 to 65535; got -1"),
        ({"port": 65536}, "port must be"),
        ({"port": True}, "port must be"),
        ({"port": "8400"}, "port must be"),
        ({"port": 1.5}, "port must be"),
        ({"max_body_mb": 0}, "max_body_mb must be a whole number from 1 to 1000000; got 0"),
        ({"max_upstream_connections": 0}, "max_upstream_connections must be"),
        ({"grace_s": -1}, "grace_s must be a number of seconds; got -1"),
        ({"grace_s": "5"}, "grace_s must be"),
        ({"grace_s": True}, "grace_s must be"),
        ({"grace_s": float("nan")}, "grace_s must be"),
        ({"grace_s": float("inf")}, "grace_s must be"),
        ({"connect_timeout_s": 0}, "connect_timeout_s must be more than 0 seconds"),
        ({"slot_timeout_s": 0}, "slot_timeout_s must be more than 0 seconds"),
        ({"lane": "fast"}, "lane must be one of auto, wire, native; got 'fast'"),
        ({"controls": "keep"}, "controls must be one of strip, reject; got 'keep'"),
        ({"log_format": ["json"]}, "log_format must be one of console, json; got ['json']"),
        ({"keep_transcripts": 1}, "keep_transcripts must be true or false; got 1"),
        ({"client_retries": "no"}, "client_retries must be true or false; got 'no'"),
        ({"api_base": 7}, "api_base must be text; got 7"),
        ({"allowed_hosts": "a.example"}, None),
        ({"allowed_hosts": [7]}, "allowed_hosts must be a list of host names; got [7]"),
        ({"allowed_hosts": ("",)}, "allowed_hosts must be a list of host names"),
        ({"allowed_hosts": 7}, "allowed_hosts must be a list of host names; got 7"),
    ],
)  # fmt: skip
def test_every_value_is_checked_against_its_key(flags: dict[str, object], part: str | None) -> None:
    if part is None:
        assert config(flags).allowed_hosts == ("a.example",)
    else:
        assert complaint(flags).startswith(part)


@pytest.mark.parametrize(
    "name", ["idle_timeout_s", "total_timeout_s", "keepalive_s", "plain_keepalive_s", "grace_s"]
)
def test_zero_turns_these_off(name: str) -> None:
    assert getattr(config({name: 0}), name) == 0.0


def test_a_mistake_in_the_file_is_told_with_its_name() -> None:
    assert complaint(text="port = -1") == "bridge.toml: port must be a whole number from 0 to 65535; got -1"


def test_port_zero_is_a_free_port() -> None:
    assert config({"port": 0}).port == 0


def test_every_key_has_a_default_to_show_but_the_model() -> None:
    assert default_of("port") == 8400
    assert default_of("model") is None
    for key in KEYS:
        assert key == "model" or default_of(key) == getattr(BridgeConfig("m"), key)
