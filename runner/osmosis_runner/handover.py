"""Which secrets of a run its rollout is given: all that `[secrets]` names, but for the key that the bridge uses.

A key is told by its value, whatever name it was given: a rollout with a key of its own, for a judge of another
provider or of the same one, gets it, and calls that are made with the bridge's are all in the ledger. Knows
the catalogue of providers; no process and no file. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from osmosis_bridge.providers import NativeProvider, find_native, find_wire

if TYPE_CHECKING:
    from collections.abc import Mapping

FLAG = "--pass-provider-key"

_STEMS: Mapping[str, tuple[str, ...]] = {
    "azure": ("AZURE",),
    "bedrock": ("AWS",),
    "gemini": ("GOOGLE", "GEMINI"),
    "sagemaker": ("AWS",),
    "vertex": ("GOOGLE", "VERTEX"),
}
"""How variables begin that a translated provider is reached with; of others, with its own first word."""
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|JWT")


@dataclass(frozen=True, slots=True)
class Handover:
    """What a rollout is given of the secrets, and what is the bridge's."""

    given: Mapping[str, str] = field(repr=False)
    withheld: tuple[str, ...] = ()
    """Names that `[secrets]` lists and the rollout does not see."""
    shared: tuple[str, ...] = ()
    """Names of the bridge's keys that it sees, because the operator said so."""

    def note(self, model_path: str) -> str | None:
        """What the operator should know, or None."""
        if self.withheld:
            names, stays = ", ".join(self.withheld), "stays" if len(self.withheld) == 1 else "stay"
            return f"{names} {stays} with the bridge, which calls {model_path} with it; {FLAG} hands it to the rollout"
        if self.shared:
            names = ", ".join(self.shared)
            return f"the rollout sees {names} ({FLAG}); what it calls with it itself is in no record and no figure"
        return None

    def hint(self, text: str) -> str:
        """What to add to a message about a rollout that may have missed a withheld name; empty when it did not."""
        missed = [name for name in self.withheld if name in text]
        return (
            f"; {', '.join(missed)} stays with the bridge ({FLAG} hands it to the rollout)" if missed else ""
        )


def hand_over(secrets: Mapping[str, str], credentials: Mapping[str, str], *, share: bool) -> Handover:
    """Part the secrets; `credentials` are what the bridge uses, `share` is the operator's word to give all."""
    used = {value.strip() for value in credentials.values()} - {""}
    names = tuple(name for name, value in secrets.items() if value.strip() in used)
    if share:
        return Handover(dict(secrets), shared=names)
    return Handover({name: value for name, value in secrets.items() if name not in names}, names)


def bridge_credentials(
    model_path: str, api_key_env: str | None, environ: Mapping[str, str]
) -> dict[str, str]:
    """The variables of `environ` that the bridge may reach the model's provider with."""
    prefix, slash, _ = model_path.partition("/")
    provider = (find_wire(prefix) or find_native(prefix)) if slash else None
    names = {api_key_env} if api_key_env else set(provider.key_variables if provider else ())
    if isinstance(provider, NativeProvider):
        names |= set(provider.key_variables)
        names |= {name for name in environ if _is_of(prefix, name)}
    return {name: environ[name] for name in sorted(names) if environ.get(name, "").strip()}


def _is_of(prefix: str, name: str) -> bool:
    """Whether a variable says by its name that it is a credential of this translated provider."""
    first = re.split(r"[_-]", prefix)[0]
    stems = _STEMS.get(first, (first.upper(),))
    return name.startswith(stems) and _SECRET_NAME.search(name) is not None
