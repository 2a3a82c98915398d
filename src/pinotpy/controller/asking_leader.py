"""One request to the lead controller, which is waited for as long as it lives."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from pinotpy.errors import NotLeaderError

# A leader that has much to do is waited for as long as it answers its health check. One that hangs is not, and clients
# hear of it within 5 s.
HEALTH_AFTER_S = 2.0
HEALTH_TIMEOUT_S = 1.2
HEALTH_ASKED = 2
WORK_TIMEOUT_S = 120.0


async def ask_leader(client: httpx.AsyncClient, method: str, base: str, target: str, **parts: Any) -> httpx.Response:
    """Its answer.

    Args:
        base: its URL. target: path and query. parts: headers and content.

    Raises:
        httpx.HTTPError: it cannot be reached, or breaks off.
        NotLeaderError: it hangs.
    """
    timeout = httpx.Timeout(WORK_TIMEOUT_S, connect=HEALTH_ASKED * HEALTH_TIMEOUT_S)
    base = base.rstrip("/")
    answer = asyncio.create_task(client.request(method, base + target, timeout=timeout, **parts))
    num_silent = 0
    try:
        while not (await asyncio.wait({answer}, timeout=0 if num_silent else HEALTH_AFTER_S))[0]:
            num_silent = 0 if await _is_alive(client, base) else num_silent + 1
            if num_silent == HEALTH_ASKED and not answer.done():
                raise NotLeaderError(
                    f"the lead controller at {base} hangs, it answers no health check either; whether it does what it "
                    "was asked for is not known: look before you try again"
                )
        return answer.result()
    finally:
        answer.cancel()


async def _is_alive(client: httpx.AsyncClient, base: str) -> bool:
    try:
        await asyncio.wait_for(client.get(f"{base}/health/liveness"), HEALTH_TIMEOUT_S)
    except (httpx.HTTPError, TimeoutError):
        return False
    return True
