"""Where the calls of one model path go: provider, endpoint, model name there, and key.

`plan_route` decides it once, at start, from the flags and the environment it is handed. Every mistake is found here,
before anything is sent. Knows the catalogue (`providers.py`); knows no socket, no process and no clock.

Precedence of a base URL: `--api-base`, the provider's variables, the catalogue. Of a key: the variable that
`--api-key-env` names, the provider's variables. A key goes nowhere but to the base URL chosen here.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

from osmosis_bridge.providers import (
    LOCAL_PREFIX,
    OPENAI_ENDPOINTS,
    NativeProvider,
    WireProvider,
    find_native,
    find_wire,
    nearest_prefixes,
)

Lane = Literal["auto", "wire", "native"]
CUSTOM: Final = "custom"

_MANY_WAYS_IN: Final = frozenset({"azure", "azure_ai", "azure_text", "databricks", "snowflake", "watsonx"})
"""Providers that also take credentials of other kinds than a key."""
_CHAT: Final = "/chat/completions"
_RESPONSES: Final = "responses/"
"""Before a model of OpenAI's: chat completions are said as Responses. LiteLLM spells it so."""
_FLAG: Final = "--api-base"
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?")


class RouteError(Exception):
    """A model path or a setting that leads nowhere; says what to do.

    Codes: `model_invalid`, `provider_unknown`, `native_lane_missing`, `api_base_missing`, `api_base_invalid`,
    `api_key_missing`, `api_key_invalid`, `local_takes_no_endpoint`.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where calls go.

    `upstream_model` is what is sent as `model`; `base_url` has no slash at its end and ends before
    `/chat/completions` (its query, if any, stays behind the path); it is None for a local model, until it runs, and on
    the native lane where the provider's own is meant.
    `private_endpoint` says that the base is the operator's, so that its host stays out of errors. `key_variable` is
    the name the key was found under, for messages.
    """

    provider: str
    upstream_model: str
    lane: Literal["wire", "native"] = "wire"
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    key_variable: str | None = None
    private_endpoint: bool = False
    local_model: str | None = None


@dataclass(frozen=True, slots=True)
class _Settings:
    """What the operator gave beside the model path."""

    api_base: str | None
    api_key_env: str | None
    environ: Mapping[str, str] = field(repr=False)


def plan_route(
    model_path: str,
    *,
    api_base: str | None,
    api_key_env: str | None,
    lane: Lane,
    environ: Mapping[str, str],
) -> Route:
    """The route of `PROVIDER/MODEL`.

    `local/NAME` is a model of this machine; a prefix of the catalogue is its provider; any other path needs
    `api_base`, and then goes there whole. Raises `RouteError`.
    """
    _check_model_path(model_path)
    settings = _Settings(api_base, api_key_env, environ)
    prefix, slash, model = model_path.partition("/")
    provider = _find_provider(prefix) if slash else None
    if provider is None:
        if lane == "native":
            raise _not_translated(model_path, prefix)
        return _custom_route(model_path, settings)
    if not model:
        raise RouteError(f"{model_path!r} names no model after {prefix + '/'!r}", "model_invalid")
    if isinstance(provider, str):
        return _local_route(model, settings, lane)
    said_otherwise = isinstance(provider, NativeProvider) or _goes_to_responses(provider, model)
    if lane == "native" or (lane == "auto" and said_otherwise):
        return _native_route(provider, model, settings)
    if _goes_to_responses(provider, model):
        raise RouteError(
            f"{model_path!r} says chat completions as Responses, which --lane wire does not; leave --lane out, or "
            f"{_RESPONSES!r} within the model path",
            "native_lane_missing",
        )
    if isinstance(provider, NativeProvider):
        return _forwarded_route(provider, model, settings)
    return _wire_route(provider, model, settings)


def _goes_to_responses(provider: WireProvider | NativeProvider, model: str) -> bool:
    """Whether the model path asks for OpenAI's Responses, whichever dialect a client speaks."""
    return provider.prefix == "openai" and model.startswith(_RESPONSES)


def _find_provider(prefix: str) -> WireProvider | NativeProvider | Literal["local"] | None:
    return LOCAL_PREFIX if prefix == LOCAL_PREFIX else find_wire(prefix) or find_native(prefix)


def _check_model_path(model_path: str) -> None:
    if not model_path:
        raise RouteError("the model path is empty; expected PROVIDER/MODEL", "model_invalid")
    if not model_path.isprintable() or any(character.isspace() for character in model_path):
        raise RouteError(
            f"the model path {model_path!r} holds a space or a control character; expected PROVIDER/MODEL",
            "model_invalid",
        )


def _not_translated(model_path: str, prefix: str) -> RouteError:
    near = ", ".join(nearest_prefixes(prefix)) or "anthropic, gemini, bedrock"
    return RouteError(
        f"--lane native: {model_path!r} begins with no provider that is translated for; near it: {near}",
        "provider_unknown",
    )


def _native_route(provider: WireProvider | NativeProvider, model: str, settings: _Settings) -> Route:
    """Translated by LiteLLM, which knows the provider's address unless one is given."""
    base_url = None if settings.api_base is None else read_base_url(settings.api_base, _FLAG)[0]
    key, variable = _find_key(provider.key_variables, settings)
    if key is None and base_url is None and provider.key_variables and provider.prefix not in _MANY_WAYS_IN:
        raise _no_key(provider)
    return Route(
        provider=provider.prefix,
        upstream_model=model,
        lane="native",
        base_url=base_url,
        api_key=key,
        key_variable=variable,
        private_endpoint=base_url is not None,
    )


def _local_route(name: str, settings: _Settings, lane: Lane) -> Route:
    if lane == "native":
        raise RouteError(
            f"{LOCAL_PREFIX}/{name} speaks OpenAI's JSON and needs no translation; leave --lane out",
            "native_lane_missing",
        )
    for flag, value in ((_FLAG, settings.api_base), ("--api-key-env", settings.api_key_env)):
        if value is not None:
            raise RouteError(
                f"{LOCAL_PREFIX}/{name} runs on this machine and needs no endpoint or key; leave {flag} out",
                "local_takes_no_endpoint",
            )
    return Route(provider=LOCAL_PREFIX, upstream_model=name, local_model=name)


def _wire_route(provider: WireProvider, model: str, settings: _Settings) -> Route:
    base_url = _given_base(provider, settings)
    private = base_url is not None and base_url != provider.base_url
    key, variable = _find_key(provider.key_variables, settings)
    if base_url is None:
        base_url = provider.base_url or _no_base(provider)
        if key is None and provider.hosted:
            raise _no_key(provider)
    return Route(
        provider=provider.prefix,
        upstream_model=_model_there(provider, model),
        base_url=base_url,
        api_key=key,
        key_variable=variable,
        private_endpoint=private,
    )


def _forwarded_route(provider: NativeProvider, model: str, settings: _Settings) -> Route:
    """A provider with a dialect of its own, at an endpoint of it that speaks OpenAI's (`--lane wire`)."""
    if settings.api_base is None:
        where = OPENAI_ENDPOINTS.get(provider.prefix, "URL")
        raise RouteError(
            f"with --lane wire, {provider.prefix!r} needs the address of an OpenAI-compatible endpoint: "
            f"--api-base {where}",
            "api_base_missing",
        )
    base_url, _ = read_base_url(settings.api_base, _FLAG)
    key, variable = _find_key(provider.key_variables, settings)
    return Route(
        provider=provider.prefix,
        upstream_model=model,
        base_url=base_url,
        api_key=key,
        key_variable=variable,
        private_endpoint=base_url != OPENAI_ENDPOINTS.get(provider.prefix),
    )


def _custom_route(model_path: str, settings: _Settings) -> Route:
    if settings.api_base is None:
        raise _unknown_provider(model_path)
    base_url, _ = read_base_url(settings.api_base, _FLAG)
    key, variable = _find_key((), settings)
    return Route(
        provider=CUSTOM,
        upstream_model=model_path,
        base_url=base_url,
        api_key=key,
        key_variable=variable,
        private_endpoint=True,
    )


def _unknown_provider(model_path: str) -> RouteError:
    prefix, slash, model = model_path.partition("/")
    if not slash:
        return RouteError(
            f"{model_path!r} names no provider; write PROVIDER/MODEL, for example openai/{model_path}, "
            f"or give the endpoint of an OpenAI-compatible server with {_FLAG} URL",
            "provider_unknown",
        )
    near = " or ".join(f"{name}/{model}" for name in nearest_prefixes(prefix))
    hint = f"did you mean {near}? Otherwise" if near else "to use it all the same,"
    return RouteError(
        f"unknown provider {prefix!r} in {model_path!r}; {hint} give the endpoint of an OpenAI-compatible server "
        f"with {_FLAG} URL",
        "provider_unknown",
    )


def _model_there(provider: WireProvider, model: str) -> str:
    if provider.prefix == "openrouter" and "/" not in model:
        # OpenRouter's own models are called openrouter/auto and the like; every other name has a slash.
        return f"openrouter/{model}"
    first = provider.model_prefix.partition("/")[0] + "/"
    if provider.model_prefix and not model.startswith(first) and "#" not in model:
        return provider.model_prefix + model
    return model


def _given_base(provider: WireProvider, settings: _Settings) -> str | None:
    """The base URL of the flag or of the provider's variables, with the provider's suffix; None without one."""
    text, source = settings.api_base, _FLAG
    if text is None:
        sources = (name for name in provider.base_variables if settings.environ.get(name, "").strip())
        source = next(sources, "")
        text = settings.environ.get(source)
    if text is None:
        return None
    base_url, ended_in_chat = read_base_url(text, source)
    split = urlsplit(base_url)
    if ended_in_chat or split.path.endswith(provider.base_suffix):
        return base_url
    return urlunsplit(split._replace(path=split.path + provider.base_suffix))


def _no_base(provider: WireProvider) -> str:
    where = OPENAI_ENDPOINTS.get(provider.prefix)
    example = f", for example {where}" if where else ""
    raise RouteError(
        f"{provider.prefix!r} has no fixed address: give {_FLAG} URL or set {provider.base_variables[0]}{example}",
        "api_base_missing",
    )


def _no_key(provider: WireProvider | NativeProvider) -> RouteError:
    names = " or ".join(provider.key_variables)
    wanted = (
        f"set {names}, or name another variable with --api-key-env"
        if names
        else "name its variable with --api-key-env"
    )
    return RouteError(f"no key for {provider.prefix!r}: {wanted}", "api_key_missing")


def _find_key(variables: tuple[str, ...], settings: _Settings) -> tuple[str | None, str | None]:
    """The key and the name of its variable; neither where no variable is set."""
    if settings.api_key_env is not None:
        return _named_key(settings.api_key_env, settings.environ), settings.api_key_env
    found = next((name for name in variables if settings.environ.get(name, "").strip()), None)
    return (None, None) if found is None else (read_key(settings.environ[found], found), found)


def _named_key(name: str, environ: Mapping[str, str]) -> str:
    # A key given in the place of its variable's name must not come back in a message.
    plain = _VARIABLE.fullmatch(name) is not None
    if not environ.get(name, "").strip():
        shown = f"{name} (from --api-key-env) is not set, or empty" if plain else "the variable is not set"
        raise RouteError(
            f"{shown}; --api-key-env takes the name of an environment variable that holds the key, not the key",
            "api_key_missing",
        )
    return read_key(environ[name], name if plain else "the variable of --api-key-env")


def read_key(text: str, source: str) -> str:
    """A key as it goes into a header: white space around it, such as the line end of a file, is not part of it.

    Raises `RouteError` for anything but visible ASCII, without showing it.
    """
    key = text.strip()
    if any(character.isspace() for character in key):
        wrong = "holds white space inside; expected the key alone, without 'Bearer' or other words"
    elif not key.isascii() or not key.isprintable():
        wrong = "holds characters that no key has (not visible ASCII)"
    elif key[0] in "'\"" or key[-1] in "'\"":
        wrong = "has quotation marks around it; remove them"
    else:
        return key
    raise RouteError(f"the key in {source} {wrong}", "api_key_invalid")


def read_base_url(text: str, source: str) -> tuple[str, bool]:
    """A base URL without a slash at its end, and whether it was given with `/chat/completions` behind it.

    Raises `RouteError`, naming `source`; user info and query, which may hold secrets, are not shown.
    """
    text = text.strip()
    if not text:
        raise _bad_base(source, "is empty; expected http(s)://HOST[:PORT]/PATH")
    if not text.isprintable() or " " in text:
        raise _bad_base(source, "holds a space or a control character")
    if "://" not in text:
        raise _bad_base(source, f"has no scheme; {_with_scheme(text)}")
    split = _split_url(text, source)
    path = split.path.rstrip("/")
    ended_in_chat = path.endswith(_CHAT)
    path = path.removesuffix(_CHAT).rstrip("/")
    return urlunsplit((split.scheme, split.netloc.lower(), path, split.query, "")), ended_in_chat


def _split_url(text: str, source: str) -> SplitResult:
    try:
        split = urlsplit(text)
        port, host = split.port, split.hostname or ""
    except ValueError:
        raise _bad_base(
            source, "has no readable host and port; expected http(s)://HOST[:PORT]/PATH"
        ) from None
    if split.scheme not in ("http", "https"):
        raise _bad_base(source, f"has the scheme {split.scheme!r}; expected http:// or https://")
    if "@" in split.netloc:
        raise _bad_base(source, "holds a user name or password; give the key with --api-key-env instead")
    if split.fragment:
        raise _bad_base(source, "has a '#' part, which is never sent; remove it")
    if port == 0 or not _is_host(host, bracketed="[" in split.netloc):
        raise _bad_base(source, "has no usable host; expected http(s)://HOST[:PORT]/PATH")
    return split


def _is_host(host: str, *, bracketed: bool) -> bool:
    try:
        if bracketed:
            return bool(ipaddress.IPv6Address(host))
        return _HOST.fullmatch(host.encode("idna").decode("ascii").lower()) is not None
    except (ValueError, UnicodeError):
        return False


def _with_scheme(text: str) -> str:
    """What the URL should probably have been; says nothing of one that may hold a secret."""
    host = re.split(r"[:/?#]", text, maxsplit=1)[0].lower()
    if "@" in text or "?" in text or not host:
        return "expected http(s)://HOST[:PORT]/PATH"
    near = host == "localhost" or "." not in host or re.fullmatch(r"[\d.]+", host) is not None
    return f"did you mean {('http://' if near else 'https://') + text!r}?"


def _bad_base(source: str, wrong: str) -> RouteError:
    return RouteError(f"the base URL of {source} {wrong}", "api_base_invalid")
