"""Tables as text."""

from __future__ import annotations

from osmosis_cli.output import DetailResult, Format, ListResult, NextStep, OperationResult, Section
from osmosis_cli.tables import console_on, draw, show
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


def test_text_of_others_cannot_drive_the_terminal() -> None:
    assert "\x1b" not in draw(DetailResult("Run", (("Name", "a\x1b[2Jb"),), {}), Stream())


def test_only_people_get_tables() -> None:
    for form, drawn in ((Format.RICH, True), (Format.PLAIN, False), (Format.JSON, False)):
        out, stdout, _ = output(form)
        assert show(out, DetailResult("Run quick", (("Name", "quick"),), {}, exit_code=3)) == 3
        assert ("Run quick" in stdout.getvalue()) is drawn
