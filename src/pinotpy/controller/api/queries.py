"""Queries through the controller, for the query page and old clients: passed on to a broker, answered with its own
bytes.

As in Pinot this is never an HTTP error: what fails stands in `exceptions`. The caller's credentials go along; the
broker decides.
"""

from __future__ import annotations

import logging
import random
import re
from typing import Any

import httpx
import orjson
from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from pinotpy.controller.api.bodies import json_body
from pinotpy.controller.context import Controller
from pinotpy.errors import PinotError, RemoteError, ServerUnreachableError
from pinotpy.names import raw_table_name
from pinotpy.service.routes import EACH_TABLE, Action, Routes

LOG = logging.getLogger(__name__)

BROKER_PATHS = {"pql": "/query", "sql": "/query/sql"}
JSON_ERROR = 100
# Only to prefer a broker that serves the table: brokers parse, and a broker that does not know the table says so.
_FROM = re.compile(r"\bfrom\s+[\"`]?([A-Za-z0-9_][\w.\-]*)", re.IGNORECASE)
PASSED_HEADERS = ("authorization", "x-request-id")


class NoBrokerError(RemoteError):
    """No live broker takes the query (Pinot: BrokerResourceMissingError)."""

    code = 410


def query_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Query")

    async def answer(request: Request, dialect: str, document: dict[str, Any]) -> Response:
        if dialect not in document:
            return _refusal(JSON_ERROR, f"JsonParsingError: JSON Payload is missing the query string field '{dialect}'")
        try:
            # Whatever it contains, brokers parse it and report its errors.
            content, content_type = await _ask_brokers(controller, request, dialect, str(document[dialect]), document)
        except PinotError as error:
            return _refusal(error.code, error.message)
        return Response(content, media_type=content_type)

    for dialect in BROKER_PATHS:
        _declare(routes, dialect, answer)
    return routes


def _declare(routes: Routes, dialect: str, answer: Any) -> None:
    name = dialect.upper()

    @routes.post(
        f"/{dialect}",
        Action.READ,
        EACH_TABLE,
        summary=f"Run a {name} query on a broker",
        operation_id=f"{dialect}_post",
        openapi_extra=json_body(
            f"The query text under '{dialect}'; further keys go to the broker.",
            example={dialect: "select count(*) from flights"},
        ),
    )
    async def post_query(request: Request) -> Response:
        try:
            document = orjson.loads(await request.body())
        except orjson.JSONDecodeError as error:
            return _refusal(JSON_ERROR, f"JsonParsingError: {error}")
        if not isinstance(document, dict):
            return _refusal(JSON_ERROR, "JsonParsingError: expected a JSON object")
        return await answer(request, dialect, document)  # type: ignore[no-any-return]

    @routes.get(
        f"/{dialect}", Action.READ, EACH_TABLE, summary=f"Run a {name} query on a broker", operation_id=f"{dialect}_get"
    )
    async def get_query(
        request: Request,
        query: str | None = Query(None, alias=dialect, description="The query."),
        trace: str | None = Query(None, description="true: with a trace."),
        queryOptions: str | None = Query(None, description="Options as k=v;k=v."),
    ) -> Response:
        document = {dialect: query, "trace": trace, "queryOptions": queryOptions}
        return await answer(request, dialect, {key: value for key, value in document.items() if value is not None})  # type: ignore[no-any-return]


async def _ask_brokers(
    controller: Controller, request: Request, dialect: str, text: str, document: dict[str, Any]
) -> tuple[bytes, str]:
    """Ask live brokers in random order, those of the table first, until one answers."""
    urls = await run_in_threadpool(_broker_urls, controller, text)
    if not urls:
        raise NoBrokerError("no broker is live: start one with 'pinotpy start-broker'")
    headers = {name: request.headers[name] for name in PASSED_HEADERS if name in request.headers}
    body = orjson.dumps(document)
    for url in urls:
        try:
            timeout_s = controller.settings.broker_timeout_ms / 1000
            answer = await controller.async_peers.post(
                url + BROKER_PATHS[dialect],
                content=body,
                headers={**headers, "content-type": "application/json"},
                timeout=timeout_s,
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            LOG.warning("broker cannot be reached broker=%s error=%s", url, type(error).__name__)
            continue
        except httpx.HTTPError as error:
            raise ServerUnreachableError(
                f"the broker at {url} broke off ({type(error).__name__}); the query may have run"
            ) from error
        return answer.content, answer.headers.get("content-type", "application/json")
    raise NoBrokerError(f"none of {len(urls)} live brokers can be reached")


def _broker_urls(controller: Controller, text: str) -> list[str]:
    catalog = controller.catalog
    configs = catalog.instances([name for name in catalog.live_instances() if name.startswith("Broker_")])
    match = _FROM.search(text)
    raw_name = raw_table_name(match.group(1)) if match else ""
    serving = {
        broker
        for table, brokers in catalog.serving_brokers().items()
        if raw_table_name(table) == raw_name
        for broker in brokers
    }
    names = [name for name, config in configs.items() if config.is_enabled]
    random.shuffle(names)
    names.sort(key=lambda name: name not in serving)
    return [f"{controller.scheme}://{configs[name].host}:{configs[name].port}" for name in names]


def _refusal(code: int, message: str) -> Response:
    """A broker's answer without result."""
    document = {
        "exceptions": [{"errorCode": code, "message": message}],
        "numServersQueried": 0,
        "numServersResponded": 0,
        "partialResult": True,
    }
    return Response(orjson.dumps(document), media_type="application/json")
