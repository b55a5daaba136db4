"""The catalogue of providers: what a prefix of a model path stands for.

Two kinds: a **wire** provider takes OpenAI's JSON at `{base}/chat/completions` with a bearer key, a **native** one has
a dialect of its own. `provider_table.py` says which is which, as LiteLLM was found to treat them. Knows no route, no
environment and no wire format.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

import msgspec

from osmosis_bridge.provider_table import NATIVE, WIRE

LOCAL_PREFIX: Final = "local"

# Where a provider without an address of its own, or with a dialect of its own, takes OpenAI's JSON. For messages only:
# capitals are the operator's to fill in.
OPENAI_ENDPOINTS: Final[Mapping[str, str]] = {
    "anthropic": "https://api.anthropic.com/v1",
    "azure": "https://RESOURCE.openai.azure.com/openai/v1",
    "azure_ai": "https://RESOURCE.services.ai.azure.com/openai/v1",
    "bedrock": "https://bedrock-runtime.REGION.amazonaws.com/openai/v1",
    "bedrock_mantle": "https://bedrock-mantle.REGION.api.aws/v1",
    "clarifai": "https://api.clarifai.com/v2/ext/openai/v1",
    "cloudflare": "https://api.cloudflare.com/client/v4/accounts/ACCOUNT_ID/ai/v1",
    "cohere": "https://api.cohere.ai/compatibility/v1",
    "cohere_chat": "https://api.cohere.ai/compatibility/v1",
    "databricks": "https://WORKSPACE.cloud.databricks.com/serving-endpoints",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "heroku": "https://us.inference.heroku.com",
    "hosted_vllm": "http://localhost:8000/v1",
    "litellm_proxy": "http://localhost:4000/v1",
    "lm_studio": "http://localhost:1234/v1",
    "snowflake": "https://ACCOUNT.snowflakecomputing.com/api/v2/cortex/v1",
    "vertex_ai": ("https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/endpoints/openapi"),
    "xinference": "http://localhost:9997/v1",
}

_SIMILAR: Final = 0.7
"""Below this likeness (difflib's, 0..1) a hint would be a guess: `nope` is as like `openai` as 0.6."""
_LOOPBACK: Final = ("http://localhost:", "http://127.0.0.1:")


class WireProvider(msgspec.Struct, frozen=True):
    """A provider that takes OpenAI's JSON.

    `base_url` is empty where the operator must give one. Variables stand in order of precedence. `base_suffix` is put
    behind a base that is given, unless it ends so; `model_prefix` before a model's name, unless it begins so.
    """

    prefix: str
    base_url: str
    key_variables: tuple[str, ...]
    base_variables: tuple[str, ...]
    base_suffix: str
    model_prefix: str

    @property
    def hosted(self) -> bool:
        """Whether the provider answers at an address of its own on the internet, and so wants a key."""
        return bool(self.base_url) and not self.base_url.startswith(_LOOPBACK)


class NativeProvider(msgspec.Struct, frozen=True):
    """A provider whose own dialect is not OpenAI's; `key_variables` in order of precedence."""

    prefix: str
    key_variables: tuple[str, ...]


def find_wire(prefix: str) -> WireProvider | None:
    """The wire provider of this exact prefix.

    Beside the variables LiteLLM reads for its base, `PREFIX_API_BASE` is read for every provider.
    """
    row = next((row for row in WIRE if row[0] == prefix), None)
    if row is None:
        return None
    name, base_url, keys, bases, suffix, model_prefix = row
    usual = name.upper().replace("-", "_") + "_API_BASE"
    return WireProvider(name, base_url, keys, tuple(dict.fromkeys((*bases, usual))), suffix, model_prefix)


def find_native(prefix: str) -> NativeProvider | None:
    """The native provider of this exact prefix."""
    return next((NativeProvider(*row) for row in NATIVE if row[0] == prefix), None)


def nearest_prefixes(prefix: str, count: int = 3) -> list[str]:
    """Known prefixes that a slip of the finger may have turned into this one, best first."""
    known = [LOCAL_PREFIX, *(row[0] for row in WIRE), *(row[0] for row in NATIVE)]
    wanted = prefix.lower().replace("-", "_")
    if wanted in known:
        return [wanted]
    return get_close_matches(wanted, known, count, _SIMILAR)
