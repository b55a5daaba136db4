"""OpenAI's elder completions, said as chat completions: one prompt is one message of the user's, and its answer a text.

What only a completion can be asked for (an echo, a suffix, tokens, several prompts) is refused. Reasoning and refusals,
for which a text completion has no member, stand beside the text under the names they have in chat. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from osmosis_bridge.errors import Refused, UpstreamFailed
from osmosis_bridge.native.jsontree import Json, as_items, as_object
from osmosis_bridge.native.spoken.translation import Translation, cannot_say, encode_json
from osmosis_bridge.sse import encode_event

_DONE: Final = b"data: [DONE]\n\n"
_DEFAULTS: Final[Mapping[str, tuple[Json, ...]]] = {
    "best_of": (None, 1),
    "echo": (None, False),
    "logprobs": (None, False),
    "suffix": (None, ""),
}
"""What only a completion can be asked for, and the values that ask for nothing."""
_CHAT_ONLY: Final = frozenset(
    {
        "audio",
        "function_call",
        "functions",
        "messages",
        "modalities",
        "parallel_tool_calls",
        "tool_choice",
        "tools",
    }
)
_BESIDE: Final = ("reasoning_content", "refusal")


def say_completions(fields: Mapping[str, Json]) -> Completions:
    """The chat request; raises `Refused` for what a chat completion cannot be asked for."""
    for name in fields:
        if name in _CHAT_ONLY:
            raise cannot_say(name, "text completions have no such field; send chat completions")
        if name in _DEFAULTS and not _is_default(name, fields[name]):
            raise cannot_say(name, "it is reached by chat completions, which cannot be asked for it")
    return Completions(fields)


def _is_default(name: str, value: Json) -> bool:
    return any(
        value is default or (value == default and type(value) is type(default)) for default in _DEFAULTS[name]
    )


def _prompt(given: Json) -> tuple[str, str]:
    """The one text, and where the client wrote it."""
    if isinstance(given, str):
        return given, "prompt"
    items = as_items(given)
    if len(items) == 1 and isinstance(items[0], str):
        return items[0], "prompt[0]"
    if not items:
        raise Refused("prompt must be a text", code="invalid_prompt", param="prompt")
    if all(isinstance(item, str) for item in items):
        raise cannot_say("prompt", f"it holds {len(items)} prompts, and this model takes one a call")
    raise cannot_say("prompt", "it holds tokens; send the text itself")


class Completions(Translation):
    """One prompt."""

    def __init__(self, fields: Mapping[str, Json]) -> None:
        text, place = _prompt(fields.get("prompt"))
        stream = fields.get("stream") is True
        rest = {name: value for name, value in fields.items() if name not in _DEFAULTS and name != "prompt"}
        options = {"stream_options": {**as_object(fields.get("stream_options")), "include_usage": True}}
        turns: list[Json] = [{"role": "user", "content": text}]
        self.request = {**rest, **(options if stream else {}), "messages": turns, "stream": stream}
        self.sources = {"messages": place, "messages[0].content": place}
        self.left_out = {name: "it asks for nothing" for name in fields if name in _DEFAULTS}

    def reply(self, completion: Mapping[str, Json]) -> dict[str, Json]:
        """A text completion."""
        choices = [
            _choice(choice, as_object(choice.get("message")))
            for choice in map(as_object, as_items(completion.get("choices")))
        ]
        return _envelope(completion, choices)

    def chunk(self, chunk: Mapping[str, Json]) -> bytes:
        """One event; none for a chunk without text, an end or usage."""
        choices = [
            _choice(choice, as_object(choice.get("delta")))
            for choice in map(as_object, as_items(chunk.get("choices")))
        ]
        told = [choice for choice in choices if _says_something(choice)]
        if not told and chunk.get("usage") is None:
            return b""
        return encode_event(encode_json(_envelope(chunk, told)))

    def end(self) -> bytes:
        """`[DONE]`."""
        return _DONE


def _says_something(choice: Mapping[str, Json]) -> bool:
    return any(choice.get(name) for name in ("text", "finish_reason", *_BESIDE))


def _choice(choice: Mapping[str, Json], said: Mapping[str, Json]) -> dict[str, Json]:
    if said.get("tool_calls") or said.get("function_call"):
        raise UpstreamFailed(
            "the model called a tool, which a text completion cannot say", code="invalid_upstream_reply"
        )
    kept: dict[str, Json] = {
        "text": _text(said.get("content")),
        "index": choice.get("index") or 0,
        "logprobs": None,
        "finish_reason": choice.get("finish_reason"),
    }
    return kept | {name: said[name] for name in _BESIDE if said.get(name)}


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    return "".join(str(as_object(part).get("text") or "") for part in as_items(content))


def _envelope(made: Mapping[str, Json], choices: list[dict[str, Json]]) -> dict[str, Json]:
    told: dict[str, Json] = {
        "id": made.get("id"),
        "object": "text_completion",
        "created": made.get("created"),
        "model": made.get("model"),
        "choices": cast("list[Json]", choices),
    }
    for name in ("usage", "system_fingerprint", "service_tier"):
        if made.get(name) is not None:
            told[name] = made[name]
    return told
