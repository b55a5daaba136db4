"""The benchmark harness: it reads its clients, computes what it says, leaves out what is missing, and cleans up.

No test here asserts a time or a speed.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from xml.etree.ElementTree import fromstring

import pytest
from rich.console import Console

from benchmarks import (
    bodies,
    bridge,
    contestants,
    environments,
    plots,
    processes,
    profile,
    report,
    runners,
    without,
)
from benchmarks.__main__ import conclude, parse
from benchmarks.limits import Interrupted, alone, limited
from benchmarks.machine import Cores, choose_cores
from benchmarks.plan import FORMS, QUICK
from benchmarks.results import Book, Observation, Summary, ratio, read_book, summarise, value_of
from benchmarks.session import Session, port_in, rotated
from benchmarks.targets import TARGETS, Target, Verdict, judge, number
from benchmarks.tools import (
    HERE,
    PROGRAMS,
    Goal,
    ToolFailed,
    Tools,
    find_tools,
    read_figures,
    running_upstream,
)
from osmosis_bridge import server

ROOT = Path(__file__).resolve().parents[3]
SLEEPER = "import time; time.sleep(60)"


def seen(measure: str, contestant: str, round_: int, **values: float) -> Observation:
    return Observation(measure, contestant, round_, values)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    head: dict[str, object] = {
        "started": "2026-01-01 00:00 UTC",
        "form": "quick",
        "machine": {"processor": "P", "usable_cores": 2, "memory_mb": 4096, "kernel": "6"},
        "versions": {"osmosis bridge": {"python": "3.11.7"}},
        "titles": {"ours": "osmosis bridge", "nginx": "nginx proxy_pass", "rows/ours": "osmosis eval run"},
        "quiet": True,
        "load": 0.1,
    }
    return Book(tmp_path / "book.json", head)


def session_of(book: Book, seconds: float = 60.0) -> Session:
    """A session that measures nothing."""
    nothing = cast("Any", None)
    return Session(
        nothing, nothing, Cores(0, 0), book.path.parent, book, time.monotonic() + seconds, lambda _: None
    )


# What a client prints


def test_the_last_json_object_a_client_printed_is_what_it_found() -> None:
    out = 'Running 2s test\nJSON {"requests":10,"rate":5.5,"name":"text is passed over"}\n'
    assert read_figures(out, "") == {"requests": 10.0, "rate": 5.5}


@pytest.mark.parametrize(("out", "complaint"), [("", "connect: refused"), ("connect: refused", "")])
def test_a_client_that_found_nothing_says_what_it_printed_instead(out: str, complaint: str) -> None:
    with pytest.raises(ToolFailed, match="connect: refused"):
        read_figures(out, complaint)


@pytest.mark.parametrize("kind", ["C", "Python"])
def test_the_upstream_and_its_clients_understand_each_other(kind: str, tmp_path: Path) -> None:
    goal_headers = ("Authorization: Bearer b",)
    tools = tools_of(kind)
    with running_upstream(tools, tmp_path) as upstream:
        goal = Goal(upstream.port, "/v1/chat/completions", goal_headers)
        small = bodies.write(tmp_path, "small", bodies.small("m", "@@row " + bodies.mark()))
        large = bodies.write(tmp_path, "large", bodies.large("m", bodies.mark()))
        streamed = bodies.write(tmp_path, "streamed", bodies.small("m", bodies.mark(0, 7, 5), stream=True))
        plain = tools.plain(goal, small, 4, 1000, 0.2)
        assert plain["requests"] > 0
        assert (plain["bad_status"], plain["broken"]) == (0, 0)
        assert tools.plain(goal, large, 2, 0, 0.2)["bad_status"] == 0
        stats = upstream.stats()
        assert stats["rows"] == plain["requests"]
        assert stats["last_row_us"] >= stats["first_row_us"] > 0
        upstream.reset()
        assert upstream.stats()["rows"] == 0
        streams = tools.streams(goal, streamed, 20, 20, 7, 20)
        assert (streams["streams"], streams["ok"], streams["chunks"]) == (20, 20, 140)
        short = tools.streams(goal, streamed, 3, 0, 8, 20)
        assert (short["ok"], short["incomplete"]) == (0, 3), "a stream without all its chunks is not ok"


def tools_of(kind: str) -> Tools:
    tools = dataclasses.replace(find_tools(choose_cores()), wrk=None)
    if kind == "C":
        return tools if tools.compiler else pytest.skip("this machine has no C compiler")
    commands = {name: [sys.executable, str(HERE / "plain.py"), name] for name in PROGRAMS}
    return dataclasses.replace(tools, commands=commands, compiler=None)


def test_a_client_counts_what_is_refused(tmp_path: Path) -> None:
    tools = tools_of("C")
    body = bodies.write(tmp_path, "small", bodies.small("m", bodies.mark()))
    goal = Goal(contestants.free_port(), "/", ())
    figures = tools.plain(goal, body, 1, 0, 0.2)
    assert figures["requests"] == 0
    assert figures["broken"] > 0


def test_wrk_is_told_the_request_and_prints_what_our_client_prints(tmp_path: Path) -> None:
    tools = find_tools(choose_cores())
    if tools.wrk is None:
        pytest.skip("wrk is not installed")
    body = bodies.write(tmp_path, "small", bodies.small("m", bodies.mark()))
    with running_upstream(tools, tmp_path) as upstream:
        goal = Goal(upstream.port, "/v1/chat/completions", ("Authorization: Bearer b",))
        by_wrk, by_us = tools.saturate(goal, body, 2, 1), tools.plain(goal, body, 2, 0, 0.2)
    assert by_wrk.keys() == by_us.keys()
    assert by_wrk["requests"] > 0 == by_wrk["bad_status"]


def test_the_bodies_are_as_large_as_they_say_and_carry_the_mark_early(tmp_path: Path) -> None:
    mark = bodies.mark(1, 2, 3)
    small = bodies.write(tmp_path, "s", bodies.small("m", mark)).read_bytes()
    large = bodies.write(tmp_path, "l", bodies.large("m", mark)).read_bytes()
    assert abs(len(small) - bodies.SMALL_BYTES) < 150
    assert abs(len(large) - bodies.LARGE_BYTES) < 3_000
    assert small.count(b"@@1,2,3@@") == large.count(b"@@1,2,3@@") == 1


# What it comes to


def test_a_summary_takes_the_median_of_the_rounds() -> None:
    rounds = [seen("small", "ours", number_, rate=rate) for number_, rate in enumerate((10.0, 90.0, 20.0))]
    assert value_of(summarise(rounds), "small", "ours", "rate") == 20.0


def test_added_latency_is_the_difference_within_a_round_and_then_the_median() -> None:
    observations = [
        *(
            seen("paced_1", "direct", n, p50_ms=base, p99_ms=base * 2)
            for n, base in enumerate((1.0, 5.0, 1.0))
        ),
        *(seen("paced_1", "ours", n, p50_ms=ours, p99_ms=9.0) for n, ours in enumerate((1.3, 5.2, 1.4))),
    ]
    added = value_of(summarise(observations), "paced_1", "ours", "added_p50_ms")
    assert added == pytest.approx(0.3), "0.3, 0.2 and 0.4: the slow round is slow for both"


def test_latency_without_a_base_in_its_round_adds_nothing() -> None:
    summary = summarise([seen("paced_1", "direct", 0, p50_ms=1.0), seen("paced_1", "ours", 1, p50_ms=2.0)])
    assert value_of(summary, "paced_1", "ours", "added_p50_ms") is None


def test_ratios_are_of_the_same_run_and_absent_where_one_side_is() -> None:
    summary: Summary = {"small": {"ours": {"rate": 12.0}, "nginx": {"rate": 48.0}, "still": {"rate": 0.0}}}
    assert ratio(summary, "small", "rate", "ours", "nginx") == 0.25
    assert ratio(summary, "small", "rate", "ours", "rolter") is None
    assert ratio(summary, "small", "rate", "ours", "still") is None
    assert ratio(summary, "large", "rate", "ours", "nginx") is None


FAST = Target("calls", "small", "rate", 100, 200, "req/s", at_least=True, of_nginx=(0.2, 0.4))
QUICKLY = Target("wait", "paced_1", "added_p50_ms", 0.4, 0.3, "ms")


@pytest.mark.parametrize(
    ("target", "figure", "status"),
    [
        (FAST, 100.0, "met"),
        (FAST, 250.0, "met, stretch too"),
        (FAST, 80.0, "missed by 20.0 req/s (20%)"),
        (FAST, None, "not measured"),
        (QUICKLY, 0.4, "met"),
        (QUICKLY, 0.2, "met, stretch too"),
        (QUICKLY, 0.5, "missed by 0.10 ms (25%)"),
        (Target("lost", "m", "lost", 0, unit="streams"), 3.0, "missed by 3.00 streams"),
    ],
)
def test_a_verdict_says_met_or_missed_by_how_much(target: Target, figure: float | None, status: str) -> None:
    assert Verdict(target, figure, None).status == status


@pytest.mark.parametrize(
    ("share", "status"),
    [
        (0.5, "0.50: met, stretch too"),
        (0.25, "0.25: met"),
        (0.15, "0.15: missed by 0.05"),
        (None, "nginx not measured"),
    ],
)
def test_a_verdict_has_one_on_the_share_of_nginx_too(share: float | None, status: str) -> None:
    assert Verdict(FAST, 1.0, share).share_status == status
    assert Verdict(QUICKLY, 1.0, None).share_status == ""


def test_every_target_is_judged_by_what_was_measured_of_ours() -> None:
    summary: Summary = {
        "small": {"ours": {"rate": 13_000.0}, "nginx": {"rate": 65_000.0}},
        "native": {"native lane": {"cpu_ms": 2.4}, "bare litellm": {"cpu_ms": 2.0}},
    }
    verdicts = {verdict.target.label: verdict for verdict in judge(summary)}
    assert len(verdicts) == len(TARGETS), "each has a label of its own"
    assert verdicts["1 KB calls"].is_met
    assert verdicts["1 KB calls"].share == pytest.approx(0.2)
    assert verdicts["native lane: CPU over bare litellm"].figure == pytest.approx(1.2)
    assert verdicts["100 KB calls"].is_met is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12,346"),
        (45.67, "45.7"),
        (0.5, "0.50"),
        (0.0123, "0.012"),
        (0, "0"),
        (float("inf"), "-"),
    ],
)
def test_figures_are_shown_with_the_digits_that_matter(value: float, text: str) -> None:
    assert number(value) == text


def test_rows_are_counted_over_the_whole_command_and_once_it_runs() -> None:
    stats = {"rows": 100.0, "first_row_us": 11_000_000.0, "last_row_us": 13_000_000.0}
    watch = processes.Watch(1, peak_mb=120.0, root_peak_mb=40.0, root_cpu_s=0.2)
    figures = runners.row_figures(stats, 100, 10.0, 4.0, watch, 0.5)
    assert figures["rows_per_s"] == 25.0
    assert figures["steady_rows_per_s"] == 50.0
    assert figures["first_dispatch_s"] == 1.0
    assert figures["cpu_ms_per_row"] == 5.0
    assert figures["supervisor_cpu_ms_per_row"] == 2.0


def test_each_round_begins_with_another_contestant() -> None:
    assert [rotated("abc", by)[0] for by in range(4)] == ["a", "b", "c", "a"]
    assert sorted(rotated("abc", 1)) == ["a", "b", "c"]
    assert rotated([], 3) == []


# What is missing, and what goes wrong


def test_a_missing_peer_is_a_note_and_never_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "PEERS", tmp_path)
    monkeypatch.setattr(environments.shutil, "which", lambda *_, **__: None)
    notes: list[str] = []
    installer = environments.Installer(may_install=False, python=None, tell=notes.append)
    assert contestants.peers(installer, notes.append) == []
    assert runners.peers(installer, notes.append) == []
    left_out = "\n".join(notes)
    for name in (*contestants.PEERS, *(f"runner {name}" for name in runners.PEER_RUNNERS)):
        assert f"{name} was left out: " in left_out


def test_a_peer_counts_as_installed_only_with_just_these_requirements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "PEERS", tmp_path)
    wanted = environments.Requirement("peer", ("peer==2",), "peer")
    assert not wanted.is_installed
    wanted.home.mkdir()
    (wanted.home / ".ready").write_text("peer==1")
    assert not wanted.is_installed
    (wanted.home / ".ready").write_text("peer==2")
    assert wanted.is_installed


def test_a_contestant_that_fails_is_a_note_and_the_next_one_goes_on(book: Book) -> None:
    def fail(_session: Session, _contestant: contestants.Contestant) -> None:
        raise environments.Unusable("it ended with 1: no licence")

    def work(session: Session, contestant: contestants.Contestant) -> None:
        session.book.observe("small", contestant.name, 0, {"rate": 5.0})

    session, one = session_of(book), contestants.direct()
    bridge.attempt(session, one, "first", 1, fail)
    bridge.attempt(session, one, "second", 1, work)
    assert book.notes == ["first: it ended with 1: no licence"]
    assert value_of(read_book(book.path).summary, "small", "direct", "rate") == 5.0


def test_what_no_longer_fits_into_the_time_is_left_out_with_a_note(book: Book) -> None:
    worked: list[str] = []
    session = session_of(book, seconds=5)
    bridge.attempt(session, contestants.direct(), "long", 6, lambda *_: worked.append("long"))
    bridge.attempt(session, contestants.direct(), "short", 1, lambda *_: worked.append("short"))
    assert worked == ["short"]
    (note,) = book.notes
    assert note.startswith("long: left out")


def test_a_contestant_that_ends_at_once_is_unusable_with_its_last_words(book: Book) -> None:
    def launch(_place: contestants.Place) -> contestants.Launch:
        return contestants.Launch([sys.executable, "-c", "import sys; sys.exit('no such option: --fast')"])

    upstream = cast("Any", type("Upstream", (), {"port": 1}))
    session = dataclasses.replace(session_of(book), upstream=upstream)
    one = contestants.Contestant("one", "one", launch, {})
    with pytest.raises(environments.Unusable, match="no such option: --fast"), session.running(one):
        pass


def test_the_port_of_a_peer_that_chooses_it_is_read_once_it_is_written(tmp_path: Path) -> None:
    file = tmp_path / "url"
    assert port_in(file) is None
    file.write_text("")
    assert port_in(file) is None
    file.write_text("http://127.0.0.1:4321/openai/v1")
    assert port_in(file) == 4321


# Processes


@pytest.fixture
def family(tmp_path: Path) -> Iterator[processes.Started]:
    """A process that has a child."""
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]).wait()"
    started = processes.start(
        [sys.executable, "-c", code], tmp_path / "log", list(os.sched_getaffinity(0)), tmp_path, {}
    )
    until = time.monotonic() + 20
    while len(processes.tree(started.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    yield started
    processes.stop(started)


def test_a_stopped_process_takes_its_descendants_with_it(family: processes.Started) -> None:
    members = list(processes.tree(family.pid))
    assert len(members) == 2
    processes.stop(family)
    until = time.monotonic() + 20
    while any(_is_running(pid) for pid in members) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(_is_running(pid) for pid in members)


def _is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_watched_tree_counts_every_member_once(family: processes.Started) -> None:
    with processes.watching(family.pid, 0.01) as watch:
        time.sleep(0.05)
    assert watch.peak_mb > watch.root_peak_mb > 0
    assert watch.tree_cpu_s >= watch.root_cpu_s


def test_a_run_that_takes_too_long_or_is_stopped_is_interrupted() -> None:
    with pytest.raises(Interrupted, match="longer than"), limited(1):
        signal.pause()
    with pytest.raises(Interrupted, match="SIGTERM"), limited(30):
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()


# What is written


def filled(book: Book) -> Book:
    book.observe("small", "ours", 0, {"rate": 13_000.0, "cpu_ms": 0.08})
    book.observe("small", "nginx", 0, {"rate": 65_000.0, "cpu_ms": 0.013})
    book.observe("rows_1000", "ours", 0, {"rows": 1000.0, "rows_per_s": 400.0})
    book.note("rolter was left out: <not installed>")
    return book


def test_a_book_is_on_disk_after_every_observation(book: Book) -> None:
    book.observe("small", "ours", 0, {"rate": 1.0})
    assert len(read_book(book.path).observations) == 1
    filled(book)
    again = read_book(book.path)
    assert again.observations == book.observations
    assert (again.notes, again.head) == (book.notes, book.head)


def test_the_page_gets_tables_verdicts_and_notes_between_its_marks(book: Book, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "performance.md"
    page.parent.mkdir()
    page.write_text(f"# Before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    written = report.publish(filled(book), page)
    text = page.read_text()
    assert text.startswith("# Before\n")
    assert text.endswith("\nafter\n")
    assert "\nold\n" not in text
    assert "| 1 KB calls | ≥ 12,000 (25,000) req/s | 13,000 | met | ≥ 0.16 (0.33) | 0.20: met |" in text
    assert "| osmosis eval run | 1,000 | 400 |" in text
    assert "- rolter was left out: <not installed>" in text
    assert {path.suffix for path in written} == {".md", ".json", ".svg"}
    for picture in (path for path in written if path.suffix == ".svg"):
        fromstring(picture.read_text())
        assert f"performance/{picture.name}" in text


def test_a_page_without_the_marks_is_not_written_over() -> None:
    with pytest.raises(ValueError, match="results: begin"):
        report.replaced("# Page\n", "section")


def test_nothing_is_published_from_a_machine_that_was_not_quiet(
    book: Book, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"{report.BEGIN}{report.END}")
    before = page.read_text()
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr("benchmarks.__main__.HERE", tmp_path / "benchmarks")
    book.head["quiet"] = False
    with Path(os.devnull).open("w") as nowhere:
        said = Console(record=True, width=200, file=nowhere)
        conclude(filled(book), wanted=True, console=said)
    assert page.read_text() == before
    assert "was not quiet" in said.export_text()
    assert any("nothing here is a result" in remark for remark in report.quality(book))


def test_observations_made_while_others_worked_are_named(book: Book) -> None:
    book.observe("small", "ours", 0, {"rate": 1.0}, foreign_pct=40.0)
    assert any("at most 40 % (ours, small)" in remark for remark in report.quality(book))


def test_failed_calls_through_our_bridge_are_named(book: Book) -> None:
    book.observe("small", "ours", 0, {"rate": 1.0, "bad_status": 2.0, "broken": 1.0})
    assert any("3 calls through our bridge failed" in remark for remark in report.quality(book))


def test_the_terminal_shows_every_table_and_note(book: Book) -> None:
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=200, file=nowhere)
        report.show(filled(book), console)
    text = console.export_text()
    for part in ("Proxies", "Runners", "Targets", "13,000", "rolter was left out: <not installed>"):
        assert part in text


def test_bars_and_lines_are_well_formed_whatever_the_names() -> None:
    values = [("a & <b>", 3.0), ("nothing", 0.0), ("much", 4000.0)]
    bars = plots.bars("t", "u", values)
    assert "logarithmic" in bars
    lines = plots.lines("t", "x", "y", [plots.Series("one", [(1, 2), (1000, 4)]), plots.Series("empty", [])])
    for picture in (bars, lines, plots.lines("t", "x", "y", [])):
        fromstring(picture)


# Profiles and defaults


def test_bytecodes_are_those_of_the_bridge_and_the_same_in_every_run() -> None:
    command = [sys.executable, "-m", "benchmarks.bytecodes", "--json"]
    one, other = (
        {
            title: {cost["function"]: round(cost["bytecodes"]) for cost in costs}
            for title, costs in json.loads(
                subprocess.run(command, capture_output=True, check=True, cwd=ROOT, timeout=60).stdout
            ).items()
        }
        for _ in range(2)
    )
    chunk, call = one["one chunk more"], one["a plain call of 1 KB"]
    assert chunk == other["one chunk more"]
    assert call["admit (policy.py)"] == other["a plain call of 1 KB"]["admit (policy.py)"]
    # No time and no speed: who makes a call or a chunk dearer by a third is told so here.
    assert 2000 < sum(call.values()) < 6000
    assert 200 < sum(chunk.values()) < 750


def test_costs_are_counted_for_the_innermost_frame_and_waiting_is_none() -> None:
    stacks = [
        "main (a/site-packages/uvicorn/run.py:1);append (/x/bridge/osmosis_bridge/ledger.py:9) 30",
        "main (a/site-packages/uvicorn/run.py:1) 10",
        "run (/lib/threading.py:3);_worker (concurrent/futures/thread.py:81) 900",
        "not a stack",
    ]
    first, second = profile.costs_of(stacks)
    assert (first.function, first.own, first.whole) == ("append (osmosis_bridge/ledger.py)", 0.75, 0.75)
    assert (second.function, second.own, second.whole) == ("main (uvicorn/run.py)", 0.25, 1.0)
    assert profile.costs_of([]) == []


@pytest.mark.parametrize("parts", bridge.WITHOUT.values(), ids=",".join)
def test_every_default_can_be_taken_out_of_the_bridge_as_it_is(
    parts: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("open_log", "Redactor", "Metrics"):
        monkeypatch.setattr(server, name, getattr(server, name))
    arguments = ["serve", "--ledger", "calls.jsonl", "--port", "0"]
    for part in parts:
        arguments = without.take_out(part, arguments)
    assert ("--ledger" in arguments) is ("ledger" not in parts)
    assert arguments[-2:] == ["--port", "0"]
    assert (vars(server)["open_log"] is without.silent) is ("log" in parts)


def test_a_silent_log_takes_lines_and_writes_none(capfd: pytest.CaptureFixture[str]) -> None:
    log = without.silent("json", None)
    log.info("call", status="ok")
    log.error("broken")
    assert capfd.readouterr() == ("", "")


# The command line


def test_the_full_form_installs_peers_and_the_quick_one_does_not() -> None:
    assert parse(["full"]).peers
    assert not parse([]).peers
    assert parse(["--peers"]).peers


def test_a_run_of_some_parts_is_known_as_such() -> None:
    assert parse(["--only", "rows"]).only == ["rows"]
    assert parse(["--only", "rows"]).only_some
    assert not parse([]).only_some


def test_the_quick_form_may_take_less_than_five_minutes() -> None:
    assert QUICK.minutes < 5
    assert {form.name for form in FORMS.values()} == set(FORMS)


def test_the_command_explains_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        cwd=HERE.parent,
    )
    assert "--peers" in done.stdout


def test_two_benchmarks_do_not_measure_each_other(tmp_path: Path) -> None:
    left = tmp_path / "20260101T000000"
    left.mkdir()
    with alone(tmp_path):
        assert not left.exists(), "a run that was killed left this"
        with pytest.raises(Interrupted, match="another benchmark"), alone(tmp_path):
            pass
    with alone(tmp_path):
        pass
