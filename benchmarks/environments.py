"""Where the peers are installed: each in a folder of its own under `benchmarks/.peers`, once, from the package index.

A peer that cannot be installed is left out with a note. Interpreters are found on the machine, never downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PEERS = Path(__file__).resolve().parent / ".peers"
INSTALL_S = 900.0
CHECK_S = 60.0


class Unusable(Exception):
    """A peer that is not there, cannot be installed, or does not start; the message says why."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a peer is installed from: PyPI requirements, the first of which is the peer itself."""

    folder: str
    packages: tuple[str, ...]
    package: str

    @property
    def home(self) -> Path:
        """Its environment."""
        return PEERS / self.folder

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.home / "bin" / "python"

    @property
    def is_installed(self) -> bool:
        """Whether just this has been installed."""
        with suppress(OSError):
            return (self.home / ".ready").read_text(encoding="utf-8").split() == list(self.packages)
        return False


@dataclass(frozen=True, slots=True)
class Installer:
    """Installs peers; `may_install` false takes those that are there."""

    may_install: bool
    python: str | None
    tell: Callable[[str], None]

    def environment(self, requirement: Requirement) -> Path:
        """The interpreter of a peer's environment. Raises `Unusable`."""
        if requirement.is_installed:
            return requirement.python
        if not self.may_install:
            raise Unusable("not installed; `make bench-full`, or --peers, installs it")
        uv = find_uv()
        self.tell(f"installing {requirement.packages[0]} into benchmarks/.peers/{requirement.folder}")
        python = self.python or newest_python(uv)
        install_step([uv, "venv", "--quiet", "--clear", "--python", python, str(requirement.home)])
        wanted = ["--python", str(requirement.python), *requirement.packages]
        install_step([uv, "pip", "install", "--quiet", "--compile-bytecode", *wanted])
        (requirement.home / ".ready").write_text("\n".join(requirement.packages), encoding="utf-8")
        return requirement.python

    def nginx(self) -> str:
        """Debian's nginx: the one on the machine, else its package unpacked into our folder. Raises `Unusable`."""
        home = PEERS / "nginx"
        unpacked = home / "usr" / "sbin" / "nginx"
        found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if found or unpacked.exists():
            return found or str(unpacked)
        if not self.may_install:
            raise Unusable("not installed; `apt-get install nginx`, or `make bench-full`, puts it there")
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise Unusable("not installed, and this is no Debian: install nginx")
        home.mkdir(parents=True, exist_ok=True)
        self.tell("unpacking Debian's nginx into benchmarks/.peers/nginx (no service is installed)")
        install_step(["apt-get", "download", "nginx"], home)
        packages = sorted(home.glob("nginx_*.deb"))
        if not packages:
            raise Unusable("apt-get download brought no nginx package")
        install_step(["dpkg-deb", "-x", str(packages[-1]), str(home)])
        install_step([str(unpacked), "-v"])
        return str(unpacked)


def find_uv() -> str:
    """Uv on PATH, or the one the Makefile keeps. Raises `Unusable`."""
    kept = PEERS.parent.parent / ".tools" / "uv" / "bin" / "uv"
    found = shutil.which("uv") or (str(kept) if kept.exists() else None)
    if found is None:
        raise Unusable("uv is not on PATH; `make bench-full` puts it there")
    return found


def newest_python(uv: str) -> str:
    """An interpreter of 3.12 or 3.13 that is on this machine. Raises `Unusable`."""
    asked = _output([uv, "python", "find", "--no-python-downloads", ">=3.12,<3.14"])
    kept = _output(["pyenv", "prefix", "3.12"]) or _output(["pyenv", "prefix", "3.13"])
    for candidate in (asked, "python3.12", "python3.13", f"{kept}/bin/python" if kept else ""):
        if candidate and _output([candidate, "-c", "import sys; print(*sys.version_info[:2])"]) in (
            "3 12",
            "3 13",
        ):
            return candidate
    raise Unusable("no Python 3.12 or 3.13 was found; name one with --python PATH")


def versions_in(python: Path, packages: Sequence[str]) -> dict[str, str]:
    """Versions of packages in an environment; what is not there is left out."""
    code = (
        "import importlib.metadata as m, platform, sys\n"
        "print('python', platform.python_version())\n"
        "for name in sys.argv[1:]:\n"
        "    try: print(name, m.version(name))\n"
        "    except m.PackageNotFoundError: pass\n"
    )
    lines = _output([str(python), "-c", code, *packages]).splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def _output(command: Sequence[str]) -> str:
    """What a command prints; empty when it fails."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=CHECK_S)
        return done.stdout.strip() if done.returncode == 0 else ""
    return ""


def install_step(command: Sequence[str], cwd: Path | None = None) -> None:
    """Run one command of an installation; raises `Unusable`."""
    environ = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    environ.pop("VIRTUAL_ENV", None)
    name = " ".join([Path(command[0]).name, *command[1:3]])
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=INSTALL_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unusable(f"{name}: {error}") from None
    if done.returncode:
        raise Unusable(f"{name} failed: {' '.join(done.stderr.split())[-300:]}")
