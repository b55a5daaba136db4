"""The providers whose embeddings are not OpenAI's: where each field of a request stands there, and what comes back.

Sources: the public references of batchEmbedContents, Vertex's predict, Titan, Nova, Cohere's embed and Ollama's embed;
and what LiteLLM was measured to do. A `*` in a place stands for every item of the list above it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from osmosis_bridge.native.embeddings import vectors
from osmosis_bridge.native.embeddings.vectors import Read
from osmosis_bridge.native.jsontree import Json, as_items, as_object, at
from osmosis_bridge.native.rule import (
    Asked,
    Family,
    FieldRule,
    Rule,
    absent,
    place,
    placed,
    refuse,
    refused,
    translate,
)

EACH: Final = "*"
_NOT_THERE: Final = "this provider's embeddings have no such parameter"
_TASKS: Final = {
    "search_query": "RETRIEVAL_QUERY",
    "search_document": "RETRIEVAL_DOCUMENT",
    "classification": "CLASSIFICATION",
    "clustering": "CLUSTERING",
}
"""Cohere's words for what a text is, which many clients use, in Gemini's."""


class Embeds(msgspec.Struct, frozen=True, kw_only=True):
    """How one provider embeds.

    `dialect` is the table of fields. `fill` puts texts in the place of the one text of a body that LiteLLM has made,
    `texts` reads them back out of a body; `read` reads a reply. `signed` says that LiteLLM must make the whole body,
    since a signature covers it; `one` that a call holds one text.
    """

    dialect: Family
    texts: Callable[[Json], list[Json]]
    fill: Callable[[Mapping[str, Json], list[str]], dict[str, Json]]
    read: Read
    signed: bool = False
    one: bool = False


def _encoding(value: Json, asked: Asked) -> Rule:
    if value in (None, "float"):
        return absent("vectors of numbers are what the provider gives")
    if value == "base64":
        return absent("the bridge makes it of the provider's numbers")
    return refuse("float and base64 are what there is")


def _unless_null(rule: FieldRule) -> FieldRule:
    return lambda value, asked: absent("null is the default") if value is None else rule(value, asked)


def _task(*path: str) -> FieldRule:
    return lambda value, asked: place(
        *path, value=_TASKS.get(value, value) if isinstance(value, str) else value
    )


def _floats_only(value: Json, asked: Asked) -> Rule:
    if value == ["float"]:
        return absent("vectors of numbers are what is asked for")
    return refuse("OpenAI's embeddings are numbers; of the provider's types only float can be said")


def _family(
    name: str, calls: str, rules: Mapping[str, FieldRule], other: Callable[[str, Json, Asked], Rule]
) -> Family:
    common: dict[str, FieldRule] = {"encoding_format": _encoding, "user": refused(_NOT_THERE)}
    known = common | {field: _unless_null(rule) for field, rule in rules.items()}
    return Family(name=name, dialect="embeddings", rules=known, other=other, calls=calls)


def _other_at(*above: str) -> Callable[[str, Json, Asked], Rule]:
    return lambda name, value, asked: place(*above, name, override=False)


def _other_through(*above: str) -> Callable[[str, Json, Asked], Rule]:
    """Of a signed request: LiteLLM is given the field, and it must be found again."""

    def rule(name: str, value: Json, asked: Asked) -> Rule:
        if name in asked.reserved:
            return refuse("the translator keeps this name for itself")
        return translate((*above, name), why=_NOT_THERE)

    return rule


def _through(*path: str) -> FieldRule:
    return lambda value, asked: translate(path, why=_NOT_THERE)


def _in_each(
    name: str, text_at: tuple[str, ...]
) -> Callable[[Mapping[str, Json], list[str]], dict[str, Json]]:
    """A list of items with one text each, made of the first."""

    def fill(body: Mapping[str, Json], texts: list[str]) -> dict[str, Json]:
        first = as_object(next(iter(as_items(body.get(name))), None))
        return dict(body) | {name: [_with_text(first, text_at, text) for text in texts]}

    return fill


def _with_text(item: Mapping[str, Json], path: tuple[str, ...], text: str) -> dict[str, Json]:
    head, *rest = path
    if not rest:
        return dict(item) | {head: text}
    return dict(item) | {head: _with_text(as_object(item.get(head)), tuple(rest), text)}


def _parts(item: Mapping[str, Json], text: str) -> dict[str, Json]:
    return dict(item) | {"content": as_object(item.get("content")) | {"parts": [{"text": text}]}}


def _requests(body: Mapping[str, Json], texts: list[str]) -> dict[str, Json]:
    first = as_object(next(iter(as_items(body.get("requests"))), None))
    return dict(body) | {"requests": [_parts(first, text) for text in texts]}


def _text_of_parts(item: Json) -> Json:
    """The text of an item with one part that is text and nothing else."""
    parts = as_items(at(item, ("content", "parts")))
    return (
        as_object(parts[0]).get("text")
        if len(parts) == 1 and as_object(parts[0]).keys() == {"text"}
        else None
    )


GEMINI: Final = Embeds(
    dialect=_family(
        "gemini embeddings",
        r":batchEmbedContents",
        {
            "dimensions": placed("requests", EACH, "outputDimensionality"),
            "input_type": _task("requests", EACH, "taskType"),
            "task_type": placed("requests", EACH, "taskType"),
        },
        _other_at("requests", EACH),
    ),
    texts=lambda body: [_text_of_parts(item) for item in as_items(at(body, ("requests",)))],
    fill=_requests,
    read=vectors.gemini,
)
GEMINI_SINGLE: Final = Embeds(
    dialect=_family(
        "gemini embeddings",
        r":embedContent",
        {
            "dimensions": placed("outputDimensionality"),
            "input_type": _task("taskType"),
            "task_type": placed("taskType"),
        },
        _other_at(),
    ),
    texts=lambda body: [_text_of_parts(body)],
    fill=lambda body, texts: _parts(body, texts[0]),
    read=vectors.gemini,
    one=True,
)
VERTEX: Final = Embeds(
    dialect=_family(
        "vertex embeddings",
        r":predict",
        {
            "dimensions": placed("parameters", "outputDimensionality"),
            "input_type": _task("instances", EACH, "task_type"),
            "task_type": placed("instances", EACH, "task_type"),
            "title": placed("instances", EACH, "title"),
        },
        _other_at("parameters"),
    ),
    texts=lambda body: [as_object(item).get("content") for item in as_items(at(body, ("instances",)))],
    fill=_in_each("instances", ("content",)),
    read=vectors.vertex,
)
COHERE: Final = Embeds(
    dialect=_family(
        "cohere embeddings",
        r"/embed",
        {
            "dimensions": placed("output_dimension"),
            "input_type": placed("input_type"),
            "embedding_types": _floats_only,
        },
        _other_at(),
    ),
    texts=lambda body: as_items(at(body, ("texts",))),
    fill=lambda body, texts: dict(body) | {"texts": texts},
    read=vectors.cohere,
)
OLLAMA: Final = Embeds(
    dialect=_family(
        "ollama embeddings",
        r"/api/embed",
        {
            "dimensions": placed("dimensions"),
            "keep_alive": placed("keep_alive"),
            "truncate": placed("truncate"),
            "options": lambda value, asked: place("options", override=False),
        },
        _other_at("options"),
    ),
    texts=lambda body: as_items(at(body, ("input",))),
    fill=lambda body, texts: dict(body) | {"input": texts},
    read=vectors.ollama,
)
TITAN: Final = Embeds(
    dialect=_family(
        "titan embeddings",
        r"/invoke",
        {"dimensions": _through("dimensions"), "embeddingTypes": _floats_only},
        _other_through(),
    ),
    texts=lambda body: [at(body, ("inputText",))],
    fill=lambda body, texts: dict(body),
    read=vectors.titan,
    signed=True,
    one=True,
)
NOVA: Final = Embeds(
    dialect=_family(
        "nova embeddings",
        r"/invoke",
        {"dimensions": _through("singleEmbeddingParams", "embeddingDimension")},
        _other_through("singleEmbeddingParams"),
    ),
    texts=lambda body: [at(body, ("singleEmbeddingParams", "text", "value"))],
    fill=lambda body, texts: dict(body),
    read=vectors.nova,
    signed=True,
    one=True,
)
COHERE_ON_BEDROCK: Final = Embeds(
    dialect=_family(
        "cohere embeddings on bedrock",
        r"/invoke",
        {
            "dimensions": _through("output_dimension"),
            "input_type": _through("input_type"),
            "embedding_types": _floats_only,
        },
        _other_through(),
    ),
    texts=lambda body: as_items(at(body, ("texts",))),
    fill=lambda body, texts: dict(body),
    read=vectors.cohere,
    signed=True,
)
_OF_BEDROCK: Final = (
    ("titan-embed-text", TITAN),
    ("titan-embed-g1", TITAN),
    ("cohere.embed", COHERE_ON_BEDROCK),
    ("amazon.nova", NOVA),
)


_BY_PROVIDER: Final = {
    "cohere": COHERE,
    "cohere_chat": COHERE,
    "gemini": GEMINI,
    "ollama": OLLAMA,
    "ollama_chat": OLLAMA,
}


def embeds_of(provider: str, model: str) -> Embeds | None:
    """How a model of a provider embeds, None where nothing of it is known here."""
    name = model.lower()
    if provider == "bedrock":
        known = next((embeds for part, embeds in _OF_BEDROCK if part in name), None)
        return known if "embed" in name else None
    if provider in ("vertex_ai", "vertex_ai_beta"):
        if "embedding" not in name:
            return None
        return GEMINI_SINGLE if "gemini-embedding-2" in name else VERTEX
    return _BY_PROVIDER.get(provider)
