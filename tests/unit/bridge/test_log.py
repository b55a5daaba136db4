"""The log: one redacted line at a time, for people or as JSON, and never a reason to fail."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest

from osmosis_bridge.log import open_log
from osmosis_bridge.redact import Redactor

KEY = "the-secret-key"
REDACTOR = Redactor([KEY])


@pytest.fixture(autouse=True)
def library_logging_as_it_was() -> Iterator[None]:
    names = ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")
    before = [(log := logging.getLogger(name), log.handlers, log.propagate, log.level) for name in names]
    yield
    for log, handlers, propagate, level in before:
        log.handlers, log.propagate = handlers, propagate
        log.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class Odd:
    def __repr__(self) -> str:
        return f"Odd({KEY})"


def test_a_json_line_is_one_object_with_time_level_and_values() -> None:
    stream = io.StringIO()
    open_log("json", REDACTOR, stream).info("call", status="ok", tokens=3, ttft_ms=None, stream=True, ms=1.5)
    (line,) = lines(stream)
    assert line.pop("timestamp")
    assert line == {
        "event": "call", "level": "info", "status": "ok", "tokens": 3, "ttft_ms": None, "stream": True, "ms": 1.5
    }  # fmt: skip


def test_what_is_bound_to_a_logger_is_on_its_lines() -> None:
    stream = io.StringIO()
    log = open_log("json", REDACTOR, stream).bind(run="r")
    log.info("call", status="ok")
    log.warning("odd")
    for line, event, level in zip(lines(stream), ("call", "odd"), ("info", "warning"), strict=True):
        assert (line["run"], line["event"], line["level"]) == ("r", event, level)


def test_a_line_for_people_has_the_values_and_no_colours_in_a_file() -> None:
    stream = io.StringIO()
    open_log("console", REDACTOR, stream).info("call", status="ok")
    assert "call" in stream.getvalue()
    assert "status=ok" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_secret_reaches_a_line_by_any_way(form: str) -> None:
    stream = io.StringIO()
    log = open_log(form, REDACTOR, stream)  # pyright: ignore[reportArgumentType]
    event = f"event {KEY}"
    log.info(event, text=f"x{KEY}", names=[KEY, ("deep", KEY)], odd=Odd(), mapping={KEY: KEY})
    try:
        raise ValueError(KEY)
    except ValueError as error:
        log.error("fault", error=repr(error), exc_info=error)
    logging.getLogger("uvicorn.error").warning("from a library: %s", KEY)
    logging.getLogger("asyncio").error("with a cause", exc_info=ValueError(KEY))
    assert KEY not in stream.getvalue()
    assert stream.getvalue().count("[REDACTED]") >= 9


def test_a_fault_is_logged_with_its_traceback_on_one_json_line() -> None:
    stream = io.StringIO()
    log = open_log("json", REDACTOR, stream)
    try:
        raise ValueError("boom")
    except ValueError as error:
        log.error("fault", exc_info=error)
    (line,) = lines(stream)
    assert "Traceback" in str(line["exception"])
    assert "boom" in str(line["exception"])


def test_values_that_json_does_not_know_are_shown() -> None:
    stream = io.StringIO()
    open_log("json", REDACTOR, stream).info("x", odd={1, 2}, big=10**30, lone="a\ud800")
    (line,) = lines(stream)
    assert (line["odd"], line["big"], line["lone"]) == ("{1, 2}", 10**30, "a\ud800")


def test_what_is_below_info_is_not_written() -> None:
    stream = io.StringIO()
    open_log("json", REDACTOR, stream).debug("x")
    assert stream.getvalue() == ""


def test_what_libraries_warn_of_comes_as_a_line_and_their_chatter_does_not() -> None:
    stream = io.StringIO()
    open_log("json", REDACTOR, stream)
    logging.getLogger("uvicorn.error").info("chatter")
    logging.getLogger("uvicorn.error").warning("odd: %s", 7)
    logging.getLogger("asyncio").error("broken", exc_info=ValueError("why"))
    first, second = lines(stream)
    assert (first["event"], first["level"], first["logger"]) == ("odd: 7", "warning", "uvicorn.error")
    assert (second["event"], second["error"]) == ("broken", "ValueError('why')")


def test_without_a_stream_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    open_log("json", REDACTOR).warning("x")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["event"] == "x"


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_log_that_nobody_can_read_any_more_is_no_reason_to_fail() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (Gone(), closed):
        log = open_log("json", REDACTOR, Gone() if stream.closed else stream)
        log.info("x")
        log.error("x")


class Counting(io.StringIO):
    """Counts the writes it is asked for."""

    writes = 0

    def write(self, text: str, /) -> int:
        self.writes += 1
        return super().write(text)


def test_lines_of_one_turn_are_one_write_after_what_it_sends_and_a_warning_waits_for_nothing() -> None:
    stream = Counting()

    async def main() -> None:
        log = open_log("json", Redactor(), stream)
        for number in range(3):
            log.info("call", number=number)
        sent_at = []
        asyncio.get_running_loop().call_soon(lambda: sent_at.append(stream.writes))
        await asyncio.sleep(0)
        assert (stream.writes, sent_at) == (0, [0])
        await asyncio.sleep(0)
        assert stream.writes == 1
        log.info("call", number=3)
        log.warning("now")
        assert stream.writes == 2

    asyncio.run(main())
    said = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("number", line["event"]) for line in said] == [0, 1, 2, 3, "now"]
