"""One item of a run for people to read: what the model said and called, what it cost, how it was graded.

Pure: a record and a trajectory (ATIF, see `osmosis_runner.atif`) in, a result out. A trajectory may come from another
program, so whatever is not where it is expected is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import msgspec

from osmosis_cli.figures import amount, duration, money, value
from osmosis_cli.measures import number
from osmosis_cli.output import DetailResult, Json, NextStep, Section, printable
from osmosis_runner.failure_words import failure_words
from osmosis_runner.journal_record import JournalRecord

SHOWN = 20_000
"""Characters of one message that are shown; `--json` and the file have all of it."""


class Item(msgspec.Struct, frozen=True):
    """One item: its record, its trajectory where one was kept, and its files by what they are."""

    run: str
    record: JournalRecord
    trajectory: Mapping[str, object]
    """Empty where none was kept."""
    prompt: str
    """The beginning of the row's prompt, for an item without a trajectory."""
    files: tuple[tuple[str, Path], ...]
    next_steps: tuple[NextStep, ...] = ()


def item_result(item: Item) -> DetailResult:
    """Everything there is to say of one item: facts, then its steps in order."""
    record = item.record
    return DetailResult(
        title=f"Run {item.run}, row {record.row_index}, run {record.run_index}",
        rows=tuple(_facts(item)),
        sections=(*_steps(item.trajectory), *_unmatched(item.trajectory), *_trace(record)),
        next_steps=item.next_steps,
        data={
            "name": item.run,
            "item": cast("Json", msgspec.to_builtins(record)),
            "trajectory": cast("Json", item.trajectory) if item.trajectory else None,
            "files": {label: str(path) for label, path in item.files},
        },
    )


def _facts(item: Item) -> list[tuple[str, str]]:
    record, osmosis = item.record, _mapping(item.trajectory, "extra", "osmosis")
    source = record.source_row_index
    agent = _mapping(item.trajectory, "agent")
    rows = [
        (
            "Row",
            str(record.row_index) + (f" (source {source})" if source not in (None, record.row_index) else ""),
        ),
        ("Run", str(record.run_index)),
        ("Status", record.status),
        ("Error", _error(record)),
        ("Reward", "none" if record.reward is None else value(record.reward)),
        ("Label", _text(osmosis, "label")),
        ("Metrics", _pairs(_mapping(osmosis, "sample_metrics"))),
        ("Model", _text(agent, "model_name")),
        ("Served Model", ", ".join(_others_that_served(item.trajectory))),
        ("Prompt", "" if item.trajectory else item.prompt),
        ("Trajectory", "" if item.trajectory else "none was kept"),
        ("Note", _text(item.trajectory, "notes")),
        ("Tokens", _tokens(record)),
        ("Cost", "" if record.cost_usd is None else money(record.cost_usd)),
        ("Duration", duration(record.duration_ms / 1000)),
        ("Attempt", str(record.attempt) if record.attempt > 1 else ""),
        *((label, str(path)) for label, path in item.files),
    ]
    return [(label, text) for label, text in rows if text]


def _others_that_served(trajectory: Mapping[str, object]) -> list[str]:
    """Models that by the provider's word answered calls and are not the one asked for, each once."""
    asked = _text(_mapping(trajectory, "agent"), "model_name")
    calls = [_mapping(step, "metrics") for step in _objects(trajectory, "steps")]
    calls += _objects(_mapping(trajectory, "extra", "osmosis"), "unmatched_calls")
    served = dict.fromkeys(_text(_mapping(call, "extra"), "served_model") for call in calls)
    return [name for name in served if name and not f"/{asked}".endswith(f"/{name}")]


def _error(record: JournalRecord) -> str:
    kind = failure_words(record.error_type, record.error_phase) if record.status == "failed" else ""
    return ": ".join(part for part in (kind, record.error_message) if part)


def _tokens(record: JournalRecord) -> str:
    if record.tokens is None:
        return ""
    known = (
        ("prompt", record.prompt_tokens),
        ("completion", record.completion_tokens),
        ("cached", record.cached_tokens),
    )
    split = ", ".join(f"{word} {amount(found)}" for word, found in known if found is not None)
    told = amount(record.tokens) + (f" ({split})" if split else "")
    told += "" if record.calls is None else f" in {record.calls:,} call{'' if record.calls == 1 else 's'}"
    largest = record.max_context_tokens
    return told + ("" if largest is None else f"; max context {amount(largest)}")


def _steps(trajectory: Mapping[str, object]) -> list[Section]:
    steps = _objects(trajectory, "steps")
    return [
        Section(_heading(step, place), tuple(_step_lines(step))) for place, step in enumerate(steps, start=1)
    ]


def _heading(step: Mapping[str, object], place: int) -> str:
    used = _call_words(_mapping(step, "metrics"))
    return f"{place}. {_text(step, 'source') or 'unknown'}" + (f" ({used})" if used else "")


def _call_words(metrics: Mapping[str, object]) -> str:
    """What one call took: tokens, time and money, as far as they are known."""
    names = (("prompt", "prompt_tokens"), ("completion", "completion_tokens"), ("cached", "cached_tokens"))
    known = [(word, number(metrics, name)) for word, name in names]
    told = [f"{word} {amount(found)}" for word, found in known if found is not None]
    took, cost = number(metrics, "extra", "duration_ms"), number(metrics, "cost_usd")
    told += [] if took is None else [duration(took / 1000)]
    return ", ".join(told + ([] if cost is None else [money(cost)]))


def _step_lines(step: Mapping[str, object]) -> list[str]:
    lines: list[str] = []
    if reasoning := step.get("reasoning_content"):
        lines += ["[reasoning]", *_message_lines(reasoning), "[answer]"]
    lines += _message_lines(step.get("message"))
    for call in _objects(step, "tool_calls"):
        arguments = json.dumps(call.get("arguments"), ensure_ascii=False)
        named = f"{_text(call, 'function_name')}({arguments})"
        lines += _with_head(f"call {_text(call, 'tool_call_id')}:", _message_lines(named))
    for result in _objects(_mapping(step, "observation"), "results"):
        identity = _text(result, "source_call_id")
        head = f"result of {identity}:" if identity else "result:"
        lines += _with_head(head, _message_lines(result.get("content")))
    return lines


def _with_head(head: str, lines: Sequence[str]) -> list[str]:
    """`head` before what it is about: on its line when that is one, above it otherwise."""
    return (
        [f"{head} {line}" for line in lines] if len(lines) == 1 else [head, *(f"  {line}" for line in lines)]
    )


def _message_lines(message: object) -> list[str]:
    """The lines of a message: text as it is, parts of other kinds as JSON."""
    if message is None or message == "":
        return []
    if isinstance(message, str):
        text = message
    elif isinstance(message, Sequence):
        return [line for part in cast("Sequence[object]", message) for line in _part_lines(part)]
    else:
        text = json.dumps(message, ensure_ascii=False)
    rest = len(text) - SHOWN
    cut = text if rest <= 0 else f"{text[:SHOWN]}\n[{rest:,} more characters; --json shows all]"
    return printable(cut).split("\n")


def _part_lines(part: object) -> list[str]:
    text = _mapping({"part": part}, "part").get("text")
    return _message_lines(text if isinstance(text, str) else json.dumps(part, ensure_ascii=False))


def _unmatched(trajectory: Mapping[str, object]) -> list[Section]:
    """Calls of which it is not known which step they made."""
    calls = _objects(_mapping(trajectory, "extra", "osmosis"), "unmatched_calls")
    lines = tuple(f"{place}. {_call_words(call) or 'no usage'}" for place, call in enumerate(calls, start=1))
    return [Section("Calls to the model", lines)] if lines else []


def _trace(record: JournalRecord) -> list[Section]:
    trace = record.error_traceback
    return [Section("Traceback", tuple(printable(trace).rstrip("\n").split("\n")))] if trace else []


def _pairs(metrics: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {json.dumps(found, ensure_ascii=False)}" for name, found in metrics.items())


def _mapping(source: object, *path: str) -> Mapping[str, object]:
    for name in path:
        source = cast("Mapping[str, object]", source).get(name) if isinstance(source, Mapping) else None
    return cast("Mapping[str, object]", source) if isinstance(source, Mapping) else {}


def _objects(source: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    """The objects of a list."""
    listed = source.get(name)
    items = cast("Sequence[object]", listed) if isinstance(listed, list) else ()
    return [_mapping(item) for item in items]


def _text(source: Mapping[str, object], name: str) -> str:
    found = source.get(name)
    return found if isinstance(found, str) else ""
