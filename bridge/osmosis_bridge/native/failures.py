"""What went wrong on the way through LiteLLM, in our words. Pure."""

from __future__ import annotations

import re
from typing import Final

import httpx

from osmosis_bridge.errors import BridgeError, Refused, UpstreamFailed
from osmosis_bridge.native.plan import CODE
from osmosis_bridge.redact import Redactor

_NAMES: Final = re.compile(r"\['([^\]]*)'\]")
_NO_KEY: Final = re.compile(r"(?i)\bmissing [\w ]*(?:key|credentials|token|jwt)\b")
_NO_GOOGLE: Final = re.compile(r"No module named 'google'|Google Cloud SDK not found")
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


def not_translated(error: Exception, text: str, refusals: tuple[type[Exception], ...]) -> BridgeError:
    """What a client is told where LiteLLM made no request; `text` is its reason, cleaned.

    `refusals` are LiteLLM's errors for a field that it has no translation for.
    """
    if isinstance(error, refusals):
        names = _NAMES.search(str(error))
        param = names.group(1).partition("'")[0] if names else None
        return Refused(
            f"{param or 'a field'} cannot be sent to this model: LiteLLM has no translation for it",
            code=CODE,
            param=param,
        )
    if _NO_GOOGLE.search(str(error)):
        hint = "Vertex AI needs Google's own library to authorise calls: pip install google-auth requests"
        return BridgeError(hint, status=501, code="google_auth_missing")
    status = getattr(error, "status_code", 400)
    if status == 401 or _NO_KEY.search(str(error)):
        return BridgeError(
            f"no call was made: {text}", status=401, type="authentication_error", code="no_credentials"
        )
    if isinstance(status, int) and 400 <= status < 500:
        return Refused(f"LiteLLM cannot translate this request: {text}", code="not_translatable")
    return BridgeError(f"LiteLLM failed on this request, nothing was sent: {text}", code="native_lane_failed")
