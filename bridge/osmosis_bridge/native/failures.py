"""What went wrong on the way through LiteLLM, in our words. Pure."""

from __future__ import annotations

import re
from typing import Final

import httpx

from osmosis_bridge.errors import UpstreamFailed
from osmosis_bridge.redact import Redactor

_PREFIX: Final = re.compile(r"^(?:litellm\.)?\w*(?:Error|Exception): (?:litellm\.\w+: )?")
_ADVICE: Final = re.compile(
    r"(?i)[^.;\n]*\.?(?:drop_params|allowed_openai_params|modify_params)[^.;\n]*[.;]?"
)


def clean(text: str) -> str:
    """LiteLLM's words without its own names in front and its advice to drop parameters."""
    first = text.split("\nTraceback", 1)[0]
    return _ADVICE.sub("", _PREFIX.sub("", first)).strip() or "it gave no reason"


def transport_failure(error: httpx.TransportError, redactor: Redactor) -> UpstreamFailed:
    """What a client is told of a fault on the way to the provider: 502, or 504 where time ran out."""
    late = isinstance(error, httpx.TimeoutException)
    detail = redactor.message(str(error) or type(error).__name__)
    return UpstreamFailed(
        f"the provider could not be reached: {detail}",
        status=504 if late else 502,
        code="upstream_timeout" if late else "upstream_unreachable",
    )
