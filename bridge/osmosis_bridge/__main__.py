"""`python -m osmosis_bridge`: the bridge's own commands, the same that `osmosis bridge` mounts.

The one place of this package that reads the process's environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from osmosis_bridge.config import BridgeConfig, ConfigError, default_of, parse
from osmosis_bridge.errors import BridgeError
from osmosis_bridge.local_model import LocalModelError
from osmosis_bridge.native_process import NativeLaneError
from osmosis_bridge.routing import RouteError
from osmosis_bridge.server import run_blocking


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def bridge() -> None:
    """The inference bridge: an OpenAI-compatible proxy that records every call."""


ENVIRON = "osmosis.environ"
"""Under this key of click's context a program around this one may leave the environment it has read."""

Option = Callable[[Callable[..., None]], Callable[..., None]]


def _text(flag: str, help_text: str, metavar: str) -> Option:
    return click.option(flag, default=None, metavar=metavar, help=_with_default(flag, help_text))


def _number(flag: str, help_text: str, kind: type[int | float]) -> Option:
    return click.option(flag, default=None, type=kind, help=_with_default(flag, help_text))


def _choice(flag: str, help_text: str, *choices: str) -> Option:
    return click.option(flag, default=None, type=click.Choice(choices), help=_with_default(flag, help_text))


def _switch(flag: str, help_text: str) -> Option:
    default = "on" if default_of(flag.lstrip("-").replace("-", "_")) else "off"
    off = f"--no-{flag.lstrip('-')}"
    return click.option(f"{flag}/{off}", default=None, help=f"{help_text} [default: {default}]")


def _with_default(flag: str, help_text: str) -> str:
    default = default_of(flag.lstrip("-").replace("-", "_"))
    if default in (None, (), 0.0):
        return help_text
    shown = f"{default:g}" if isinstance(default, int | float) else default
    return f"{help_text} [default: {shown}]"


OPTIONS: tuple[Option, ...] = (
    _text(
        "--model", "Model that answers every call, for example openrouter/openai/gpt-4o-mini.", "MODEL_PATH"
    ),
    _text(
        "--api-base",
        "Base URL of an OpenAI-compatible endpoint, for example http://127.0.0.1:8000/v1.",
        "URL",
    ),
    _text(
        "--api-key-env",
        "Environment variable that holds the provider's key, instead of its usual one.",
        "NAME",
    ),
    _choice("--lane", "How calls are sent: as JSON (wire) or translated (native).", "auto", "wire", "native"),
    _text("--host", "Address to serve on; any but loopback needs OSMOSIS_BRIDGE_TOKEN.", "ADDRESS"),
    _number("--port", "Port to serve on; 0 picks a free one.", int),
    _text("--ledger", "File that call records are appended to, one JSON line each.", "FILE"),
    click.option(
        "--config",
        "config_file",
        default=None,
        metavar="FILE",
        help="TOML file with the same keys, with underscores.",
    ),
    _text("--ready-file", "File written once the bridge answers: its url, pid and model.", "FILE"),
    _choice(
        "--controls", "What to do with fields that are the operator's, such as api_key.", "strip", "reject"
    ),
    _number("--max-body-mb", "Largest request body in MiB.", int),
    _number("--max-upstream-connections", "Most connections to the provider at once.", int),
    _number("--connect-timeout-s", "Seconds to reach the provider.", float),
    _number("--idle-timeout-s", "Seconds a provider may be silent; 0 waits for ever.", float),
    _number("--total-timeout-s", "Seconds a whole reply may take; 0 sets no limit.", float),
    _number("--slot-timeout-s", "Seconds a call may wait for a free connection.", float),
    _number(
        "--keepalive-s", "Seconds of silence on a stream after which a comment is sent; 0 sends none.", float
    ),
    _number(
        "--plain-keepalive-s",
        "Seconds after which a plain reply is begun with white space; 0 never does.",
        float,
    ),
    _number("--grace-s", "Seconds that calls may take to finish after SIGTERM.", float),
    click.option(
        "--allowed-host",
        "allowed_hosts",
        multiple=True,
        metavar="NAME",
        help="Further Host name to accept on loopback, for example a tunnel's; may be repeated.",
    ),
    _switch(
        "--keep-transcripts", "Keep in memory what each open rollout said last, for the run that asks for it."
    ),
    _switch("--client-retries", "Let clients send a call again that failed."),
    _choice("--log-format", "Log lines for people or as JSON.", "console", "json"),
)
"""The flags of `serve`, in the order of its help."""


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


@bridge.command()
@_with_options
def serve(config_file: str | None, **flags: object) -> None:
    """Serve an OpenAI-compatible endpoint for one model.

    Rollouts call it with model="osmosis-rollout"; any other name is an alias. Keys come from the environment only.
    Precedence: flag, then environment, then --config file, then default.
    """
    try:
        config = _config(config_file, flags)
        run_blocking(config)
    except (ConfigError, RouteError, LocalModelError, NativeLaneError, BridgeError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(
            f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
        ) from None


def _config(config_file: str | None, flags: dict[str, object]) -> BridgeConfig:
    text = None
    if config_file is not None:
        try:
            text = Path(config_file).read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read --config {config_file!r}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"cannot read --config {config_file!r}: it is not UTF-8 text") from None
    environ: Mapping[str, str] = click.get_current_context().meta.get(ENVIRON, os.environ)
    return parse(flags, text, config_file or "", environ)


if __name__ == "__main__":
    sys.exit(bridge())
