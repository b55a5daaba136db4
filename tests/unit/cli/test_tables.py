"""Tables as text."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

from osmosis_cli.output import DetailResult, Format, ListResult, NextStep, OperationResult, Result, Section
from osmosis_cli.tables import Screen, console_on, draw, facts, parts_of, show
from osmosis_typed import Stream, output

LONG = "/" + "x" * 150


def test_an_operation_is_drawn_as_its_sections_its_table_its_message_and_what_to_type() -> None:
    result = OperationResult(
        operation="eval.run",
        status="success",
        message="Done [bold]here[/bold].",
        title="Results",
        rows=(("Output", LONG),),
        sections=(Section("Failed rows", ("row 1: [red]",)),),
        next_steps=(NextStep("View", "osmosis eval show x"),),
    )
    text = draw(result, Stream())
    places = [
        text.index(part)
        for part in ("Failed rows", "row 1: [red]", "Results", LONG, "Done [bold]here[/bold].", "View: ")
    ]
    assert places == sorted(places)
    assert "\x1b" not in text


def test_a_detail_and_a_list_are_drawn_as_tables() -> None:
    detail = draw(DetailResult("Run quick", (("Name", "quick"),), {}), Stream())
    assert "Run quick" in detail
    assert "Name" in detail
    listed = draw(ListResult("Runs", ("Name", "Status"), (("quick", "finished"),), ()), Stream())
    assert "Status" in listed
    assert "finished" in listed


def test_an_empty_list_says_so() -> None:
    assert draw(ListResult("Runs", ("Name",), (), (), empty="No runs."), Stream()) == "No runs.\n"


def test_a_terminal_gets_colour_and_its_own_width() -> None:
    assert console_on(Stream()).width == 200
    assert not console_on(Stream()).is_terminal
    assert console_on(Stream(terminal=True)).is_terminal


NAME = "mellow-walrus-06"
MODEL = "local/smollm2-135m-instruct"
RUNS = ListResult(
    "Runs",
    ("Name", "Status", "Model", "Items"),
    ((NAME, "incomplete", MODEL, "20/20"),) * 2,
    (),
    droppable=("Model", "Items", "Status"),
)
FACTS = DetailResult("Run", (("Work Items", "20/20 complete"), ("Output", f"/somewhere/below/{NAME}")), {})


def lines_at(result: Result, width: int) -> list[str]:
    """What a terminal of that width gets, without what it wraps by itself."""
    text = "".join(drawn_at(part, width) for part in parts_of(result, Screen(width, terminal=True)))
    return [line.rstrip() for line in text.splitlines()]


def drawn_at(part: RenderableType, width: int) -> str:
    console = Console(file=Stream(), width=width)
    with console.capture() as capture:
        console.print(part, soft_wrap=isinstance(part, Text))
    return capture.get()


@pytest.mark.parametrize(("width", "columns"), [(100, 4), (80, 4), (60, 3), (40, 2), (30, 1), (20, 1)])
def test_a_list_drops_columns_and_cuts_no_name(width: int, columns: int) -> None:
    lines = lines_at(RUNS, width)
    assert all(cell_len(line) <= width for line in lines)
    named = [line for line in lines if NAME in line]
    assert len(named) == 2
    assert all(line.count("│") == columns + 1 for line in named)
    assert any("No room for" in line for line in lines) is (columns < 4)


def test_a_list_that_is_wider_than_the_screen_whatever_is_dropped_is_lines() -> None:
    lines = lines_at(RUNS, 18)
    assert f"{NAME} incomplete {MODEL} 20/20" in lines


@pytest.mark.parametrize(("width", "framed"), [(80, True), (40, False)])
def test_a_fact_is_drawn_without_a_frame_rather_than_broken(width: int, framed: bool) -> None:
    lines = lines_at(FACTS, width)
    assert all(cell_len(line) <= width for line in lines)
    assert sum(f"/somewhere/below/{NAME}" in line for line in lines) == 1
    assert any("│" in line for line in lines) is framed


@pytest.mark.parametrize("width", [40, 80])
def test_lines_of_a_section_are_wrapped_between_words_and_commands_are_not(width: int) -> None:
    line = "row 4 run 0: success, reward 0, 260 tokens, max context 138 | What is 15 plus 27 plus 131?"
    step = NextStep(
        "View", "osmosis eval show mellow-walrus-06 --row 4 --run 0 --output /somewhere/else/below/here"
    )
    lines = lines_at(DetailResult("Run", (), {}, (Section("Items", (line,)),), (step,)), width)
    assert lines[-1] == f"View: {step.command}"
    section = lines[lines.index("Items") + 1 : -1]
    assert all(cell_len(part) <= width for part in section)
    assert " ".join(section).split() == line.split()


def test_signs_are_plain_where_the_encoding_lacks_them() -> None:
    text = drawn_at(
        facts("Run", (("Items", "20/20 · 20 ok"), ("Rate", "—")), Screen(80, encoding="ascii")), 80
    )
    assert "20/20 - 20 ok" in text
    assert "—" not in text


def test_text_of_others_cannot_drive_the_terminal() -> None:
    assert "\x1b" not in draw(DetailResult("Run", (("Name", "a\x1b[2Jb"),), {}), Stream())


def test_only_people_get_tables() -> None:
    for form, drawn in ((Format.RICH, True), (Format.PLAIN, False), (Format.JSON, False)):
        out, stdout, _ = output(form)
        assert show(out, DetailResult("Run quick", (("Name", "quick"),), {}, exit_code=3)) == 3
        assert ("Run quick" in stdout.getvalue()) is drawn
