import json
from pathlib import Path

import pytest

from osmosis_typed import osmosis

MODEL = "openrouter/openai/gpt-4o-mini"


def request_at(tmp_path: Path, body: object) -> str:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(body))
    return str(path)


@pytest.mark.parametrize("output", ["rich", "plain"])
def test_each_field_has_a_line_and_the_outgoing_request_is_shown(tmp_path: Path, output: str) -> None:
    body = {"messages": [], "seed": 1, "api_key": "sk-secret-value", "extra_body": {"top_k": 3}}
    flags = [] if output == "rich" else [f"--{output}"]
    done = osmosis(*flags, "bridge", "explain", request_at(tmp_path, body), "--model", MODEL)
    assert done.code == 0
    assert "api_key  (top level)" in done.stdout
    assert "stripped as control" in done.stdout
    assert "POST https://openrouter.ai/api/v1/chat/completions" in done.stdout
    assert '"model":"openai/gpt-4o-mini"' in done.stdout
    assert "sk-secret-value" not in done.stdout + done.stderr


def test_headers_may_be_given_and_say_what_becomes_of_them(tmp_path: Path) -> None:
    path = request_at(tmp_path, {"messages": []})
    done = osmosis(
        "bridge", "explain", path, "--model", MODEL, "-H", "X-Title: my agent", "--header", "Cookie: c=1"
    )
    assert done.code == 0
    assert "x-title: forwarded" in done.stdout
    assert "cookie: dropped" in done.stdout
    assert "x-title: my agent" in done.stdout


@pytest.mark.parametrize("line", ["X-Title", ": x", ""])
def test_a_header_that_is_none_is_a_usage_error(tmp_path: Path, line: str) -> None:
    path = request_at(tmp_path, {"messages": []})
    done = osmosis("bridge", "explain", path, "--model", MODEL, "--header", line)
    assert done.code == 2
    assert "X-Title: my agent" in done.stderr


def test_json_is_one_document_with_the_report(tmp_path: Path) -> None:
    done = osmosis("--json", "bridge", "explain", request_at(tmp_path, {"messages": []}), "--model", MODEL)
    report = json.loads(done.stdout)["resource"]
    assert (report["accepted"], report["lane"]) == (True, "wire")
    assert report["outgoing"]["body"] == {"messages": [], "model": "openai/gpt-4o-mini"}


def test_a_request_that_would_be_refused_exits_1_and_names_the_field(tmp_path: Path) -> None:
    path = request_at(tmp_path, {"messages": [], "api_base": "http://evil"})
    done = osmosis("bridge", "explain", path, "--model", MODEL, "--controls", "reject")
    assert done.code == 1
    assert "api_base" in done.stdout
    assert "evil" not in done.stdout


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    done = osmosis("bridge", "explain", str(tmp_path / "no.json"), "--model", MODEL)
    assert done.code == 1
    assert "no.json cannot be read" in done.stderr


def test_a_model_that_leads_nowhere_says_what_would(tmp_path: Path) -> None:
    done = osmosis("bridge", "explain", request_at(tmp_path, {}), "--model", "opnrouter/x")
    assert done.code == 1
    assert "openrouter" in done.stderr
