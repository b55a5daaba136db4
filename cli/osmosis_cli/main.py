"""The group `osmosis`, its exit codes and the one place where errors become words.

The only file that reads `os.environ`. It knows the names of the commands and nothing of what they do.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NoReturn, TextIO

import click

from osmosis_bridge import __version__
from osmosis_cli.argv import take_formats
from osmosis_cli.environment import Environment, find_dotenv, malformed_lines, read_dotenv
from osmosis_cli.errors import CLIError, Code, Declined, Exit, Interrupted
from osmosis_cli.failures import environment_redactor, told, trace
from osmosis_cli.invocation import Invocation
from osmosis_cli.lazy import Deferred, LazyGroup
from osmosis_cli.output import Format
from osmosis_cli.render import Output

PROGRAM = "osmosis"


class RootCommands(LazyGroup):
    """The commands below `osmosis`; Ctrl-C in one of them is an error like others."""

    deferred: ClassVar = {
        "eval": Deferred(
            "osmosis_cli.eval:eval_group", "Evaluate an agent over a dataset, and look at the results."
        ),
        "dataset": Deferred("osmosis_cli.dataset:dataset_group", "Check a file of rows before it is used."),
        "bridge": Deferred(
            "osmosis_cli.bridge:bridge_group", "The OpenAI-compatible proxy that agents call."
        ),
        "doctor": Deferred("osmosis_cli.doctor:doctor", "Check that this machine has what runs need."),
    }

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; click would answer Ctrl-C with a line of its own."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


@click.group(
    cls=RootCommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--json", is_flag=True, expose_value=False, help="One JSON document on stdout and nothing else there."
)
@click.option(
    "--plain", is_flag=True, expose_value=False, help="Plain lines without colour or progress, for scripts."
)
@click.option(
    "--env-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Dotenv file to read; otherwise the nearest .env upward. Variables already set win. "
    "[env: OSMOSIS_ENV_FILE]",
)
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
@click.pass_context
def root(ctx: click.Context, env_file: Path | None) -> None:
    """Evaluate LLM agents over datasets, through a bridge that counts every model call.

    --json and --plain may stand anywhere before a literal --.
    """
    invocation: Invocation = ctx.obj
    _load_dotenv(invocation, env_file)
    # The bridge's own commands know no `Invocation`; this is where they find the environment with the dotenv in it.
    ctx.meta["osmosis.environ"] = invocation.environ


def _load_dotenv(invocation: Invocation, env_file: Path | None) -> None:
    named = env_file or Path(invocation.environ.get("OSMOSIS_ENV_FILE") or "")
    if named != Path():
        path = invocation.cwd / named.expanduser()
        found = read_dotenv(path, what="Environment file")
        if found.malformed:
            raise malformed_lines("Environment file", str(named), found.malformed)
    else:
        nearest = find_dotenv(invocation.cwd)
        if nearest is None:
            return
        path, found = nearest, read_dotenv(nearest, what="Environment file")
        if found.malformed:
            told = malformed_lines("Environment file", str(path), found.malformed)
            invocation.out.warn("DOTENV_LINE_IGNORED", f"{told.message} The line is ignored.")
    found.values.pop("OSMOSIS_ENV_FILE", None)
    invocation.environ.supply(found.values)


def run(arguments: Sequence[str], environ: Mapping[str, str], streams: tuple[TextIO, TextIO, TextIO]) -> int:
    """Run one command line and return its exit code; `streams` are stdin, stdout and stderr."""
    formats, rest = take_formats(arguments)
    out = Output(formats[0] if formats else Format.RICH, *streams, __version__)
    invocation = Invocation(out, Environment(environ), Path.cwd())
    try:
        if len(formats) > 1:
            raise CLIError("--json and --plain exclude each other.", fix="Give one.", exit_code=Exit.USAGE)
        code: object = root.main(rest, prog_name=PROGRAM, standalone_mode=False, obj=invocation)
        return code if isinstance(code, int) else Exit.OK
    except Declined as declined:
        out.note(declined.message)
        return declined.exit_code
    except BrokenPipeError:
        # Whoever read our output has left: there is nobody to tell.
        return Exit.ERROR
    except (KeyboardInterrupt, click.Abort):
        return _fail(invocation, Interrupted())
    # Whatever else comes up is shown as an error: no traceback reaches a user.
    except Exception as error:  # noqa: BLE001
        return _fail(invocation, error)


def _fail(invocation: Invocation, error: Exception) -> int:
    out, debug = invocation.out, invocation.environ.get("OSMOSIS_DEBUG") == "1"
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and out.format is not Format.JSON:
        out.note(error.format_message())
        return Exit.USAGE
    redactor, shown = environment_redactor(invocation.environ), told(error)
    shown.message = redactor.scrub_text(shown.message)
    try:
        out.fail(" ".join(invocation.reached), shown)
        if debug and shown.code is Code.INTERNAL:
            out.note(trace(error, redactor))
    except BrokenPipeError:
        return Exit.ERROR
    return shown.exit_code


def standard_streams() -> tuple[TextIO, TextIO, TextIO]:
    """stdin, stdout and stderr, fit to be used: one that was closed leads nowhere, and none fails at a character.

    The number of a closed one is taken, too, or the next file that is opened would get what is meant for it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - open until the process ends
            os.set_inheritable(nowhere.fileno(), True)
            setattr(sys, name, nowhere)
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return sys.stdin, sys.stdout, sys.stderr


def main() -> NoReturn:
    """The console script: run `sys.argv` and exit."""
    code = run(sys.argv[1:], os.environ, standard_streams())
    # A reader that has left would make the interpreter's last flush fail, after all is done, with a message of its own.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)
