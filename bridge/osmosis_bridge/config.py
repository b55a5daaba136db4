"""What the operator wants of one bridge process: from flags, environment and file to one frozen value.

Precedence: flag > environment > file > default. Every mistake names its key and where it stands. Pure: the caller
gives the flags, the file's text and the environment.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal, cast

TOKEN_VARIABLE = "OSMOSIS_BRIDGE_TOKEN"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class ConfigError(Exception):
    """A setting that cannot be used; the message names its key and what would do."""


@dataclass(frozen=True, slots=True)
class BridgeConfig:
    """Settings of one bridge process; sizes and times carry their unit in the name.

    `token` is the run's bearer, None where calls need none (loopback only). `environ` is where provider keys are read
    from.
    """

    model: str
    api_base: str | None = None
    api_key_env: str | None = None
    lane: Literal["auto", "wire", "native"] = "auto"
    host: str = "127.0.0.1"
    port: int = 8400
    ledger: str | None = None
    ready_file: str | None = None
    controls: Literal["strip", "reject"] = "strip"
    max_body_mb: int = 64
    max_upstream_connections: int = 1000
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 600.0
    total_timeout_s: float = 0.0
    slot_timeout_s: float = 30.0
    keepalive_s: float = 15.0
    plain_keepalive_s: float = 0.0
    grace_s: float = 30.0
    allowed_hosts: tuple[str, ...] = ()
    keep_transcripts: bool = False
    client_retries: bool = True
    log_format: Literal["console", "json"] = "console"
    token: str | None = field(default=None, repr=False)
    environ: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the bridge."""
        return self.host in LOOPBACK


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "lane": ("auto", "wire", "native"),
    "controls": ("strip", "reject"),
    "log_format": ("console", "json"),
}
_NOT_IN_FILE = frozenset({"token", "environ"})
_WHOLE = frozenset({"port", "max_body_mb", "max_upstream_connections"})
_SWITCHES = frozenset({"keep_transcripts", "client_retries"})
_SECONDS = frozenset(f.name for f in fields(BridgeConfig) if f.name.endswith("_s"))
_ZERO_IS_OFF = frozenset({"total_timeout_s", "keepalive_s", "plain_keepalive_s", "grace_s", "idle_timeout_s"})
KEYS = tuple(f.name for f in fields(BridgeConfig) if f.name not in _NOT_IN_FILE)
"""Every key that a file may hold, each also a flag of `serve` with dashes for underscores."""


def parse(
    flags: Mapping[str, object], file_text: str | None, file_name: str, environ: Mapping[str, str]
) -> BridgeConfig:
    """One configuration from its three sources; a flag that is None was not given. Raises `ConfigError`."""
    values = _from_file(file_text, file_name) if file_text is not None else {}
    given = {name: value for name, value in flags.items() if value is not None and value != ()}
    values.update({name: _checked(name, value) for name, value in given.items()})
    if not values.get("model"):
        raise ConfigError(
            "no model: give --model MODEL_PATH, for example --model local/smollm2-135m-instruct"
        )
    token = read_token(environ)
    config = BridgeConfig(**values, token=token, environ=MappingProxyType(dict(environ)))  # pyright: ignore[reportArgumentType] - each value was checked against its key above
    if token is None and not config.on_loopback:
        raise ConfigError(
            f"refusing to serve on {config.host!r} without a bearer: set {TOKEN_VARIABLE}, or serve on 127.0.0.1"
        )
    return config


def read_token(environ: Mapping[str, str]) -> str | None:
    """The run's bearer, None where none is set; raises `ConfigError` for one that is short or cannot be sent."""
    token = environ.get(TOKEN_VARIABLE) or None
    if token is not None and (
        len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token
    ):
        raise ConfigError(f"{TOKEN_VARIABLE} must be at least 8 visible ASCII characters without a space")
    return token


def _from_file(text: str, name: str) -> dict[str, object]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: not TOML: {error}") from None
    for key in found:
        if key not in KEYS:
            near = get_close_matches(key, KEYS, 1, 0.5)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(KEYS)}"
            raise ConfigError(f"{name}: unknown key {key!r}{hint}")
    try:
        return {key: _checked(key, value) for key, value in found.items()}
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None


def _checked(name: str, value: object) -> object:
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            raise ConfigError(f"{name} must be one of {', '.join(_CHOICES[name])}; got {value!r}")
        return value
    if name in _WHOLE:
        return _whole_number(name, value)
    if name in _SECONDS:
        return _seconds(name, value)
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise ConfigError(f"{name} must be true or false; got {value!r}")
        return value
    if name == "allowed_hosts":
        hosts = list(cast("tuple[object, ...]", value)) if isinstance(value, list | tuple) else [value]
        if not all(isinstance(host, str) and host for host in hosts):
            raise ConfigError(f"{name} must be a list of host names; got {value!r}")
        return tuple(str(host).lower() for host in hosts)
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be text; got {value!r}")
    return value


def _whole_number(name: str, value: object) -> int:
    lowest, highest = (0, 65535) if name == "port" else (1, 1_000_000)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise ConfigError(f"{name} must be a whole number from {lowest} to {highest}; got {value!r}")
    return value


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e7:
        raise ConfigError(f"{name} must be a number of seconds; got {value!r}")
    if value == 0 and name not in _ZERO_IS_OFF:
        raise ConfigError(f"{name} must be more than 0 seconds")
    return float(value)


def default_of(name: str) -> object:
    """The default of a key, for help texts."""
    found = next(f.default for f in fields(BridgeConfig) if f.name == name)
    return None if found is MISSING else found
