# pyright: basic, reportMissingImports=false
"""TensorZero's HTTP gateway as its Python wheel carries it. Runs in that package's own environment.

tensorzero_gateway.py CONFIG URL_FILE
"""

import asyncio
import sys
from pathlib import Path

from openai import AsyncOpenAI
from tensorzero import patch_openai_client


async def main() -> None:
    client = await patch_openai_client(
        AsyncOpenAI(api_key="unused"), config_file=sys.argv[1], async_setup=True
    )
    Path(sys.argv[2]).write_text(str(client.base_url))
    await asyncio.Event().wait()


asyncio.run(main())
