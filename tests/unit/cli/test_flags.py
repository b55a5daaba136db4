"""Flags of `osmosis eval run`, checked before anything happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from osmosis_cli.flags import RUN_OPTIONS, RunFlags, check_together, repeated
from osmosis_cli.option_lists import with_options


def flags_of(*arguments: str) -> RunFlags:
    """The flags that click makes of what was typed."""

    @click.command()
    @with_options(RUN_OPTIONS)
    def command(**flags: Any) -> Any:
        return flags

    return command.main(["c.toml", *arguments], standalone_mode=False)


def test_every_flag_of_the_type_is_an_option_and_the_other_way_round() -> None:
    assert set(flags_of()) == set(RunFlags.__annotations__)


@pytest.mark.parametrize(
    ("typed", "rate"), [("0.8", 0.8), ("80%", 0.8), ("0", 0.0), ("1", 1.0), ("100%", 1.0)]
)
def test_a_rate_is_a_share_or_a_percentage(typed: str, rate: float) -> None:
    assert flags_of("--fail-under", typed)["fail_under"] == pytest.approx(rate)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--fail-under", "80"),
        ("--fail-under", "nan"),
        ("--fail-under", "-0.1"),
        ("--fail-under", "101%"),
        ("--fail-under", "%"),
        ("--rows", "5-3"),
        ("--rows", ""),
        ("--rows", "a"),
        ("--max-in-flight", "0"),
        ("--rollout-port", "65536"),
        ("--fail-on", "skipped"),
        ("--max-retries", "-1"),
        ("--api-base", "htp://127.0.0.1:8000/v1"),
        ("--api-base", "127.0.0.1:8000/v1"),
        ("--api-base", "http://"),
        ("--api-base", ""),
    ],
)
def test_a_value_outside_its_grammar_is_a_usage_error(arguments: tuple[str, str]) -> None:
    with pytest.raises(click.UsageError) as caught:
        flags_of(*arguments)
    assert arguments[0] in caught.value.format_message()


def test_an_address_without_a_scheme_is_told_with_one_and_a_password_is_not_shown() -> None:
    with pytest.raises(click.UsageError, match="did you mean 'http://localhost:1/v1'") as caught:
        flags_of("--api-base", "localhost:1/v1")
    assert caught.value.format_message().startswith("Invalid value for '--api-base': has no scheme")
    with pytest.raises(click.UsageError) as caught:
        flags_of("--api-base", "http://me:canary@host/v1")
    assert "canary" not in caught.value.format_message()
    assert flags_of("--api-base", "http://localhost:1/v1")["api_base"] == "http://localhost:1/v1"


def test_a_row_selector_loses_its_outer_blanks() -> None:
    assert flags_of("--rows", " 0-3,7 ")["rows"] == "0-3,7"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--fresh", "--retry-failed", "--name", "a"), "--fresh starts anew"),
        (("--retry-skipped",), "--retry-skipped needs --name"),
        (("--extend",), "--extend needs --name"),
        (("--fresh", "--extend", "--name", "a"), "--fresh starts anew"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        check_together(flags_of(*arguments))


def test_flags_that_go_together_are_accepted() -> None:
    check_together(flags_of("--retry-failed", "--retry-skipped", "--name", "a"))
    check_together(flags_of("--fresh"))


def test_retries_are_repeated_when_they_are_not_the_usual_number() -> None:
    assert flags_of()["max_retries"] == 2
    assert repeated(flags_of("--max-retries", "2")) == ()
    assert repeated(flags_of("--max-retries", "0")) == ("--max-retries", "0")


def test_a_command_to_type_next_repeats_what_says_which_run_it_is() -> None:
    flags = flags_of("-o", "out", "--rows", "0-3", "--yes", "--fresh", "--dataset-file", "my data.jsonl")
    assert repeated(flags) == ("--dataset-file", "my data.jsonl", "--rows", "0-3", "--output", "out")
    assert flags["output"] == Path("out")


def test_a_command_to_type_next_repeats_what_is_demanded_and_how_the_model_is_reached() -> None:
    flags = flags_of(
        "--fail-under", "80%", "--fail-on", "failed", "--skip-preflight", "--api-key-env", "MY_KEY"
    )
    assert repeated(flags) == (
        "--api-key-env", "MY_KEY", "--fail-under", "0.8", "--fail-on", "failed", "--skip-preflight",
    )  # fmt: skip


def test_that_the_rollout_may_see_the_key_is_repeated() -> None:
    assert repeated(flags_of("--pass-provider-key", "--rows", "0")) == ("--rows", "0", "--pass-provider-key")


def test_a_limit_counts_from_one_and_excludes_rows() -> None:
    flags = flags_of("--limit", "3")
    check_together(flags)
    assert repeated(flags) == ("--limit", "3")
    with pytest.raises(click.UsageError):
        flags_of("--limit", "0")
    with pytest.raises(click.UsageError, match="--rows and --limit"):
        check_together(flags_of("--limit", "3", "--rows", "0"))


def test_credentials_in_a_url_are_not_repeated() -> None:
    shown = repeated(flags_of("--api-base", "https://host/v1?key=canary"))
    assert "canary" not in " ".join(shown)
    assert shown[0] == "--api-base"
    assert shown[1].startswith("https://host/v1")


def test_a_command_is_taken_as_its_words() -> None:
    flags = flags_of("--rollout-command", "node 'my host.js' --x=1")
    assert flags["rollout_command"] == ("node", "my host.js", "--x=1")
    assert repeated(flags) == ("--rollout-command", "node 'my host.js' --x=1")


@pytest.mark.parametrize("text", ["", "  ", "node 'my"])
def test_a_command_without_a_program_or_with_half_a_quote_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        flags_of("--rollout-command", text)
    assert "--rollout-command" in caught.value.format_message()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rollout-url", "http://127.0.0.1:1", "--rollout-command", "node x.js"),
        ("--rollout-url", "http://127.0.0.1:1", "--rollout-port", "81"),
        ("--rollout-url", "http://127.0.0.1:1", "--python", "3.12"),
        ("--rollout-command", "node x.js", "--python", "3.12"),
    ],
)
def test_ways_to_start_a_server_exclude_each_other(arguments: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError) as caught:
        check_together(flags_of(*arguments))
    assert arguments[0] in caught.value.message
    assert arguments[2] in caught.value.message
