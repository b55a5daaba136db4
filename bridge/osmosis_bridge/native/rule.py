"""What may become of one request field in a dialect that is not OpenAI's: the vocabulary of the rule tables.

A rule never loses a field in silence. It is placed by us, handed to LiteLLM and then looked for in what LiteLLM would
send, left out because its absence means the same, or refused. Knows no provider.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from osmosis_bridge.native.jsontree import MISSING, Json, Path, as_items, as_object, same

_OPENAI_CHOICES: Final = frozenset({"allowed_tools", "custom"})
Act = Literal["place", "translate", "absent", "refuse"]
Check = Literal["same", "changed", "words"]

OPENAI_FIELDS: Final = frozenset(
    {
        "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens",
        "max_tokens", "metadata", "modalities", "moderation", "n", "parallel_tool_calls", "prediction",
        "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
        "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream_options",
        "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
    }
)  # fmt: skip
"""The optional fields of OpenAI's chat completions (openai-python 3.57); null means the default for each."""


class Rule(msgspec.Struct, frozen=True):
    """What becomes of one field.

    place      we write `value` at `at[0]` of the outgoing body ourselves; it must stand there when it is sent
    translate  LiteLLM is given the field; the outgoing body must then hold it at one of `at`, as `check` says
    absent     left out: `why` says why that means the same
    refuse     `why` says why it cannot be sent

    `check`: `same` is the value itself; `changed` is any value; `words` is every name and value within the field,
    wherever under `at`. `override` lets a placed value replace one that LiteLLM set by itself. The `why` of a
    translated field says why it may not be found.
    """

    act: Act
    at: tuple[Path, ...] = ()
    value: Json = MISSING
    check: Check = "same"
    why: str = ""
    override: bool = False


class Asked(msgspec.Struct, frozen=True):
    """What a rule may look at: all fields of the request, the model's name there, what LiteLLM says it translates."""

    fields: Mapping[str, Json]
    model: str = ""
    provider: str = ""
    supported: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()


class StrictMode(msgspec.Struct, frozen=True):
    """Where a dialect says for all tools of a call at once that their arguments hold to their schemas.

    `value` is put at `at`, also in place of one of `over`; with one of `enough` there, they hold to them anyway.
    """

    at: Path
    value: Json
    over: tuple[Json, ...] = ()
    enough: tuple[Json, ...] = ()


FieldRule = Callable[[Json, Asked], Rule]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A dialect: its rules by field, the rule for every other field, and what its calls look like.

    `dialect` names how replies are read (`witness.py`); `messages_at` are the members of the outgoing body that hold
    the conversation; `calls` matches the end of a URL path that is a call, every other request being one that LiteLLM
    makes for itself. `relayed` says that the conversation goes and the reply comes as OpenAI has them. `speaks` are the
    routes of the bridge's other dialects that the provider itself speaks.

    `strict_tools_at` is the list of tools on which we set `strict`, where LiteLLM loses it, `strict_mode` what is set
    where the dialect says it for all tools; `cache_mark` what a
    `cache_control` becomes; `reasoning` how an assistant's earlier reasoning is sent back: as signed blocks, by its
    signatures alone, as text, or not at all. `turn_fields` are the fields a message may have beyond those of every
    family, `part_fields` those of a content part. `spellings` says that the provider takes a name in camel case and
    with underscores for the same, so that both cannot be sent.
    """

    name: str
    dialect: str
    rules: Mapping[str, FieldRule]
    other: Callable[[str, Json, Asked], Rule]
    calls: str
    messages_at: tuple[str, ...] = ("messages",)
    relayed: bool = False
    speaks: frozenset[str] = frozenset()
    strict_tools_at: Path | None = None
    strict_mode: StrictMode | None = None
    cache_mark: str | None = None
    reasoning: Literal["blocks", "signatures", "text", "none"] = "none"
    turn_fields: frozenset[str] = frozenset()
    part_fields: frozenset[str] = frozenset()
    spellings: bool = False

    def rule(self, name: str, value: Json, asked: Asked) -> Rule:
        """What becomes of the field `name`."""
        if value is None and name in OPENAI_FIELDS and not self.relayed:
            return absent("null is the default")
        rule = self.rules.get(name)
        return self.other(name, value, asked) if rule is None else rule(value, asked)


def place(*path: str, value: Json = MISSING, override: bool = True) -> Rule:
    """We write it there."""
    return Rule("place", (path,), value=value, override=override)


def translate(*at: Path, check: Check = "same", why: str = "") -> Rule:
    """LiteLLM translates it to one of these places."""
    return Rule("translate", at, check=check, why=why)


def absent(why: str) -> Rule:
    """Leaving it out means the same."""
    return Rule("absent", why=why)


def refuse(why: str) -> Rule:
    """It cannot be sent."""
    return Rule("refuse", why=why)


def placed(*path: str) -> FieldRule:
    """Always there, as it is."""
    rule = place(*path)
    return lambda value, asked: rule


def refused(why: str) -> FieldRule:
    """Never."""
    rule = refuse(why)
    return lambda value, asked: rule


def supported(name: str, *at: Path, check: Check = "changed") -> FieldRule:
    """Translated where LiteLLM says that the model takes it, else refused."""

    def rule(value: Json, asked: Asked) -> Rule:
        if name in asked.supported:
            return translate(*at, check=check)
        return refuse("this model has no such parameter")

    return rule


def only(value: Json, why: str, otherwise: str) -> FieldRule:
    """Left out where it is `value`, which is what happens anyway; else refused."""

    def rule(given: Json, asked: Asked) -> Rule:
        return absent(why) if same(given, value) else refuse(otherwise)

    return rule


def refused_unless(rules: Mapping[str, FieldRule], why: str) -> dict[str, FieldRule]:
    """`rules`, and a refusal for every field of OpenAI's that they do not name."""
    return {name: refused(why) for name in OPENAI_FIELDS} | dict(rules)


def as_list(value: Json) -> Json:
    """A stop sequence is one text or a list of texts; a list."""
    return [value] if isinstance(value, str) else value


def stop_at(*path: str) -> FieldRule:
    """Stop sequences as a list, all of them."""
    return lambda value, asked: place(*path, value=as_list(value))


def usage_option(value: Json, asked: Asked) -> Rule:
    """`stream_options` of a dialect whose streams always end with their usage."""
    options = as_object(value)
    unknown = [
        name for name, inner in options.items() if name != "include_usage" and inner not in (None, False)
    ]
    if unknown or not isinstance(value, dict):
        return refuse("only include_usage is known to this provider's streams")
    return absent("its streams always carry their usage")


def tools_at(*at: Path) -> FieldRule:
    """Tools, translated."""

    def rule(value: Json, asked: Asked) -> Rule:
        if not isinstance(value, list):
            return refuse("tools must be a list")
        if not value:
            return absent("an empty list is no tools")
        if any("custom" in as_object(tool) for tool in as_items(value)):
            return refuse("only functions can be sent; a custom tool is OpenAI's")
        if "tools" not in asked.supported:
            return refuse("this model takes no tools")
        return translate(*at, check="words")

    return rule


def with_tools(rule: FieldRule, why: str = "it stands for nothing without tools") -> FieldRule:
    """A field that needs tools; refused without, as OpenAI does, and where it chooses in a way that is OpenAI's."""

    def checked(value: Json, asked: Asked) -> Rule:
        if kind_of(value) in _OPENAI_CHOICES:
            return refuse(f"{kind_of(value)!r} is a choice of OpenAI's; choose one function by its name")
        return rule(value, asked) if asked.fields.get("tools") else refuse(why)

    return checked


def kind_of(value: Json) -> str:
    """The `type` of an object such as `response_format`; empty where it has none."""
    kind = as_object(value).get("type")
    return kind if isinstance(kind, str) else ""
