"""The checks of every request before its handler: identity, rights, size of the body.

Used by FastAPI's routes and by the fast path alike. Authentication comes before the first byte of the body is read.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from starlette.types import Message, Receive, Scope

from pinotpy.errors import AccessDeniedError, AuthenticationError, PayloadTooLargeError, UserError
from pinotpy.service import audit
from pinotpy.service.access import DAEMON, AccessControl, Credentials, require
from pinotpy.service.addresses import counted_address
from pinotpy.service.errors import LoginThrottledError, MethodNotAllowedError, UnsupportedMediaTypeError
from pinotpy.service.foreign_pages import refuse_foreign, refuse_loads
from pinotpy.service.metrics import Metrics
from pinotpy.service.rights import ANONYMOUS, Action, Principal, PrincipalKind, Resource, ResourceKind, table_resource
from pinotpy.service.routes import ChangeByGet, Route, TargetKind
from pinotpy.service.turn_queue import TurnQueue

_log = logging.getLogger(__name__)
# The setting by which changes by GET are taken from clients without credentials.
LEGACY_GET_CHANGES: Final = "pinot.controller.legacy.get.changes"
# A check of a password costs 32 MiB and a tenth of a second of a core.
LOGINS_AT_ONCE_MAX: Final = 2
# Of one address; the last of them waits for seconds.
LOGINS_WAITING_MAX: Final = 64
_LOGIN_RETRY_S: Final = 2
_PARAMETERS_MAX = 200
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.\-]{1,64}")
# A random start tells processes apart; a count is ten times cheaper than random bytes for each request.
_PROCESS_ID = secrets.token_hex(4)
_REQUEST_NUMBERS = itertools.count(1)


def _logs_in_enough(waiting: int) -> LoginThrottledError:
    return LoginThrottledError(
        f"{waiting} logins from this address wait already: try again", retry_after_s=_LOGIN_RETRY_S
    )


# One for the process: what it bounds is the process' memory and cores.
_logins = TurnQueue("login", LOGINS_AT_ONCE_MAX, LOGINS_WAITING_MAX, _logs_in_enough)


@dataclass(slots=True)
class Visit:
    """One request with its principal.

    checked: whether the handler of an IN_HANDLER route asked for a right. asked: the last right that was asked for.
    changes: a GET that changes something. takes_changes_by_get: also without credentials (LEGACY_GET_CHANGES).
    """

    route: Route
    access: AccessControl
    metrics: Metrics
    request_id: str
    peer: str
    principal: Principal = ANONYMOUS
    checked: bool = False
    asked: Action | None = None
    changes: bool = False
    takes_changes_by_get: bool = False
    body_too_large: bool = False
    resources: list[Resource] = field(default_factory=list)

    def allows(self, action: Action, resource: Resource) -> bool:
        """Whether the principal may; a denial is counted and goes to the audit trail."""
        self.checked, self.asked = True, action
        if resource not in self.resources:
            self.resources.append(resource)
        allowed = self.access.is_allowed(self.principal, action, resource)
        if not allowed:
            self.denied("denied", action, str(resource), 403)
        return allowed

    def sees(self, action: Action, resource: Resource) -> bool:
        """Whether the principal may; for what is left out of an answer otherwise."""
        return self.access.is_allowed(self.principal, action, resource)

    def require(self, action: Action, resource: Resource) -> None:
        """Raise AccessDeniedError unless the principal may."""
        if not self.allows(action, resource):
            require(self.access, self.principal, action, resource)
            raise AccessDeniedError(
                f"no {action} right on {resource}"
            )  # rights changed between two looks: still denied

    def denied(self, event: str, action: Action, resource: str, status: int) -> None:
        """Count and log a refusal."""
        self.metrics.count("accessDenied", reason=event)
        self.record(event, action, resource, status)

    def record(self, event: str, action: Action, resource: str, status: int) -> None:
        """One line of the audit trail."""
        audit.record(
            event,
            principal=self.principal.name,
            action=action,
            resource=resource,
            method=self.route.method,
            path=self.route.path,
            peer=self.peer,
            status=status,
            request_id=self.request_id,
        )


# Who sent the request that is handled here and now, as `asker_of` says.
asker_var: ContextVar[str] = ContextVar("asker", default="")


def asker_of(visit: Visit) -> str:
    """Whom a request is counted for: a user, or an address of those who are not asked for their name."""
    is_nobody = visit.principal.kind is PrincipalKind.ANONYMOUS
    return counted_address(visit.peer) if is_nobody else visit.principal.name


def request_id_of(headers: list[tuple[bytes, bytes]]) -> str:
    """The client's X-Request-Id if it is a harmless name, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return f"{_PROCESS_ID}{next(_REQUEST_NUMBERS) & 0xFFFFFFFF:08x}"


async def admit(visit: Visit, scope: Scope, path_params: Mapping[str, str]) -> None:
    """Authenticate and authorise `visit`; sets its principal. Raises AuthenticationError, AccessDeniedError,
    LoginThrottledError.
    """
    route = visit.route
    if route.target.kind is TargetKind.PUBLIC:
        return
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    credentials = Credentials.from_headers(headers, visit.peer)
    if route.method != "GET":
        refuse_foreign(headers)
    elif route.change is not None and route.change.is_asked(scope["query_string"]):
        _check_change(visit, route.change, headers, credentials)
    try:
        principal = visit.access.recall(credentials)
        if principal is None:
            principal = await _authenticated(visit, credentials)
    except (AuthenticationError, LoginThrottledError) as problem:
        if credentials.authorization or credentials.cluster_token:
            visit.denied("unauthenticated", route.action, str(route.target), problem.http_status)
        raise
    visit.principal = principal
    resource = _resource(route, scope, path_params)
    if resource is not None:
        visit.require(route.action, resource)


async def _authenticated(visit: Visit, credentials: Credentials) -> Principal:
    check = partial(visit.access.authenticate, credentials)
    if credentials.cluster_token or not credentials.authorization.lower().startswith(b"basic"):
        return check()
    # Checking a password takes a tenth of a second of CPU: not on the event loop, nor on a request's thread.
    return await asyncio.wrap_future(_logins.submit(counted_address(visit.peer), check))


def is_of_cluster(access: AccessControl, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request with these headers comes from a daemon of this cluster, which shows its token."""
    token = Credentials.from_headers(headers, "").cluster_token
    try:
        return bool(token) and access.authenticate(Credentials(cluster_token=token)) is DAEMON
    except AuthenticationError:
        return False


def _resource(route: Route, scope: Scope, path_params: Mapping[str, str]) -> Resource | None:
    target = route.target
    match target.kind:
        case TargetKind.FIXED:
            return Resource(target.resource_kind)
        case TargetKind.PATH:
            name = path_params[target.parameter]
        case TargetKind.QUERY:
            name = _query_parameter(scope["query_string"], target.parameter) or "*"
        case _:
            return None
    return table_resource(name) if target.resource_kind is ResourceKind.TABLE else Resource(target.resource_kind, name)


def _query_parameter(query_string: bytes, name: str) -> str:
    from urllib.parse import parse_qsl

    try:
        pairs = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=_PARAMETERS_MAX)
    except ValueError as error:
        raise UserError(f"a URL may have at most {_PARAMETERS_MAX} parameters") from error
    values = [value for key, value in pairs if key == name]
    if len(values) > 1:
        # Handler and guard might each take another one.
        raise UserError(f"query parameter '{name}' is given {len(values)} times: give it once")
    return values[0] if values else ""


def _check_change(
    visit: Visit, change: ChangeByGet, headers: list[tuple[bytes, bytes]], credentials: Credentials
) -> None:
    """Refuse a GET that changes something, unless it is known that no page made it."""
    visit.changes = True
    is_of_own_page = refuse_loads(headers)
    # What nobody checks is no credential: without access control that is all but the cluster's token.
    has_credentials = bool(credentials.cluster_token or (credentials.authorization and not visit.access.is_open))
    if not (is_of_own_page or has_credentials or visit.takes_changes_by_get):
        raise MethodNotAllowedError(
            f"a GET that changes something needs credentials that this daemon checks: use {change.instead}, or set "
            f"{LEGACY_GET_CHANGES}=true on this daemon"
        )


def check_headers(headers: list[tuple[bytes, bytes]], body_max_bytes: int) -> None:
    """Refuse a body that says it is too large, or that is compressed (a small one may unpack to a huge one)."""
    for name, value in headers:
        if name == b"content-length" and (not value.isdigit() or int(value[:20]) > body_max_bytes):
            raise PayloadTooLargeError(
                f"the body has {value[:20].decode('latin-1')} bytes, at most {body_max_bytes} are taken"
            )
        if name == b"content-encoding" and value.lower() not in (b"identity", b""):
            raise UnsupportedMediaTypeError(
                f"content encoding '{value[:40].decode('latin-1')}' is not taken: send the body as it is"
            )


def limited(receive: Receive, visit: Visit) -> Receive:
    """`receive` that counts the body's bytes and raises PayloadTooLargeError over the route's limit."""
    received = 0

    async def receive_counted() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > visit.route.body_max_bytes:
                visit.body_too_large = True
                raise PayloadTooLargeError(f"the body is over {visit.route.body_max_bytes} bytes")
        return message

    return receive_counted
