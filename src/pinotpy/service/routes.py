"""Routes as declarations: method, path, handler, and what right it takes. Nothing can be served without one.

A resource's file in `<role>/api/` reads:

    routes = Routes("Table")

    @routes.get("/tables/{tableName}", Action.READ, table("tableName"), summary="Config of a table")
    def get_table(tableName: str) -> dict[str, object]: ...

and the role hands all its `Routes` to `http.build_app`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pinotpy.service.rights import Action, Resource, ResourceKind

__all__ = [
    "CLUSTER",
    "EACH_TABLE",
    "IN_HANDLER",
    "PUBLIC",
    "Action",
    "ChangeByGet",
    "FastRequest",
    "FastResponse",
    "Route",
    "Routes",
    "StreamedResponse",
    "Target",
    "instance",
    "table",
    "table_in_query",
]

Handler = TypeVar("Handler", bound=Callable[..., Any])

# A request body without a limit of its own: schemas, configs, queries.
BODY_MAX_BYTES = 8 << 20
_CHANGING = ("PUT", "POST", "DELETE")


class TargetKind(StrEnum):
    """How the resource of a request is found."""

    PUBLIC = "public"
    FIXED = "fixed"
    PATH = "path"
    QUERY = "query"
    EACH = "each"
    IN_HANDLER = "in handler"


@dataclass(frozen=True, slots=True)
class Target:
    """The resource that a route acts on: fixed, or named by a path or query parameter, or known to the handler only."""

    kind: TargetKind
    resource_kind: ResourceKind = ResourceKind.CLUSTER
    parameter: str = ""

    def __str__(self) -> str:
        if self.kind in (TargetKind.PUBLIC, TargetKind.IN_HANDLER, TargetKind.EACH):
            return self.kind.value
        return f"{self.resource_kind.value}{f' {self.parameter}' if self.parameter else ''}"


# Anybody may read it, also without credentials: liveness, documentation pages.
PUBLIC = Target(TargetKind.PUBLIC)
CLUSTER = Target(TargetKind.FIXED, ResourceKind.CLUSTER)
# The resource is named in the body: the handler calls `http.authorise` itself, and the kit checks that it did.
IN_HANDLER = Target(TargetKind.IN_HANDLER)
# A list over all tables: anybody known may ask, the handler shows what `http.visible_tables` leaves.
EACH_TABLE = Target(TargetKind.EACH, ResourceKind.TABLE)


def table(parameter: str) -> Target:
    """The table named by a path parameter, with or without type suffix."""
    return Target(TargetKind.PATH, ResourceKind.TABLE, parameter)


def table_in_query(parameter: str) -> Target:
    """The table named by a query parameter; without it, all tables."""
    return Target(TargetKind.QUERY, ResourceKind.TABLE, parameter)


def instance(parameter: str) -> Target:
    """The instance named by a path parameter."""
    return Target(TargetKind.PATH, ResourceKind.INSTANCE, parameter)


@dataclass(slots=True)
class FastRequest:
    """What a fast route's handler gets: the whole body, and who asks (`allows` says whether they may; so does `sees`,
    without a line in the audit trail).
    """

    method: str
    path: str
    query_string: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    peer: str
    request_id: str
    principal_name: str
    allows: Callable[[Action, Resource], bool]
    sees: Callable[[Action, Resource], bool]

    def header(self, name: bytes) -> bytes | None:
        """The first header of this lower-case name."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True)
class FastResponse:
    """An answer of a fast route that is not plain JSON with status 200."""

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class StreamedResponse:
    """An answer of a fast route that is sent as HTTP chunks, each made when the client has taken most of those before.

    pieces: made on the event loop, so each within a few milliseconds. One that raises breaks the connection off, so
    that the client sees that the answer is not whole.
    """

    pieces: Iterator[bytes | memoryview]
    content_type: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeByGet:
    """A route that changes something, and is reached by GET for old clients' sake.

    instead: the request of other method that does the same. when: the query parameter without which it only reads;
    empty: it always changes something.
    """

    instead: str
    when: str = ""

    def is_asked(self, query_string: bytes) -> bool:
        """Whether a request with this query string changes something."""
        if not self.when:
            return True
        pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)
        return any(name == self.when for name, _ in pairs)


FastHandler = Callable[[FastRequest], Awaitable[bytes | FastResponse | StreamedResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """One declared route. `is_fast`: answered before FastAPI (the broker's query path); FastAPI only documents it.
    `change`: what a GET changes. `only_reads`: a GET that takes more than READ and changes nothing.

    Whoever declares a GET that takes more than READ says which of the two it is, or the daemon does not start: what a
    page of a browser may reach is then known of every route (http_guard).
    """

    method: str
    path: str
    handler: Callable[..., Any]
    action: Action
    target: Target
    tag: str = ""
    body_max_bytes: int = BODY_MAX_BYTES
    is_fast: bool = False
    change: ChangeByGet | None = None
    only_reads: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        is_get = self.method in ("GET", "HEAD")
        if self.change is not None:
            assert is_get and not self.only_reads, f"{self}: `change` is of GET, and not beside `only_reads`"
            assert self.change.instead.split()[0] in _CHANGING, f"{self}: say which of {_CHANGING} does it instead"
        elif is_get and self.action is not Action.READ:
            assert self.only_reads, f"{self}: say what it changes (`change`), or that it changes nothing (`only_reads`)"

    def __str__(self) -> str:
        return f"{self.method} {self.path}: {self.action} on {self.target}"


class Routes:
    """The routes of one resource, in order. `tag` groups them on the documentation page."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._routes: list[Route] = []

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def add(
        self,
        method: str,
        path: str,
        action: Action,
        target: Target,
        *,
        body_max_bytes: int = BODY_MAX_BYTES,
        change: ChangeByGet | None = None,
        only_reads: bool = False,
        **options: Any,
    ) -> Callable[[Handler], Handler]:
        """Declare a route; `options` go to FastAPI (summary, status_code, response_class, openapi_extra …)."""

        def declare(handler: Handler) -> Handler:
            if target.parameter and target.kind is TargetKind.PATH:
                assert f"{{{target.parameter}}}" in path, f"{method} {path} has no path parameter '{target.parameter}'"
            route = Route(
                method, path, handler, action, target, self.tag, body_max_bytes, False, change, only_reads, options
            )
            self._routes.append(route)
            return handler

        return declare

    def get(self, path: str, action: Action, target: Target, **options: Any) -> Callable[[Handler], Handler]:
        return self.add("GET", path, action, target, **options)

    def post(self, path: str, action: Action, target: Target, **options: Any) -> Callable[[Handler], Handler]:
        return self.add("POST", path, action, target, **options)

    def put(self, path: str, action: Action, target: Target, **options: Any) -> Callable[[Handler], Handler]:
        return self.add("PUT", path, action, target, **options)

    def delete(self, path: str, action: Action, target: Target, **options: Any) -> Callable[[Handler], Handler]:
        return self.add("DELETE", path, action, target, **options)

    def fast(
        self,
        method: str,
        path: str,
        action: Action,
        target: Target,
        *,
        body_max_bytes: int = BODY_MAX_BYTES,
        only_reads: bool = False,
        **options: Any,
    ) -> Callable[[FastHandler], FastHandler]:
        """Declare a route that is answered before FastAPI: `async (FastRequest) -> bytes | FastResponse |
        StreamedResponse`, a fixed path.
        """
        assert "{" not in path, f"a fast route has a fixed path, not {path}"

        def declare(handler: FastHandler) -> FastHandler:
            route = Route(
                method, path, handler, action, target, self.tag, body_max_bytes, True, None, only_reads, options
            )
            self._routes.append(route)
            return handler

        return declare
