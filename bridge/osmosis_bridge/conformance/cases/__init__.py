"""All cases, by kind."""

from __future__ import annotations

from osmosis_bridge.conformance.case import Case
from osmosis_bridge.conformance.cases import (
    access,
    content,
    controls,
    dialects,
    endings,
    envelope,
    errors,
    fields,
    framing,
    inbound,
    leaving,
    retries,
    secrets,
    transport,
    usage,
    values,
)

ALL: tuple[Case, ...] = (
    *fields.CASES,
    *values.CASES,
    *envelope.CASES,
    *controls.CASES,
    *usage.CASES,
    *framing.CASES,
    *endings.CASES,
    *content.CASES,
    *errors.CASES,
    *secrets.CASES,
    *leaving.CASES,
    *retries.CASES,
    *transport.CASES,
    *inbound.CASES,
    *access.CASES,
    *dialects.CASES,
)
