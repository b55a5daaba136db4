"""OpenAI embeddings: a plain reply with vectors that are passed on unread."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from osmosis_bridge.call import Admitted, Outcome
from osmosis_bridge.dialects.alias import with_alias
from osmosis_bridge.dialects.chat_body import ABSENT, FALSY, said_name
from osmosis_bridge.dialects.dialect import AnswerFailed, Dialect
from osmosis_bridge.dialects.members import FieldReader
from osmosis_bridge.dialects.stream import Stream
from osmosis_bridge.dialects.typed import BOM, no_answer
from osmosis_bridge.errors import Refused
from osmosis_bridge.policy import Envelope
from osmosis_bridge.redact import Redactor
from osmosis_bridge.usage import read_usage

_WANTED = "list of embeddings (no list `data`) from /embeddings"


class _Body(msgspec.Struct, gc=False):
    model: Raw = ABSENT
    data: Raw = ABSENT
    usage: Raw = ABSENT
    error: Raw = ABSENT


_read_body = FieldReader(_Body)


class EmbeddingsDialect(Dialect):
    """`/embeddings`: `input` in, a list of vectors out; there are no streams."""

    def read_reply(self, body: bytes, admitted: Admitted, redactor: Redactor) -> tuple[bytes, Outcome]:
        """The reply, its `model` the client's own name."""
        body = body.removeprefix(BOM)
        found = _read_body(body)
        if found is None:
            raise no_answer(body, redactor, {}, _WANTED)
        usage, cost = read_usage(bytes(found.usage))
        outcome = Outcome(
            status="ok",
            http_status=200,
            usage=usage,
            usage_source="missing" if usage is None else "provider",
            cost_usd=cost,
            served_model=said_name(bytes(found.model)),
        )
        if bytes(found.error) not in FALSY or bytes(found.data)[:1] != b"[":
            raise AnswerFailed(no_answer(body, redactor, {}, _WANTED), outcome)
        return redactor.scrub(with_alias(body, bytes(found.model), admitted.alias_json)), outcome

    def open_stream(self, admitted: Admitted, redactor: Redactor) -> Stream:
        """There is none."""
        raise Refused("embeddings have no stream", code="invalid_stream", param="stream")


EMBEDDINGS_DIALECT = EmbeddingsDialect("embeddings", "/embeddings", Envelope("input", streams=False))
