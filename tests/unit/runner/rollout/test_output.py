from __future__ import annotations

import asyncio
import io
import logging
import sys
import threading
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from osmosis_runner.rollout.admission import RolloutRequest
from osmosis_runner.rollout.execution import Job, current_job
from osmosis_runner.rollout.output import OPEN_LIMIT, Labelled, label_of, label_output


def request_of(row: int | None = 3, rollout_id: str = "r1") -> RolloutRequest:
    extra = None if row is None else {"row_index": row, "run_index": 0}
    return RolloutRequest(rollout_id, [], "http://x", extra_fields=extra)


def within(request: RolloutRequest, body: Any) -> None:
    def run() -> None:
        current_job.set(Job(request, Path(), None))  # type: ignore[arg-type]
        body()

    copy_context().run(run)


def test_each_line_of_a_rollout_says_which_row_it_belongs_to() -> None:
    stream = io.StringIO()
    out = Labelled(stream)
    out.write("of nobody\n")
    within(request_of(), lambda: print("two\nlines\n", file=out))
    assert stream.getvalue() == "of nobody\n[row 3 run 0] two\n[row 3 run 0] lines\n\n"


def test_unfinished_lines_of_rollouts_do_not_mix() -> None:
    stream = io.StringIO()
    out = Labelled(stream)
    one, two = request_of(1, "a"), request_of(2, "b")
    within(one, lambda: out.write("one, "))
    within(two, lambda: out.writelines(["other", "\n"]))
    within(one, lambda: out.write("two\nand"))
    out.finish(two)
    out.finish(one)
    out.finish(one)
    assert stream.getvalue() == "[row 2 run 0] other\n[row 1 run 0] one, two\n[row 1 run 0] and\n"


def test_threads_of_one_rollout_do_not_mix_either() -> None:
    stream = io.StringIO()
    out = Labelled(stream)

    def body() -> None:
        out.write("here ")
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(out.write, "there\n"))
        thread.start()
        thread.join(9)
        out.write("again\n")

    within(request_of(), body)
    assert stream.getvalue() == "[row 3 run 0] there\n[row 3 run 0] here again\n"


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    stream = io.StringIO()
    out = Labelled(stream)
    within(request_of(), lambda: out.write("x" * (OPEN_LIMIT + 1)))
    assert stream.getvalue() == "[row 3 run 0] " + "x" * (OPEN_LIMIT + 1) + "\n"


def test_a_rollout_without_a_row_is_named_by_its_id() -> None:
    assert label_of(request_of(None)) == "[rollout r1]"


def test_outputs_and_loggers_that_stand_already_are_labelled(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    handler = logging.StreamHandler()
    monkeypatch.setattr(logging.root, "handlers", [handler])
    label_output()

    async def body() -> None:
        print("said")
        await asyncio.to_thread(logging.getLogger("x").warning, "logged")

    within(request_of(), lambda: asyncio.run(body()))
    assert out.getvalue() == "[row 3 run 0] said\n"
    assert err.getvalue() == "[row 3 run 0] logged\n"
    assert sys.stdout.isatty() is False
