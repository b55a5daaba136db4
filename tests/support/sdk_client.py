"""An official client, sync or async by turns, that calls the bridge in the name of a rollout of its own."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from bridge_process import BridgeProcess

_NUMBERS = itertools.count(1)


class SdkClient:
    """One client; `kind` is sync or async, `classes` are the SDK's two, `asked` what every request holds.

    `resource` is the SDK's attribute that creates (`messages`, `responses`), `final` names its assembler's result.
    """

    classes: tuple[Any, Any]
    resource: str
    final: str
    asked: dict[str, Any]

    def __init__(self, bridge: BridgeProcess, kind: str) -> None:
        self.kind = kind
        self.rollout_id = f"sdk-{next(_NUMBERS)}"
        self._bridge = bridge

    @property
    def options(self) -> dict[str, Any]:
        """What both kinds are made with; nothing is retried."""
        return {
            "base_url": self._bridge.base_url(self.rollout_id),
            "api_key": self._bridge.bearer(self.rollout_id),
            "max_retries": 0,
            "timeout": 20.0,
        }

    def create(self, **fields: Any) -> Any:
        """One answer; with `stream=True` the list of its events."""
        if self.kind == "async":
            return asyncio.run(self._create_async(fields))
        with self.classes[0](**self.options) as client:
            answer = getattr(client, self.resource).create(**{**self.asked, **fields})
            return list(answer) if fields.get("stream") else answer

    async def _create_async(self, fields: dict[str, Any]) -> Any:
        async with self.classes[1](**self.options) as client:
            answer = await getattr(client, self.resource).create(**{**self.asked, **fields})
            return [event async for event in answer] if fields.get("stream") else answer

    def assemble(self, **fields: Any) -> Any:
        """The answer that the client's own assembler makes of a stream."""
        if self.kind == "async":
            return asyncio.run(self._assemble_async(fields))
        with (
            self.classes[0](**self.options) as client,
            getattr(client, self.resource).stream(**{**self.asked, **fields}) as events,
        ):
            return getattr(events, self.final)()

    async def _assemble_async(self, fields: dict[str, Any]) -> Any:
        async with (
            self.classes[1](**self.options) as client,
            getattr(client, self.resource).stream(**{**self.asked, **fields}) as events,
        ):
            return await getattr(events, self.final)()

    @property
    def record(self) -> dict[str, Any]:
        """The one record of the rollout."""
        return self._bridge.record(self.rollout_id)
