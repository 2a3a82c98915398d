"""The AccessControl interface: every REST route, the fast query path and (through the cluster token) every gRPC call
check it.

`AllowAll` is the default on loopback. `UsersFileAccess` reads users and tokens from a file (`users_file.py`), applies
changes within a second, and denies whatever is not granted. Daemons of the same cluster present the cluster token.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import stat
import threading
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pinotpy.clock import Clock, SystemClock
from pinotpy.errors import AccessDeniedError, AuthenticationError, NotFoundError, PinotError
from pinotpy.service.errors import StartError
from pinotpy.service.rights import (
    ALL_RIGHTS,
    ALL_TABLES,
    ANONYMOUS,
    CLUSTER,
    DAEMON,
    Action,
    Principal,
    PrincipalKind,
    Resource,
    ResourceKind,
    Rights,
    table_resource,
)
from pinotpy.service.throttle import LoginThrottle
from pinotpy.service.users_file import (
    PASSWORD_MAX_BYTES,
    WRITABLE_BY_OTHERS,
    Users,
    add_token,
    add_user,
    hash_password,
    parse_token,
    read_users,
    remove_user,
    revoke_token,
)

__all__ = [
    "ALL_RIGHTS", "ALL_TABLES", "ANONYMOUS", "CLUSTER", "DAEMON",
    "AccessControl", "Action", "AllowAll", "Credentials", "Principal", "PrincipalKind", "Resource", "ResourceKind",
    "Rights", "UsersFileAccess",
    "add_token", "add_user", "read_cluster_token", "remove_user", "require", "revoke_token", "table_resource",
]  # fmt: skip

CLUSTER_TOKEN_HEADER = "x-pinotpy-cluster-token"
CREDENTIALS_MAX_BYTES = 4096
CLUSTER_TOKEN_MIN_CHARS = 32
CACHE_ENTRIES_MAX = 10_000
# Those who were let in are recognised without hashing, so that neither failures of others nor their own typing errors
# shut them out.
CACHE_SECONDS = 86_400
RELOAD_INTERVAL_NS = 1_000_000_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request says about who sent it: the Authorization header, the cluster token, the peer's address."""

    authorization: bytes = b""
    cluster_token: bytes = b""
    peer: str = ""

    @staticmethod
    def from_headers(headers: Iterable[tuple[bytes, bytes]], peer: str) -> Credentials:
        """Read them from ASGI headers (lower-case names). A repeated header counts as a wrong one."""
        authorization = token = b""
        for name, value in headers:
            if name == b"authorization":
                authorization = b"repeated" if authorization else value
            elif name == b"x-pinotpy-cluster-token":
                token = b"repeated" if token else value
        return Credentials(authorization, token, peer)


class AccessControl(Protocol):
    """Identifies callers and checks their rights. Safe to share between threads."""

    @property
    def is_open(self) -> bool:
        """Whether anybody may do anything: then only loopback is served."""
        ...

    def recall(self, credentials: Credentials) -> Principal | None:
        """The principal if it is known without work (microseconds); None = ask `authenticate`."""
        ...

    def authenticate(self, credentials: Credentials) -> Principal:
        """The principal; may take a tenth of a second. Raises AuthenticationError or LoginThrottledError."""
        ...

    def is_allowed(self, principal: Principal, action: Action, resource: Resource) -> bool:
        """Whether `principal` may do `action` on `resource`."""
        ...


def require(access: AccessControl, principal: Principal, action: Action, resource: Resource) -> None:
    """Raise AccessDeniedError unless allowed. The answer is the same whether or not the resource exists."""
    if not access.is_allowed(principal, action, resource):
        raise AccessDeniedError(
            f"'{principal.name}' has no {action} right on {resource}: ask an administrator for it",
            principal=principal.name,
            action=action,
        )


def read_cluster_token(file: Path) -> str:
    """Read the secret that daemons of one cluster share. Raises StartError if it is missing, too short to be one, or
    writable by others.
    """
    try:
        token = file.read_text(encoding="ascii").strip()
        mode = file.stat().st_mode
    except (OSError, UnicodeDecodeError) as problem:
        raise StartError(f"cluster token file '{file}' cannot be read: {problem}") from problem
    if len(token) < CLUSTER_TOKEN_MIN_CHARS or not token.isprintable() or " " in token:
        raise StartError(
            f"cluster token file '{file}' must hold at least {CLUSTER_TOKEN_MIN_CHARS} characters without blanks, "
            "e.g. from 'openssl rand -hex 32'"
        )
    if mode & WRITABLE_BY_OTHERS:
        raise StartError(f"cluster token file '{file}' can be written by others than its owner: chmod 600 it")
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        _log.warning("cluster token is readable by others file=%s: chmod 600 it", file)
    return token


class _ClusterToken:
    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token else None

    def check(self, credentials: Credentials) -> Principal | None:
        """The daemon principal if a valid token was presented; None if none was."""
        if not credentials.cluster_token:
            return None
        if self._token is None or not hmac.compare_digest(self._token, credentials.cluster_token):
            raise AuthenticationError("wrong cluster token")
        return DAEMON


class AllowAll:
    """Allows everything, for a single machine. Daemons refuse to serve it on addresses other than loopback."""

    is_open = True

    def __init__(self, cluster_token: str | None = None) -> None:
        self._cluster_token = _ClusterToken(cluster_token)
        self._anybody = Principal("anonymous", PrincipalKind.ANONYMOUS, ALL_RIGHTS)

    def recall(self, credentials: Credentials) -> Principal | None:
        return None if credentials.cluster_token else self._anybody

    def authenticate(self, credentials: Credentials) -> Principal:
        return self._cluster_token.check(credentials) or self._anybody

    def is_allowed(self, principal: Principal, action: Action, resource: Resource) -> bool:
        return principal.may(action, resource)


@dataclass(frozen=True, slots=True)
class _Known:
    principal: Principal
    until_ms: int


class UsersFileAccess:
    """Basic authentication and bearer tokens against a users file. Shared by all threads of a daemon; its lock guards
    the cache and the snapshot of the file, never the hashing of a password."""

    is_open = False

    def __init__(self, users_file: Path, *, cluster_token: str | None = None, clock: Clock | None = None) -> None:
        self._file = users_file
        self._clock = clock or SystemClock()
        self._cluster_token = _ClusterToken(cluster_token)
        self._throttle = LoginThrottle(self._clock)
        self._lock = threading.Lock()
        # Credentials that were right are kept as an HMAC under a key of this process: a memory dump shows no password.
        self._cache_key = secrets.token_bytes(32)
        self._cache: OrderedDict[bytes, _Known] = OrderedDict()
        # Hashed for unknown names, so that the time of an answer does not tell which names exist.
        self._decoy = hash_password(secrets.token_urlsafe(16))
        self._signature = self._stat()
        self._users = read_users(users_file)
        self._checked_ns = self._clock.monotonic_ns()

    def recall(self, credentials: Credentials) -> Principal | None:
        if credentials.cluster_token or not credentials.authorization:
            return None
        self._reload_if_changed()
        key = self._key(credentials)
        with self._lock:
            known = self._cache.get(key)
            if known is None:
                return None
            if known.until_ms <= self._clock.now_ms():
                del self._cache[key]
                return None
            self._cache.move_to_end(key)
            return known.principal

    def authenticate(self, credentials: Credentials) -> Principal:
        daemon = self._cluster_token.check(credentials)
        if daemon is not None:
            return daemon
        recalled = self.recall(credentials)
        if recalled is not None:
            return recalled
        if not credentials.authorization:
            raise AuthenticationError("this daemon needs credentials: a user and password, or a bearer token")
        if len(credentials.authorization) > CREDENTIALS_MAX_BYTES:
            raise AuthenticationError(f"credentials are over {CREDENTIALS_MAX_BYTES} bytes")
        self._reload_if_changed()
        users = self._users
        known = self._verify(users, credentials)
        with self._lock:
            if users is self._users:  # a reload in between may have revoked what was just verified
                self._cache[self._key(credentials)] = known
                while len(self._cache) > CACHE_ENTRIES_MAX:
                    self._cache.popitem(last=False)
        return known.principal

    def is_allowed(self, principal: Principal, action: Action, resource: Resource) -> bool:
        return principal.may(action, resource)

    def _verify(self, users: Users, credentials: Credentials) -> _Known:
        scheme, _, value = credentials.authorization.decode("latin-1").strip().partition(" ")
        match scheme.lower():
            case "basic":
                return self._check_password(users, value.strip(), credentials.peer)
            case "bearer":
                return self._check_token(users, value.strip(), credentials.peer)
        raise AuthenticationError("unknown authorization scheme: expected Basic or Bearer")

    def _check_password(self, users: Users, value: str, peer: str) -> _Known:
        try:
            name, separator, password = b64decode(value, validate=True).decode().partition(":")
        except ValueError:
            raise AuthenticationError("basic credentials are not base64 of user:password in UTF-8") from None
        if not separator or len(password.encode()) > PASSWORD_MAX_BYTES:
            raise AuthenticationError("basic credentials are not base64 of user:password in UTF-8")
        self._throttle.check(peer, name)
        user = users.users.get(name)
        is_right = (user.password if user else self._decoy).verify(password.encode()) and user is not None
        if not is_right or user is None:
            self._throttle.failed(peer, name)
            raise AuthenticationError("wrong user or password")
        self._throttle.succeeded(peer, name)
        return _Known(Principal(name, PrincipalKind.USER, user.rights), self._clock.now_ms() + CACHE_SECONDS * 1000)

    def _check_token(self, users: Users, value: str, peer: str) -> _Known:
        parsed = parse_token(value)
        token = users.tokens.get(parsed[0]) if parsed else None
        now_ms = self._clock.now_ms()
        if parsed is None or token is None or not hmac.compare_digest(token.sha256, parsed[1]):
            self._throttle.failed(peer, parsed[0] if parsed else "")
            raise AuthenticationError("unknown bearer token: it may have been revoked")
        if token.expires_at_ms is not None and token.expires_at_ms <= now_ms:
            raise AuthenticationError("this bearer token has expired: ask for a new one")
        until_ms = min(now_ms + CACHE_SECONDS * 1000, token.expires_at_ms or (1 << 62))
        return _Known(
            Principal(token.user, PrincipalKind.TOKEN, users.users[token.user].rights, token.rights), until_ms
        )

    def _key(self, credentials: Credentials) -> bytes:
        return hmac.digest(self._cache_key, credentials.authorization, hashlib.sha256)

    def _reload_if_changed(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._checked_ns < RELOAD_INTERVAL_NS:
            return
        with self._lock:
            self._checked_ns = now_ns
            signature = self._stat()
            if signature == self._signature:
                return
            self._signature = signature
            before = self._users
            try:
                self._users = read_users(self._file)
            except NotFoundError:
                # Somebody took the file away: nobody is known any more. Locking out is safer than serving old rights.
                self._users = Users()
                _log.error("users file is gone, nobody can log in file=%s", self._file)
            except PinotError as problem:
                # A half-written or mistaken edit keeps the last good users; the operator reads why in the log.
                _log.error(
                    "users file is refused, the last good one stays in force file=%s reason=%s", self._file, problem
                )
                return
            # Passwords of users who are as they were are not hashed again.
            same = {name for name, user in self._users.users.items() if before.users.get(name) == user}
            for key, known in list(self._cache.items()):
                if known.principal.kind is not PrincipalKind.USER or known.principal.name not in same:
                    del self._cache[key]
            _log.info(
                "users file loaded file=%s users=%d tokens=%d",
                self._file,
                len(self._users.users),
                len(self._users.tokens),
            )

    def _stat(self) -> tuple[int, int, int]:
        try:
            status = self._file.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_size, status.st_ino)
