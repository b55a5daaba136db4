"""The conversation of chat completions as the input of Responses.

Rules for whoever edits this file:

- a turn that Responses gave before goes back as the items it gave, in their order and with their reasoning, as long as
  the turn still says what they say;
- what an item has no place for is refused, never dropped.

Pure. Raises `Refused` naming the place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from osmosis_bridge.errors import Refused
from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.turns import refuse_turn

OUTPUT: Final = "openai_output"
"""The member of `provider_specific_fields` that keeps the items of a turn."""
_NO_PLACE: Final = "OpenAI's Responses has no place for it"
_TURN: Final = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "refusal", "provider_specific_fields"}
)
_SAYS_NOTHING: Final = frozenset({"annotations"})
"""What describes an earlier answer and is no part of the conversation."""
_Reader = Callable[[dict[str, Json], str], dict[str, Json]]


def input_of(messages: Json) -> list[dict[str, Json]]:
    """The items of a conversation."""
    if not isinstance(messages, list) or not messages:
        raise Refused(
            "messages must be a list with at least one message", code="invalid_messages", param="messages"
        )
    items: list[dict[str, Json]] = []
    custom: set[str] = set()
    for n, message in enumerate(as_items(messages)):
        place = f"messages[{n}]"
        if not isinstance(message, dict):
            raise Refused(f"{place} must be an object", code="invalid_messages", param=place)
        turn = {name: value for name, value in as_object(message).items() if value not in (None, [], "")}
        turn["content"] = as_object(message).get("content")
        role = turn.get("role")
        if role == "assistant":
            said = _assistant(turn, place)
            custom |= {item["call_id"] for item in said if item["type"] == "custom_tool_call"}
            items += said
        elif role == "tool":
            items.append(_output(turn, place, custom))
        elif role in ("user", "system", "developer"):
            _refuse_unknown(turn, place, "role", "content")
            content = _content(turn["content"], place, _PARTS)
            items.append({"type": "message", "role": role, "content": content})
        else:
            raise refuse_turn(f"{place}.role", f"OpenAI's Responses knows no role {role!r}")
    return items


def object_at(value: Json, place: str) -> dict[str, Json]:
    """The object that stands there; `Refused` where it is none."""
    if not isinstance(value, dict):
        raise refuse_turn(place, "it must be an object")
    return as_object(value)


def list_at(value: Json, place: str) -> list[Json]:
    """The list that stands there; `Refused` where it is none."""
    if not isinstance(value, list):
        raise refuse_turn(place, "it must be a list")
    return as_items(value)


def _refuse_unknown(turn: Mapping[str, Json], place: str, *known: str) -> None:
    for name in turn:
        if name not in known:
            raise refuse_turn(f"{place}.{name}", _NO_PLACE)


def _assistant(turn: dict[str, Json], place: str) -> list[dict[str, Json]]:
    given = [
        as_object(item) for item in as_items(as_object(turn.get("provider_specific_fields")).get(OUTPUT))
    ]
    known = _TURN | _SAYS_NOTHING
    # The items hold the reasoning; its text is a copy.
    _refuse_unknown(turn, place, *(known | {"reasoning_content"} if _reasoning_of(given) else known))
    text = _content(turn["content"], place, _SAID)
    given_calls = list_at(turn.get("tool_calls", []), f"{place}.tool_calls")
    calls = [_call(call, f"{place}.tool_calls[{n}]") for n, call in enumerate(given_calls)]
    refusal = turn.get("refusal")
    if given and _says(given) == _says([_message(text, refusal), *calls]):
        return given
    message = [_message(text, refusal)] if text or refusal else []
    return [*_reasoning_of(given), *message, *calls]


def _reasoning_of(items: list[dict[str, Json]]) -> list[dict[str, Json]]:
    return [item for item in items if item.get("type") == "reasoning"]


def _message(text: Json, refusal: Json) -> dict[str, Json]:
    if not refusal:
        return {"type": "message", "role": "assistant", "content": text}
    parts: list[Json] = (
        [{"type": "output_text", "text": text}] if isinstance(text, str) and text else as_items(text)
    )
    return {
        "type": "message",
        "role": "assistant",
        "content": [*parts, {"type": "refusal", "refusal": refusal}],
    }


def _says(items: list[dict[str, Json]]) -> tuple[str, str, tuple[Json, ...]]:
    """What items say, whatever their form: the text, the refusal, the calls."""
    texts: dict[str, list[str]] = {"text": [], "refusal": []}
    calls: list[Json] = []
    for item in items:
        content = item.get("content") if item.get("type") == "message" else None
        if isinstance(content, str):
            texts["text"].append(content)
        for part in map(as_object, as_items(content)):
            for name, found in texts.items():
                found.append(str(part.get(name) or ""))
        if item.get("type") in ("function_call", "custom_tool_call"):
            calls.append(tuple(item.get(name) for name in ("call_id", "name", "arguments", "input")))
    return "".join(texts["text"]), "".join(texts["refusal"]), tuple(calls)


def _call(call: Json, place: str) -> dict[str, Json]:
    members = {
        name: value for name, value in object_at(call, place).items() if value is not None and name != "index"
    }
    kind = "custom" if "custom" in members else "function"
    _refuse_unknown(members, place, "id", "type", kind)
    inner = object_at(members.get(kind), f"{place}.{kind}")
    said = "input" if kind == "custom" else "arguments"
    _refuse_unknown(inner, f"{place}.{kind}", "name", said)
    for name, value in (("id", members.get("id")), (f"{kind}.name", inner.get("name"))):
        if not isinstance(value, str):
            raise refuse_turn(f"{place}.{name}", "it must be text")
    made = "custom_tool_call" if kind == "custom" else "function_call"
    return {"type": made, "call_id": members["id"], "name": inner["name"], said: inner.get(said) or ""}


def _output(turn: dict[str, Json], place: str, custom: set[str]) -> dict[str, Json]:
    _refuse_unknown(turn, place, "role", "content", "tool_call_id", "name")
    call_id = turn.get("tool_call_id")
    if not isinstance(call_id, str):
        raise refuse_turn(f"{place}.tool_call_id", "it must be text")
    kind = "custom_tool_call_output" if call_id in custom else "function_call_output"
    item = {"type": kind, "call_id": call_id, "output": _content(turn["content"], place, _PARTS)}
    return item | ({"name": turn["name"]} if "name" in turn else {})


def _content(content: Json, place: str, readers: Mapping[str, _Reader]) -> Json:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise refuse_turn(f"{place}.content", "it must be text or a list of parts")
    parts: list[Json] = []
    for n, item in enumerate(as_items(content)):
        at = f"{place}.content[{n}]"
        part = {name: value for name, value in as_object(item).items() if value is not None}
        reader = readers.get(str(part.get("type")))
        if reader is None:
            raise refuse_turn(
                f"{at}.type", f"OpenAI's Responses has no such part ({part.get('type')!r}) here"
            )
        parts.append(reader(part, at))
    return parts


def _rest(part: Mapping[str, Json], *read: str) -> dict[str, Json]:
    return {name: value for name, value in part.items() if name not in read}


def _text(kind: str) -> _Reader:
    return lambda part, place: {"type": kind, "text": part.get("text")} | _rest(part, "type", "text")


def _refusal(part: dict[str, Json], place: str) -> dict[str, Json]:
    return dict(part)


def _image(part: dict[str, Json], place: str) -> dict[str, Json]:
    given = part.get("image_url")
    image = as_object(given) if isinstance(given, dict) else {"url": given}
    _refuse_unknown(image, f"{place}.image_url", "url", "detail")
    said = {"type": "input_image", "image_url": image.get("url"), "detail": image.get("detail") or "auto"}
    return said | _rest(part, "type", "image_url")


def _file(part: dict[str, Json], place: str) -> dict[str, Json]:
    file = {
        name: value
        for name, value in object_at(part.get("file"), f"{place}.file").items()
        if value is not None
    }
    _refuse_unknown(file, f"{place}.file", "file_data", "file_id", "filename")
    return {"type": "input_file"} | file | _rest(part, "type", "file")


_PARTS: Final[Mapping[str, _Reader]] = {"text": _text("input_text"), "image_url": _image, "file": _file}
_SAID: Final[Mapping[str, _Reader]] = {"text": _text("output_text"), "refusal": _refusal}
