"""Proves that at stop what handlers use is closed after the last running request, not below it."""

from __future__ import annotations

import asyncio
import threading

import httpx

from pinotpy.service.access import AllowAll
from pinotpy.service.http import build_app
from pinotpy.service.http_server import serve
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.routes import PUBLIC, Action, Routes


def test_what_handlers_use_is_closed_after_the_last_request() -> None:
    asked, closed = threading.Event(), list[bool]()
    routes = Routes("Toy")

    @routes.get("/slow", Action.READ, PUBLIC)
    async def slow() -> dict[str, bool]:
        asked.set()
        await asyncio.sleep(1.0)
        return {"was_closed": bool(closed)}

    async def close() -> None:
        closed.append(True)

    server = serve(
        build_app("broker", routes, access=AllowAll(), metrics=Metrics("broker", BROKER_METRICS), ready=lambda: None),
        "127.0.0.1",
        0,
    )
    server.close_last(close)
    answers: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(httpx.get(f"{server.url}/slow", timeout=60, trust_env=False))
    )
    asking.start()
    assert asked.wait(60)
    server.stop(60.0)
    asking.join(60)
    assert answers[0].json() == {"was_closed": False} and closed == [True]
