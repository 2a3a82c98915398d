"""The routes that every daemon has: health, metrics, version, settings, functions, and the documentation pages, which
work offline.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import Response

from pinotpy import __version__
from pinotpy.errors import NotFoundError
from pinotpy.functions.listing import function_list
from pinotpy.service.metrics import EXPOSITION_CONTENT_TYPE, Metrics
from pinotpy.service.routes import CLUSTER, PUBLIC, Action, Routes

OK_STATUS = 200
_PAGE = Path(__file__).resolve().parent / "docs_page"
_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "docs.css": "text/css; charset=utf-8",
}
# The pages load nothing from elsewhere, run no inline script, and cannot be framed.
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
    "'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def standard_routes(
    role: str,
    metrics: Metrics,
    ready: Callable[[], str | None],
    settings: Callable[[], dict[str, Any]],
    openapi: Callable[[], dict[str, Any]],
    remark: Callable[[], str] = str,
) -> Routes:
    """Declare them. `ready` returns None or why the daemon does not serve; `remark` what is wrong although it does."""
    routes = Routes("Daemon")

    def readiness() -> Response:
        reason = ready()
        if reason is None:
            return Response("OK", media_type="text/plain")
        return Response(f"not ready: {reason}", 503, media_type="text/plain")

    @routes.get("/health", Action.READ, PUBLIC, summary="OK when the daemon serves, else 503")
    async def health() -> Response:
        return readiness()

    @routes.get("/health/readiness", Action.READ, PUBLIC, summary="OK when the daemon serves, else 503")
    async def health_readiness() -> Response:
        answer = readiness()
        told = remark() if answer.status_code == OK_STATUS else ""
        return Response(f"OK\n{told}", media_type="text/plain") if told else answer

    @routes.get("/health/liveness", Action.READ, PUBLIC, summary="OK while the process answers")
    async def health_liveness() -> Response:
        return Response("OK", media_type="text/plain")

    @routes.get("/version", Action.READ, PUBLIC, summary="Version of pinotpy")
    async def version() -> dict[str, str]:
        return {"pinotpy": __version__, "role": role}

    @routes.get("/metrics", Action.READ, CLUSTER, summary="Metrics in Prometheus' text form")
    def metrics_text() -> Response:
        metrics.set("ready", ready() is None)
        return Response(metrics.render(), headers={"content-type": EXPOSITION_CONTENT_TYPE})

    @routes.get("/debug/config", Action.ADMIN, CLUSTER, only_reads=True, summary="Effective settings, secrets masked")
    def debug_config() -> dict[str, Any]:
        return settings()

    @routes.get("/functions", Action.READ, CLUSTER, summary="Functions of queries and ingestion that this daemon knows")
    def functions() -> dict[str, Any]:
        return {"functions": function_list()}

    @routes.get("/openapi.json", Action.READ, PUBLIC, include_in_schema=False)
    async def openapi_json() -> dict[str, Any]:
        return openapi()

    async def page() -> Response:
        return _file("index.html")

    for path in ("/docs", "/help"):
        routes.get(path, Action.READ, PUBLIC, include_in_schema=False)(page)

    @routes.get("/docs/{file}", Action.READ, PUBLIC, include_in_schema=False)
    async def page_file(file: str) -> Response:
        return _file(file)

    return routes


def _file(name: str) -> Response:
    if name not in _TYPES:
        raise NotFoundError("no such page")
    return Response((_PAGE / name).read_bytes(), headers={"content-type": _TYPES[name], **PAGE_HEADERS})
