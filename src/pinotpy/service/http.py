"""The HTTP kit: declared routes become one application, with a fast path in front of FastAPI.

    app = build_app("broker", [*health_routes, *query_routes], access=…, metrics=…, ready=…)
    server = serve(app, "127.0.0.1", 8099)

Handlers get FastAPI's own parameters; `visit_of(request)` says who asks. Whatever a handler raises becomes
`{"code", "error"}` (http_errors.py). The fast path costs about a seventh of a FastAPI route and passes the same guard.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from pinotpy import __version__
from pinotpy.cluster.patience import Patience, patience_var
from pinotpy.errors import AccessDeniedError, NotFoundError, PayloadTooLargeError, PinotError
from pinotpy.service.access import AccessControl, Credentials
from pinotpy.service.addresses import TrustedProxies
from pinotpy.service.forwarded_peers import ForwardedPeers
from pinotpy.service.http_errors import error_answer
from pinotpy.service.http_guard import Visit, admit, asker_of, asker_var, check_headers, limited, request_id_of
from pinotpy.service.http_protocol import CONNECTION_KEY
from pinotpy.service.known_heads import KnownHeads
from pinotpy.service.logs import request_id_var
from pinotpy.service.metrics import Metrics
from pinotpy.service.rights import Action, Resource, table_resource
from pinotpy.service.routes import BODY_MAX_BYTES, FastRequest, FastResponse, Route, StreamedResponse, TargetKind
from pinotpy.service.standard_routes import standard_routes
from pinotpy.service.streaming import send_pieces

_log = logging.getLogger(__name__)
_REDIRECTS = (301, 302, 303, 307, 308)
_SAFE_METHODS = ("GET", "HEAD")


class HttpApp:
    """An ASGI application of declared routes. `fastapi` is the part behind the fast path."""

    def __init__(self, role: str, routes: Sequence[Route], access: AccessControl, metrics: Metrics) -> None:
        self.role, self.access, self.metrics = role, access, metrics
        self.fastapi = FastAPI(
            title=f"pinotpy {role}", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
        )
        self.fastapi.router.route_class = self._route_class()
        self._fast: dict[tuple[str, str], Route] = {}
        self.known_heads = KnownHeads()
        self.proxies = TrustedProxies()
        self.forwarded: ForwardedPeers | None = None  # of a daemon that others pass requests on to
        self.store_patience_s: float | None = None  # how long a request waits for a store that hangs
        self.takes_changes_by_get = False  # see http_guard.LEGACY_GET_CHANGES
        self._num_good, self._latencies = (
            metrics.tally("httpRequests", status="2xx"),
            metrics.timings("httpRequestLatency"),
        )
        for route in routes:
            self._register(route)
        for kind in (PinotError, RequestValidationError, HTTPException, Exception):
            self.fastapi.add_exception_handler(kind, self._answer_error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.fastapi(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # Answered as GET with the same right; the server itself leaves the body out, since its own scope still says
            # HEAD.
            scope = {**scope, "method": "GET"}
        started_ns = time.perf_counter_ns()
        route = self._fast.get((scope["method"], scope["path"]))
        if route is None:
            status = await self._answer_slow(scope, receive, send)
        else:
            status = await self._answer_fast(route, scope, receive, send)
        self.metrics.count("httpRequests", status=f"{status // 100}xx")
        self.metrics.observe("httpRequestLatency", (time.perf_counter_ns() - started_ns) / 1e9)

    # --- registration ----------------------------------------------------------------------------------------------

    def _register(self, route: Route) -> None:
        options: dict[str, Any] = {"tags": [route.tag], "response_model": None, **route.options}
        # The documentation page shows which right an operation takes.
        options["openapi_extra"] = {
            **(options.get("openapi_extra") or {}),
            "x-right": "" if route.target.kind is TargetKind.PUBLIC else f"{route.action} on {route.target}",
        }
        endpoint = route.handler
        if route.is_fast:
            assert (route.method, route.path) not in self._fast, f"{route.method} {route.path} is declared twice"
            self._fast[(route.method, route.path)] = route
            endpoint = _documented_only(route)
        self.fastapi.router.add_api_route(route.path, endpoint, methods=[route.method], **options)
        registered = self.fastapi.router.routes[-1]
        assert isinstance(registered, APIRoute)
        registered.declaration = route  # type: ignore[attr-defined]

    def _route_class(self) -> type[APIRoute]:
        app = self

        class DeclaredRoute(APIRoute):
            """Runs the guard before FastAPI reads the body; a route without declaration is never answered."""

            declaration: Route | None = None

            def get_route_handler(self) -> Callable[[Request], Any]:
                handle = super().get_route_handler()

                async def guarded(request: Request) -> Response:
                    assert self.declaration is not None, f"route {self.path} was registered without a declaration"
                    return await app._guard(self.declaration, request, handle)

                return guarded

        return DeclaredRoute

    # --- answering -------------------------------------------------------------------------------------------------

    async def _guard(self, route: Route, request: Request, handle: Callable[[Request], Any]) -> Response:
        visit = Visit(route, self.access, self.metrics, request_id_var.get(), self._peer(request.scope))
        visit.takes_changes_by_get = self.takes_changes_by_get
        request.scope["pinotpy.visit"] = visit
        await admit(visit, request.scope, request.path_params)
        asker_var.set(asker_of(visit))
        check_headers(request.scope["headers"], route.body_max_bytes)
        status = 500
        try:
            response: Response = await handle(Request(request.scope, limited(request.receive, visit), request._send))
            status = response.status_code
        except HTTPException as problem:
            status = problem.status_code
            if visit.body_too_large:  # FastAPI reports whatever happens while it reads a body as 400
                status = 413
                raise PayloadTooLargeError(f"the body is over {route.body_max_bytes} bytes") from problem
            raise
        except PinotError as problem:
            status = problem.http_status
            raise
        except RequestValidationError:
            status = 400
            raise
        finally:
            if (route.method not in _SAFE_METHODS or visit.changes) and status != 403:
                visit.record(
                    "change",
                    visit.asked or route.action,
                    ", ".join(str(resource) for resource in visit.resources[:10]) or str(route.target),
                    status,
                )
        needs_check = route.target.kind is TargetKind.IN_HANDLER and response.status_code < 400
        assert visit.checked or not needs_check, (
            f"handler of {route.method} {route.path} answered without asking for a right"
        )
        return response

    async def _answer_slow(self, scope: Scope, receive: Receive, send: Send) -> int:
        request_id = request_id_of(scope["headers"])
        token = request_id_var.set(request_id)
        # Of the whole request, with what layers around the routes do.
        patience = None if self.store_patience_s is None else Patience(self.store_patience_s)
        patience_token = patience_var.set(patience)
        status = 500

        async def send_noting_status(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                if status in _REDIRECTS:
                    headers = [(name, _relative(value) if name == b"location" else value) for name, value in headers]
                message["headers"] = [*headers, (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.fastapi(scope, receive, send_noting_status)
        except Exception:
            # Starlette answers 500 through our handler (which logs) and then raises again for its server: seen already.
            if status != 500:
                _log.exception("answer broke off path=%s", scope["path"][:200])
        finally:
            patience_var.reset(patience_token)
            request_id_var.reset(token)
        return status

    async def _answer_fast(self, route: Route, scope: Scope, receive: Receive, send: Send) -> int:
        visit = Visit(route, self.access, self.metrics, request_id_of(scope["headers"]), self._peer(scope))
        token = request_id_var.set(visit.request_id)
        try:
            answer = await self._answered(visit, scope, None, limited(receive, visit))
            if isinstance(answer, StreamedResponse):
                await self._stream(scope, send, answer)
            else:
                await _send(send, answer.status, answer.body, answer.content_type, answer.headers)
            return answer.status
        except asyncio.CancelledError:
            raise
        except ClientGoneError:
            return 499
        finally:
            request_id_var.reset(token)

    async def _stream(self, scope: Scope, send: Send, answer: StreamedResponse) -> None:
        connection = scope.get(CONNECTION_KEY)
        try:
            await send_pieces(send, answer, connection, has_chunks=scope["http_version"] != "1.0")
        except Exception as problem:
            if connection is not None:
                connection.break_off(scope["path"], problem)
            raise ClientGoneError from problem

    def fast_route(self, method: str, path: str) -> Route | None:
        """The route that answers before FastAPI, if one does."""
        return self._fast.get((method, path))

    async def answer_whole(
        self, route: Route, scope: Scope, body: bytes, *, is_known: bool = False
    ) -> FastResponse | StreamedResponse:
        """Answer a fast route's request that is here as a whole. Raises ClientGoneError when the client hung up
        meanwhile.

        `is_known`: its head passed the checks before (known_heads.py), names nobody, and who asks is all that is left
            to find out.
        """
        started_ns = time.perf_counter_ns()
        visit = Visit(route, self.access, self.metrics, request_id_of(scope["headers"]), self._peer(scope))
        request_id_var.set(visit.request_id)  # in the context of this request's own task
        status = 499
        try:
            answer = await self._answered(visit, scope, body, None, is_known=is_known)
            status = answer.status
            return answer
        finally:
            if 200 <= status < 300:
                self._num_good.add()
            else:
                self.metrics.count("httpRequests", status=f"{status // 100}xx")
            self._latencies.add((time.perf_counter_ns() - started_ns) / 1e9)

    async def _answered(
        self, visit: Visit, scope: Scope, body: bytes | None, receive: Receive | None, *, is_known: bool = False
    ) -> FastResponse | StreamedResponse:
        """The answer of a fast route; its body is given, or received after the caller is known."""
        route, headers = visit.route, scope["headers"]
        try:
            principal = self.access.recall(Credentials(peer=visit.peer)) if is_known else None
            if principal is not None:
                visit.principal = principal
            else:
                await admit(visit, scope, {})
                check_headers(headers, route.body_max_bytes)
            if body is None:
                assert receive is not None
                body = await _read_body(receive)
            elif len(body) > route.body_max_bytes:
                raise PayloadTooLargeError(f"the body is over {route.body_max_bytes} bytes")
            request = FastRequest(
                scope["method"],
                scope["path"],
                scope["query_string"],
                headers,
                body,
                visit.peer,
                visit.request_id,
                visit.principal.name,
                visit.allows,
                visit.sees,
            )
            answer = await _while_listened_to(scope, route.handler(request))
            return FastResponse(answer) if isinstance(answer, bytes) else answer
        except (asyncio.CancelledError, ClientGoneError):
            raise
        except Exception as problem:
            status, content, extra = error_answer(problem, metrics=self.metrics)
            return FastResponse(content, status, headers=(*extra, (b"x-request-id", visit.request_id.encode())))

    async def admit(self, scope: Scope) -> Visit | None:
        """Check the head of a request whose body is read by somebody else than its route: identity, rights, size. None:
        there is no such route. Raises what `http_guard.admit` and `check_headers` raise.
        """
        for route in self.fastapi.router.routes:
            match, found = route.matches(scope)
            if match is not Match.FULL:
                continue
            declaration = getattr(route, "declaration", None)
            if declaration is None:
                return None
            visit = Visit(declaration, self.access, self.metrics, request_id_var.get(), self._peer(scope))
            visit.takes_changes_by_get = self.takes_changes_by_get
            await admit(visit, scope, found.get("path_params", {}))
            check_headers(scope["headers"], declaration.body_max_bytes)
            return visit
        return None

    def _peer(self, scope: Scope) -> str:
        client = scope.get("client")
        if not client:
            return ""
        peer = self.proxies.client(str(client[0]), scope["headers"])
        return peer if self.forwarded is None else self.forwarded.client(peer, scope["headers"])

    async def _answer_error(self, request: Request, problem: Exception) -> Response:
        if (
            isinstance(problem, HTTPException)
            and problem.status_code in (404, 405)
            and "pinotpy.visit" not in request.scope
        ):
            # The framework's own words for what no route matched.
            text = (
                "no such path: /help lists what there is"
                if problem.status_code == 404
                else f"{request.method} is not taken here: /help lists what is"
            )
            problem = HTTPException(problem.status_code, text, problem.headers)
        status, content, extra = error_answer(problem, metrics=self.metrics)
        response = Response(content, status, media_type="application/json")
        response.raw_headers.extend(extra)
        return response


class ClientGoneError(Exception):
    """The client hung up before its request was complete, or before it was answered."""


async def _while_listened_to(scope: Scope, answer: Awaitable[Any]) -> Any:
    """`answer`, cancelled when the client hangs up: what it asked for must not go on costing threads."""
    connection = scope.get(CONNECTION_KEY)
    if connection is None:
        return await answer
    task = connection.answering = asyncio.current_task()
    try:
        return await answer
    except asyncio.CancelledError:
        if connection.transport is not None and not connection.transport.is_closing():
            raise
        assert task is not None
        task.uncancel()
        raise ClientGoneError from None
    finally:
        connection.answering = None


async def _read_body(receive: Receive) -> bytes:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    parts = [body]
    while message.get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        parts.append(message.get("body", b""))
    return b"".join(parts)


async def _send(
    send: Send, status: int, body: bytes, content_type: bytes, extra: Iterable[tuple[bytes, bytes]]
) -> None:
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _relative(location: bytes) -> bytes:
    """A redirect within this daemon: without the host, which is what the client said it is."""
    url = urlsplit(location.decode("latin-1"))
    return urlunsplit(("", "", "/" + url.path.lstrip("/"), url.query, "")).encode("latin-1")


def _documented_only(route: Route) -> Callable[..., Any]:
    async def answered_before() -> None:
        raise AssertionError(f"{route.method} {route.path} is answered by the fast path")

    answered_before.__name__ = getattr(route.handler, "__name__", "fast")
    answered_before.__doc__ = route.handler.__doc__
    return answered_before


# --- for handlers --------------------------------------------------------------------------------------------------


def visit_of(request: Request) -> Visit:
    """Who asks: principal, peer, request id."""
    visit = request.scope["pinotpy.visit"]
    assert isinstance(visit, Visit)
    return visit


def authorise(request: Request, action: Action, resource: Resource) -> None:
    """For IN_HANDLER routes: raise AccessDeniedError unless the caller may do `action` on `resource`."""
    visit_of(request).require(action, resource)


def authorise_known(request: Request, action: Action, resource: Resource, unknown: str) -> None:
    """As `authorise`, for what was found by an id that says nothing of its table: raises NotFoundError with the text
    `unknown`, as if there were no such id.
    """
    try:
        authorise(request, action, resource)
    except AccessDeniedError:
        raise NotFoundError(unknown) from None


def visible_tables(request: Request, tables: Iterable[str], action: Action = Action.READ) -> list[str]:
    """Those of `tables` that the caller may see; the others are as if they did not exist."""
    visit = visit_of(request)
    return [name for name in tables if visit.access.is_allowed(visit.principal, action, table_resource(name))]


# --- building ------------------------------------------------------------------------------------------------------


def build_app(
    role: str,
    routes: Iterable[Route],
    *,
    access: AccessControl,
    metrics: Metrics,
    ready: Callable[[], str | None],
    settings: Callable[[], dict[str, Any]] = dict,
    body_max_bytes: int = BODY_MAX_BYTES,
    remark: Callable[[], str] = str,
) -> HttpApp:
    """One application of `routes` and the standard ones (/health, /metrics, /version, /docs …).

    `ready` returns None when the daemon serves, else why not; `remark` what is wrong although it serves; `settings` the
    effective settings with secrets masked; `body_max_bytes` holds for routes that declare no limit of their own.
    """
    app: HttpApp | None = None

    def openapi() -> dict[str, Any]:
        assert app is not None
        return app.fastapi.openapi()

    declared = [*routes, *standard_routes(role, metrics, ready, settings, openapi, remark)]
    limited_routes = [
        replace(route, body_max_bytes=body_max_bytes) if route.body_max_bytes == BODY_MAX_BYTES else route
        for route in declared
    ]
    app = HttpApp(role, limited_routes, access, metrics)
    walk_routes(app)
    return app


def walk_routes(app: HttpApp) -> list[Route]:
    """Every declared route of `app`. AssertionError if anything can be reached without a declaration."""
    return [_declaration(route) for route in app.fastapi.router.routes]


def _declaration(route: BaseRoute) -> Route:
    declaration = getattr(route, "declaration", None)
    assert isinstance(route, APIRoute) and isinstance(declaration, Route), (
        f"{getattr(route, 'path', route)} is reachable without a declared right"
    )
    return declaration


__all__ = ["HttpApp", "authorise", "authorise_known", "build_app", "visible_tables", "visit_of", "walk_routes"]
