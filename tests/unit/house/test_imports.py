"""Importing any module does no work: no socket, no process, no thread, no event loop, no heavy library.

Each package is imported whole in an interpreter of its own, module by module, under an audit hook that refuses; what
a hook cannot see (threads, loops) is looked at after each module.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOMS = {"osmosis_bridge": "bridge", "osmosis_runner": "runner", "osmosis_cli": "cli"}

# Slow to load, or whole programs of their own: whoever needs one loads it when it is asked for.
HEAVY = ("litellm", "xllamacpp", "pyarrow", "openai", "hypothesis", "pytest")
# The one module a rollout author gets with openai installed; nothing imports it at the top.
MAY_BE_HEAVY = {"osmosis_runner.rollout.openai_client": {"openai"}}

MSGSPEC = ("msgspec", "typing_extensions")
STARTS = {
    "osmosis_bridge.__main__": "brotli certifi click httptools orjson structlog uvicorn uvloop zstandard",
    "osmosis_cli.main": "click",
    "osmosis_cli.eval_run": "brotli certifi click httptools uvloop zstandard",
    "osmosis_runner.rollout.host": "click uvicorn",
}
"""What is loaded of others when the bridge begins, with any command and with its `--help`, before a run, and in a
rollout's process. Each costs every start: add one only if nothing can begin without it."""
SLOW_TO_LOAD = (
    "email.message",
    "http.client",
    "importlib.metadata",
    "sqlite3",
    "unittest",
    "urllib.request",
    "xml",
)
"""Parts of the standard library that take milliseconds and that nothing needs in order to begin."""
LOADED = """
import json, sys
before = set(sys.modules)
__import__(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""

WATCH = """
import importlib, json, sys, threading

def refuse(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.fork", "os.exec", "os.posix_spawn", "os.system", "urllib.")):
        if event not in ("socket.gethostname",):
            raise RuntimeError(f"{event} while importing")
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        raise RuntimeError(f"opened {arguments[0]!r} for writing while importing")

sys.dont_write_bytecode = True
sys.addaudithook(refuse)
heavy, modules = json.loads(sys.argv[1]), json.loads(sys.argv[2])
found = {}
for name in modules:
    before = set(sys.modules)
    complaints = []
    try:
        importlib.import_module(name)
    except Exception as error:
        complaints.append(f"{type(error).__name__}: {error}")
    complaints += [f"imports {root}" for root in heavy if root in sys.modules and root not in before]
    if threading.active_count() > 1:
        complaints.append(f"started {[thread.name for thread in threading.enumerate()]}")
    if "asyncio" in sys.modules:
        asyncio = sys.modules["asyncio"]
        policy = asyncio.events._event_loop_policy
        if asyncio._get_running_loop() or getattr(getattr(policy, "_local", None), "_loop", None):
            complaints.append("made an event loop")
    if complaints:
        found[name] = complaints
print(json.dumps({"found": found, "asyncio": "asyncio" in sys.modules}))
"""


def modules_of(package: str) -> list[str]:
    """Every module of a package, by its dotted name, `__main__` left out since importing it is running it."""
    folder = ROOT / ROOMS[package]
    paths = (path.relative_to(folder).with_suffix("") for path in sorted(folder.rglob("*.py")))
    names = [".".join(path.parts) for path in paths if path.name != "__main__"]
    return [name.removesuffix(".__init__") for name in names]


def import_all(modules: list[str]) -> dict[str, object]:
    command = [sys.executable, "-c", WATCH, json.dumps(HEAVY), json.dumps(modules)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("package", list(ROOMS))
def test_importing_a_package_whole_does_no_work(package: str) -> None:
    modules = [name for name in modules_of(package) if name not in MAY_BE_HEAVY]
    assert import_all(modules)["found"] == {}


@pytest.mark.parametrize("module", sorted(MAY_BE_HEAVY))
def test_an_optional_module_loads_its_own_library_and_no_other(module: str) -> None:
    if module not in modules_of(module.split(".", maxsplit=1)[0]):
        pytest.skip("not there")
    assert import_all([module])["found"] == {
        module: [f"imports {name}" for name in sorted(MAY_BE_HEAVY[module])]
    }


def test_the_core_of_the_bridge_does_not_even_load_an_event_loop() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    core = next(
        contract["source_modules"] for contract in contracts if contract["name"].startswith("The core")
    )
    assert core
    assert import_all(core) == {"found": {}, "asyncio": False}


@pytest.mark.parametrize(("program", "others"), STARTS.items(), ids=list(STARTS))
def test_what_is_started_loads_no_more_than_it_needs_to_begin(program: str, others: str) -> None:
    command = [sys.executable, "-c", LOADED, program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True, cwd=ROOT)
    loaded = set(json.loads(done.stdout))
    roots = {name.partition(".")[0] for name in loaded if not name.startswith("_")} - {"cython_runtime"}
    assert roots - sys.stdlib_module_names - set(ROOMS) <= {*others.split(), *MSGSPEC}
    assert [name for name in SLOW_TO_LOAD if name in loaded] == []
    assert program.partition(".")[0] in roots


def test_the_watch_sees_what_it_looks_for(tmp_path: Path) -> None:
    (tmp_path / "rings.py").write_text("import socket\nsocket.create_connection(('127.0.0.1', 9))\n")
    (tmp_path / "writes.py").write_text(f"open({str(tmp_path / 'x')!r}, 'w')\n")
    (tmp_path / "loops.py").write_text("import asyncio\nasyncio.set_event_loop(asyncio.new_event_loop())\n")
    (tmp_path / "heavy.py").write_text("import pytest\n")
    watch = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WATCH}"
    modules = ["rings", "writes", "loops", "heavy"]
    command = [sys.executable, "-W", "ignore", "-c", watch, json.dumps(["pytest"]), json.dumps(modules)]
    found = json.loads(
        subprocess.run(command, capture_output=True, text=True, timeout=50, check=True).stdout
    )["found"]
    assert sorted(found) == sorted(modules)
