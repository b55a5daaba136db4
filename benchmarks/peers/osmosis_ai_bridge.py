# pyright: basic, reportMissingImports=false
"""The bridge that osmosis-ai starts for its evaluations, by itself. Runs in that package's own environment.

osmosis_ai_bridge.py PORT UPSTREAM_URL KEY BEARER
"""

import asyncio
import sys

from osmosis_ai.eval.local.listener import LlmBridgeListener
from osmosis_ai.eval.local.llm_bridge import LiteLLMBridge


async def main() -> None:
    port, upstream, key, bearer = sys.argv[1:]
    bridge = LiteLLMBridge(model="openai/mock-1", api_key=key, api_base=upstream)
    await LlmBridgeListener(bridge, auth_token=bearer, port=int(port)).start()
    await asyncio.Event().wait()


asyncio.run(main())
