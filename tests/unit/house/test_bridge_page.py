"""docs/bridge.md against the code: fields of a record, error codes, metrics and routes, all of them and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fakes import FakeTransport, a_bridge
from osmosis_bridge.accounts import Totals
from osmosis_bridge.app import Gate
from osmosis_bridge.call import Record, Usage
from osmosis_bridge.dialects.table import DIALECTS
from osmosis_bridge.metrics import Metrics
from osmosis_bridge.routes import Routes

ROOT = Path(__file__).resolve().parent.parent.parent.parent
SOURCES = ROOT / "bridge" / "osmosis_bridge"
PAGE = (ROOT / "docs" / "bridge.md").read_text("utf-8")
TABLES = {"_TRANSPORT_FAULTS"}
"""Names of tables whose values hold codes."""


def table(head: str) -> list[list[str]]:
    """The rows of the table whose first heading is `head`, without those of its head."""
    rows = PAGE.partition(f"\n| {head} |")[2].partition("\n\n")[0].rstrip("\n").split("\n")[2:]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]


def listed(head: str) -> list[str]:
    """The first cells of a table, which are each one name in code."""
    return [row[0].removeprefix("`").removesuffix("`") for row in table(head)]


def of_code(tree: ast.AST, constants: dict[str, str]) -> Iterator[str]:
    """The codes that a module gives to errors: as `code=...`, to a variable called so, or in a table of them."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="code" | "error_code", value=value):
                yield from values(value, constants)
            case ast.Assign(targets=[ast.Attribute(attr="code") | ast.Name(id="code")], value=value):
                yield from values(value, constants)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in TABLES:
                yield from values(value, constants)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(values=entries)) if name in TABLES:
                for entry in entries:
                    yield from values(entry, constants)


def values(node: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    """The texts that an expression may have for its value; not those it compares with or calls with."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if name in constants:
            yield constants[name]
        case ast.IfExp(body=body, orelse=other):
            yield from values(body, constants)
            yield from values(other, constants)
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts):
            for part in parts:
                yield from values(part, constants)
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), ast.FormattedValue()]):
            # Of the one field that a dialect cannot do without.
            needing = (d.envelope for d in DIALECTS.values() if d.envelope.required or d.envelope.listed)
            yield from {f"{text}{envelope.content}" for envelope in needing}
        case _:
            return


def codes() -> set[str]:
    trees = {
        path: ast.parse(path.read_text("utf-8"))
        for path in sorted(SOURCES.rglob("*.py"))
        if "conformance" not in path.relative_to(SOURCES).parts
    }
    found: set[str] = set()
    for tree in trees.values():
        found |= {text for text in of_code(tree, own_constants(tree, trees)) if text}
    return found


def own_constants(tree: ast.Module, trees: dict[Path, ast.Module]) -> dict[str, str]:
    """What `CODE` is in a module: its own, or the one it imports."""
    by_module = {
        "osmosis_bridge." + ".".join(path.relative_to(SOURCES).with_suffix("").parts): value
        for path, other in trees.items()
        if (value := constant(other)) is not None
    }
    mine = constant(tree)
    imported = [
        by_module[node.module]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in by_module
        and any(alias.name == "CODE" for alias in node.names)
    ]
    known = [mine] if mine is not None else imported
    return {"CODE": known[0]} if known else {}


def constant(tree: ast.Module) -> str | None:
    """The value of a module's `CODE`, None where it has none."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="CODE")], value=ast.Constant(value=str(text)))
                | ast.AnnAssign(target=ast.Name(id="CODE"), value=ast.Constant(value=str(text)))
            ):
                return text
            case _:
                continue
    return None


def test_every_field_of_a_record_is_on_the_page_in_its_order_and_no_other() -> None:
    fields: list[str] = []
    for name in Record.__struct_fields__:
        fields += [name, *(f"usage.{inner}" for inner in Usage.__struct_fields__ if name == "usage")]
    assert listed("field") == fields


def test_a_field_that_the_page_calls_always_there_is_required_and_no_other() -> None:
    always = [name.strip("`") for name, _, absent in table("field") if absent == ""]
    assert always == [field.name for field in msgspec.structs.fields(Record) if field.required]


def test_every_code_of_the_bridge_is_on_the_page_and_no_other() -> None:
    assert listed("code") == sorted(codes())


def test_every_code_has_a_status_a_meaning_and_a_remedy() -> None:
    for code, status, what, remedy in table("code"):
        assert re.fullmatch(r"[45]\d\d(, [45]\d\d)*", status), code
        assert what, code
        assert remedy, code


def test_every_metric_is_on_the_page_in_its_order_and_no_other() -> None:
    transport = FakeTransport()
    text = Metrics(a_bridge(transport), transport).text()
    assert listed("metric") == re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)


def test_every_route_is_on_the_page() -> None:
    bridge = a_bridge(FakeTransport())
    served = Routes(bridge, Gate(None, None), Metrics(bridge, bridge.transport)).app().routes
    shown = PAGE.partition("## Routes")[2].partition("\n## ")[0]
    for route in served:
        path = str(getattr(route, "path", ""))
        plain = path.replace("{rollout_id}", "ID").replace("{name:path}", "NAME")
        # The page says of two families that they stand behind a rollout's prefix as well.
        family = plain.replace("/v1/rollouts/ID/models", "/v1/models")
        call = next((f"/v1{d.path}" for d in DIALECTS.values() if path.endswith(d.path)), None)
        assert f"{call or family}`" in shown, path


def test_every_total_is_on_the_page() -> None:
    shown = PAGE.partition("## Usage, closing, transcript")[2].partition("\n## ")[0]
    assert [name for name in Totals.__struct_fields__ if f"`{name}`" not in shown] == []


def test_codes_are_found_wherever_an_error_gets_one() -> None:
    tree = ast.parse(
        "A(code='a'); A(code='b' if x == 'no' else y or 'c'); e.code = f.code or 'd'; code = 'e' if z else 'f'\n"
        "A(code=CODE); A(name='no'); _TRANSPORT_FAULTS: dict[str, int] = {'no': (1, 'g')}; A(code=str(f('no')))"
    )
    assert sorted(of_code(tree, {"CODE": "h"})) == list("abcdefgh")
