"""Writes `osmosis_bridge/provider_table.py` from the installed LiteLLM. Development only; never shipped.

LiteLLM is asked, not read: for every provider prefix it knows, `litellm.completion` is called with the HTTP layer
replaced by a recorder (no socket is opened), and what it would have sent decides.

A provider is **wire** when, for `PREFIX/model`, LiteLLM sends `POST {base}/chat/completions` with
`Authorization: Bearer KEY`, no header the provider must understand, and a JSON body whose `messages` are the
caller's, and then reads an OpenAI reply. Any other provider that LiteLLM can send a chat to is **native**: it needs
translation. Prefixes without chat (speech, search, images) are left out. The environment variables of a key or a base
URL are found the same way: every variable LiteLLM looks up is set, and those that reach the request are kept in order
of precedence.

    python scripts/refresh_providers.py            writes the table
    python scripts/refresh_providers.py --check    prints the difference and exits 1 when there is one
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import json
import logging
import os
import re
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import httpx

TABLE = Path(__file__).parent.parent / "bridge" / "osmosis_bridge" / "provider_table.py"
CHAT = "/chat/completions"
KEY = "key-of-the-probe"
BASE_PATH = "/base"
BASE = "https://probe.invalid" + BASE_PATH
NOTHING_SET: Mapping[str, str] = {}
MODEL = "vendor/model-1"
MESSAGES: list[dict[str, str]] = [{"role": "user", "content": "one two three"}]
ANSWER = "an answer in the shape of OpenAI"
REPLY: dict[str, object] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "model-1",
    "service_tier": "default",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}

# They sign in interactively when they are asked for their endpoint, so they are never asked.
SIGN_IN = ("chatgpt", "github_copilot")
# It speaks one of two dialects, by the host it is given: the probe cannot see that.
TWO_DIALECTS = ("azure_ai",)
# LiteLLM speaks Ollama's own dialect to it. Ollama serves the OpenAI dialect as well, below /v1, so the wire lane goes
# there: it keeps every field, which a translation would not.
OLLAMA = ("ollama", "ollama_chat")
OLLAMA_VARIABLES = (("OLLAMA_API_KEY",), ("OLLAMA_API_BASE",))
# The fallback of LiteLLM's OpenAI client, for whatever provider: naming it for another than OpenAI would send OpenAI's
# key elsewhere, or a provider's call to OpenAI.
OPENAI_ONLY = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY")
OPENAI_PREFIXES = ("openai", "custom_openai")
OPENAI_HOST = "api.openai.com"
PLAIN_HEADERS = re.compile(
    r"host|accept|accept-encoding|connection|user-agent|content-type|content-length|authorization|x-stainless-.*"
)
NAMES_OF_KEYS = re.compile(r"KEY|TOKEN|SECRET|BEARER|JWT|PAT$")
NAMES_OF_BASES = re.compile(r"BASE|URL|ENDPOINT|HOST")
NAMES_OF_PLACES = re.compile(r"REGION|ACCOUNT")

Row = tuple[str, str, tuple[str, ...], tuple[str, ...], str, str]


@dataclass(frozen=True, slots=True)
class Sent:
    """One HTTP request that LiteLLM would have made."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes

    def chat(self) -> dict[str, object] | None:
        """The body when this is an OpenAI chat request that carries our messages, else None."""
        path = urlsplit(self.url).path
        if self.method != "POST" or not path.endswith(CHAT):
            return None
        try:
            body = json.loads(self.body)
        except ValueError:
            return None
        return cast("dict[str, object]", body) if body.get("messages") == MESSAGES else None


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of one call of `litellm.completion`."""

    sent: tuple[Sent, ...]
    looked_up: tuple[str, ...]
    understood: bool
    refusal: str

    def chat(self) -> Sent | None:
        """The chat request, when nothing else was posted, its answer was understood and its headers are plain.

        A header that only says "this is LiteLLM" counts as plain.
        """
        posts = [sent for sent in self.sent if sent.method == "POST"]
        if len(posts) != 1 or not self.understood or posts[0].chat() is None:
            return None
        headers = posts[0].headers.items()
        odd = [
            name
            for name, text in headers
            if not PLAIN_HEADERS.fullmatch(name) and "litellm" not in text.lower()
        ]
        return None if odd else posts[0]


@dataclass(slots=True)
class Recorder:
    """Replaces the outside world: requests are answered here, lookups of variables are noted."""

    sent: list[Sent] = field(default_factory=list[Sent])
    looked_up: dict[str, None] = field(default_factory=dict[str, None])

    def install(self) -> None:
        """Take over httpx, sockets, sleeping and `os.environ` for the rest of this process."""

        def answer(_: object, request: httpx.Request) -> httpx.Response:
            headers = {name.lower(): value for name, value in request.headers.items()}
            self.sent.append(Sent(request.method, str(request.url), headers, request.read()))
            return httpx.Response(200, json=REPLY, request=request)

        def refuse(*_: object, **__: object) -> None:
            raise OSError("the probe opens no sockets")

        def go_on(_: float) -> None:
            """Whoever tries again after a while, as Google's sign-in does, is refused again."""

        replace(httpx.HTTPTransport, "handle_request", answer)
        replace(socket.socket, "connect", refuse)
        replace(socket.socket, "connect_ex", refuse)
        replace(socket, "getaddrinfo", refuse)
        replace(time, "sleep", go_on)
        self._watch_environment()

    def _watch_environment(self) -> None:
        kind = type(os.environ)
        read = cast("Callable[[object, str], str]", kind.__getitem__)

        def noted(environ: object, name: str) -> str:
            self.looked_up[str(name)] = None
            return read(environ, name)

        replace(kind, "__getitem__", noted)


def replace(owner: object, name: str, value: object) -> None:
    """Put another function in the place of one of a library's."""
    setattr(owner, name, value)


@dataclass(frozen=True, slots=True)
class LiteLLM:
    """The installed LiteLLM, behind the recorder. `models` holds a chat model it knows by name, by provider."""

    recorder: Recorder
    completion: Callable[..., object]
    prefixes: tuple[str, ...]
    models: Mapping[str, str]

    def ask(
        self, prefix: str, model: str = MODEL, environ: Mapping[str, str] = NOTHING_SET, **where: str
    ) -> Probe:
        """One call of `litellm.completion` in this environment; `where` is `api_key` and `api_base`."""
        self.recorder.sent.clear()
        self.recorder.looked_up.clear()
        kept = dict(os.environ)
        os.environ.update(environ)
        understood, refusal = False, ""
        try:
            reply = self.completion(model=f"{prefix}/{model}", messages=MESSAGES, timeout=5, **where)
            understood = ANSWER in str(reply) and type(reply).__name__ == "ModelResponse"
        except Exception as error:  # noqa: BLE001 - whatever a provider's code raises is an answer here
            refusal = type(error).__name__ + ": " + str(error)
        finally:
            os.environ.clear()
            os.environ.update(kept)
        looked_up = tuple(self.recorder.looked_up)
        return Probe(tuple(self.recorder.sent), looked_up, understood, refusal)


def load() -> LiteLLM:
    """Import LiteLLM without network, in an empty environment, and put the recorder around it."""
    os.environ.clear()
    os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", HOME="/nonexistent", PATH="/usr/bin")
    warnings.simplefilter("ignore")
    litellm = importlib.import_module("litellm")
    registry = importlib.import_module("litellm.llms.openai_like.json_loader").JSONProviderRegistry
    replace(litellm, "suppress_debug_info", True)
    logging.disable(logging.CRITICAL)
    listed = cast("Iterable[object]", litellm.provider_list)
    names = {str(getattr(entry, "value", entry)) for entry in listed}
    names |= set(cast("Iterable[str]", litellm.openai_compatible_providers))
    names |= set(cast("Iterable[str]", registry.list_providers()))
    prices = cast("Mapping[str, Mapping[str, object]]", litellm.model_cost)
    models = {
        str(entry.get("litellm_provider")): name.rpartition("/")[2]
        for name, entry in sorted(prices.items(), reverse=True)
        if entry.get("mode") == "chat"
    }
    recorder = Recorder()
    recorder.install()
    return LiteLLM(recorder, litellm.completion, tuple(sorted(names)), models)


def main(arguments: Sequence[str]) -> int:
    """Write the table, or compare it; the exit code."""
    text = render(load())
    if "--check" not in arguments:
        TABLE.write_text(text, encoding="utf-8")
        return 0
    kept = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    difference = list(difflib.unified_diff(kept, text.splitlines(), "the table", "litellm", lineterm=""))
    sys.stdout.writelines(line + "\n" for line in difference)
    return 1 if difference else 0


def render(litellm: LiteLLM) -> str:
    """The text of the module, one line per provider."""
    wire: list[str] = []
    native: list[str] = []
    for prefix in litellm.prefixes:
        if prefix in SIGN_IN:
            native.append(line_of((prefix, ())))
        elif prefix in OLLAMA:
            wire.append(line_of((prefix, "http://localhost:11434/v1", *OLLAMA_VARIABLES, "/v1", "")))
        else:
            default = litellm.ask(prefix, api_key=KEY)
            row = None if prefix in TWO_DIALECTS else ask_wire(litellm, prefix, default)
            if row is not None:
                wire.append(line_of(row))
            elif speaks_chat(default):
                native.append(line_of((prefix, native_keys(litellm, prefix))))
    version = importlib.metadata.version("litellm")
    return HEADER.format(version=version, wire="\n".join(wire), native="\n".join(native))


def line_of(row: tuple[object, ...]) -> str:
    """One line of the table."""
    return f"    {row!r},".replace("'", '"')


def ask_wire(litellm: LiteLLM, prefix: str, default: Probe) -> Row | None:
    """The provider's row, or None when it is not OpenAI JSON on the wire."""
    whom = (prefix, MODEL)
    if at_openai(default, prefix):
        whom = (prefix, litellm.models.get(prefix, MODEL))
        default = litellm.ask(*whom, api_key=KEY)
    chat = default.chat() or litellm.ask(*whom, api_key=KEY, api_base=BASE).chat()
    if chat is None or bearer_of(chat) != KEY:
        return None
    names = (*litellm.ask(*whom).looked_up, *default.looked_up)
    base = base_of(litellm, prefix, default, names)
    bases = steering(litellm, whom, pick(names, NAMES_OF_BASES, prefix), host_of, api_key=KEY)
    where = {} if base else {"api_base": BASE}
    keys = steering(litellm, whom, pick(names, NAMES_OF_KEYS, prefix), bearer_of, **where)
    given = (
        next((sent for sent in bases.values() if sent.chat()), None)
        or litellm.ask(*whom, api_key=KEY, api_base=BASE).chat()
    )
    suffix = urlsplit(given.url).path.removeprefix(BASE_PATH).removesuffix(CHAT) if given else ""
    model_prefix = str((chat.chat() or {}).get("model")).removesuffix(whom[1])
    return (prefix, base, tuple(keys), tuple(bases), suffix, model_prefix)


def at_openai(probe: Probe, prefix: str) -> bool:
    """Whether LiteLLM fell back to OpenAI's endpoint for another provider."""
    return prefix != "openai" and any(host_of(sent) == OPENAI_HOST for sent in probe.sent)


def base_of(litellm: LiteLLM, prefix: str, default: Probe, names: Iterable[str]) -> str:
    """The base URL LiteLLM uses by itself; none when it depends on a place (a region, an account)."""
    chat = default.chat()
    if chat is None or at_openai(default, prefix):
        return ""
    places = [name for name in dict.fromkeys(names) if NAMES_OF_PLACES.search(name)]
    elsewhere = [litellm.ask(prefix, MODEL, {name: "eu-west-1"}, api_key=KEY).chat() for name in places]
    if any(other is not None and other.url != chat.url for other in elsewhere):
        return ""
    return chat.url.removesuffix(CHAT)


def pick(names: Iterable[str], pattern: re.Pattern[str], prefix: str) -> list[str]:
    """The variables whose names say what they hold, without OpenAI's for other providers."""
    # That one is not a credential: whoever sets it has the TLS library write a file of that name.
    kept = [name for name in dict.fromkeys(names) if pattern.search(name) and name != "SSLKEYLOGFILE"]
    return [name for name in kept if name not in OPENAI_ONLY or prefix in OPENAI_PREFIXES]


def steering(
    litellm: LiteLLM, whom: tuple[str, str], names: Sequence[str], read: Callable[[Sent], str], **where: str
) -> dict[str, Sent]:
    """Those of the variables whose value `read` finds in a request, in order of precedence, with that request."""
    form = f"https://{{}}{BASE_PATH}" if read is host_of else "{}"
    left = {f"probe-{number}.invalid": name for number, name in enumerate(names)}
    found: dict[str, Sent] = {}
    while left:
        probe = litellm.ask(*whom, {name: form.format(value) for value, name in left.items()}, **where)
        winner = next((sent for sent in reversed(probe.sent) if read(sent) in left), None)
        if winner is None:
            break
        found[left.pop(read(winner))] = winner
    return found


def host_of(sent: Sent) -> str:
    """The host a request goes to."""
    return urlsplit(sent.url).hostname or ""


def bearer_of(sent: Sent) -> str:
    """The key of a request, where it is sent as OpenAI's is."""
    return sent.headers.get("authorization", "").removeprefix("Bearer ")


def credential_of(sent: Sent) -> str:
    """The probe's value that stands in any header, as a whole or after its scheme; not one part of a signature."""
    ends = [text.rpartition(" ")[2] for name, text in sent.headers.items() if not name.startswith("x-amz-")]
    return next((end for end in ends if re.fullmatch(r"probe-\d+\.invalid", end)), "")


def speaks_chat(default: Probe) -> bool:
    """Whether LiteLLM has a chat for this prefix at all."""
    return (
        "Unmapped LLM provider" not in default.refusal and "LLM Provider NOT provided" not in default.refusal
    )


def native_keys(litellm: LiteLLM, prefix: str) -> tuple[str, ...]:
    """The key variables of a provider with a dialect of its own; none where a key is not all it needs."""
    names = pick(litellm.ask(prefix).looked_up, NAMES_OF_KEYS, prefix)
    if found := steering(litellm, (prefix, MODEL), names, credential_of):
        return tuple(found)
    names = pick(litellm.ask(prefix, api_base=BASE).looked_up, NAMES_OF_KEYS, prefix)
    return tuple(steering(litellm, (prefix, MODEL), names, credential_of, api_base=BASE))


HEADER = '''"""The providers LiteLLM {version} knows. Generated by scripts/refresh_providers.py: do not edit.

It holds how each provider is reached and does nothing with it: `providers.py` reads it.
"""
# ruff: noqa: E501 - one provider is one line
# fmt: off

from __future__ import annotations

from typing import Final

LITELLM_VERSION: Final = "{version}"

# OpenAI JSON over HTTP. Columns: prefix, base URL (or ""), key variables, base variables (both in order of
# precedence), what is put behind a base that is given, what is put before the model's name.
WIRE: Final[tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], str, str], ...]] = (
{wire}
)

# A dialect of their own. Columns: prefix, key variables.
NATIVE: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
{native}
)
'''

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
