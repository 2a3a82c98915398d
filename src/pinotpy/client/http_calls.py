"""The client's HTTP: httpx behind one small class, so that importing pinotpy.client costs nothing until a call is
made.
"""

from __future__ import annotations

import io
import json
import random
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pinotpy.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    AuthenticationError,
    NotFoundError,
    OutOfCapacityError,
    PayloadTooLargeError,
    PinotError,
    PreconditionFailedError,
    QuotaExceededError,
    RemoteError,
    ServerNotRespondingError,
    ServerUnreachableError,
    UserError,
)

if TYPE_CHECKING:
    import httpx

CONNECT_TIMEOUT_S = 3.0
TIMEOUT_S = 30.0
ATTEMPTS_MAX = 4
BACKOFF_S, BACKOFF_MAX_S = 0.1, 2.0
_REFUSAL_BYTES_MAX = 1 << 20
_BODY_BUFFER_BYTES = 128 << 10

_BY_STATUS: dict[int, type[PinotError]] = {
    400: UserError,
    401: AuthenticationError,
    403: AccessDeniedError,
    404: NotFoundError,
    409: AlreadyExistsError,
    412: PreconditionFailedError,
    413: PayloadTooLargeError,
    429: QuotaExceededError,
    503: OutOfCapacityError,
}


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach daemons: credentials, the CA that signs their certificates, our own certificate.

    `auth`: ("user", "password"), or a bearer token as text. Without `ca` the system's CAs are trusted.
    """

    auth: tuple[str, str] | str | None = field(default=None, repr=False)
    ca: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None

    def header(self) -> dict[str, str]:
        """The Authorization header, if there are credentials."""
        if self.auth is None:
            return {}
        if isinstance(self.auth, str):
            return {
                "Authorization": self.auth
                if self.auth.lower().startswith(("basic ", "bearer "))
                else f"Bearer {self.auth}"
            }
        user, password = self.auth
        return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}


@dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx answer."""

    status: int
    content: bytes
    headers: Mapping[str, str]
    url: str = ""

    def json(self) -> Any:
        """The body as JSON; RemoteError if it is none."""
        try:
            return json.loads(self.content)
        except ValueError:
            raise RemoteError(
                f"expected JSON from '{self.url}', found {self.content[:80]!r}: is this the URL of a pinotpy daemon?",
                url=self.url,
            ) from None


class HttpCalls:
    """Calls to daemons. Safe to share between threads. Connections are kept and reused."""

    def __init__(self, access: Access, timeout_s: float = TIMEOUT_S) -> None:
        self._access = access
        self._timeout_s = timeout_s
        self._client: httpx.Client | None = None
        self._lock = threading.Lock()

    def call(
        self,
        method: str,
        url: str,
        *,
        content: bytes | None = None,
        content_type: str = "application/json",
        params: Mapping[str, str | int | bool | None] | None = None,
        headers: Mapping[str, str] | None = None,
        files: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        answer_bytes_max: int | None = None,
    ) -> Answer:
        """One call. Raises ServerUnreachableError (no connection, or it broke before the answer),
        ServerNotRespondingError (connected, but no whole answer in time), PayloadTooLargeError (an answer over
        `answer_bytes_max`, of which no more was read), RemoteError (a redirect), or the PinotError that the status
        stands for.
        """
        timeout_s = timeout_s or self._timeout_s
        ends = time.monotonic() + timeout_s
        sent = {**(headers or {}), **({"Content-Type": content_type} if content is not None else {})}
        with self._answering(method, url, timeout_s, sent, content=content, params=_query(params), files=files) as got:
            body = _read(got.iter_bytes(), url, ends, timeout_s, answer_bytes_max)
        _refuse(got, body, url)
        return Answer(got.status_code, body, got.headers, url)

    @contextmanager
    def opened(self, url: str, *, timeout_s: float | None = None) -> Iterator[BinaryIO]:
        """The body of a GET, read as it comes; whoever leaves early reads no more of it.

        Raises as `call`, within the block too: where the connection breaks, and where the whole takes longer than
        `timeout_s`.
        """
        timeout_s = timeout_s or self._timeout_s
        ends = time.monotonic() + timeout_s
        with self._answering("GET", url, timeout_s, {}) as got:
            if got.status_code >= 300:
                _refuse(got, _read(got.iter_bytes(), url, ends, timeout_s, _REFUSAL_BYTES_MAX), url)
            yield io.BufferedReader(AnswerBody(_in_time(got.iter_bytes(), url, ends, timeout_s)), _BODY_BUFFER_BYTES)

    @contextmanager
    def _answering(
        self, method: str, url: str, timeout_s: float, headers: Mapping[str, str], **request: Any
    ) -> Iterator[httpx.Response]:
        """An answer whose body is not read yet; faults of the connection, also while it is read, are ours."""
        import httpx

        timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s))
        # Headers are bytes: addresses of storages are written as they are, in UTF-8.
        lines = httpx.Headers({**self._access.header(), **headers}, encoding="utf-8")
        try:
            with self._open().stream(method, url, headers=lines, timeout=timeout, **request) as response:
                yield response
        except (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.RemoteProtocolError,
            httpx.ReadError,
            httpx.WriteError,
        ) as problem:
            raise ServerUnreachableError(
                f"'{url}' cannot be reached: {problem or type(problem).__name__}", url=url
            ) from problem
        except httpx.TimeoutException as problem:
            raise ServerNotRespondingError(f"'{url}' did not answer within {timeout_s:g} s", url=url) from problem
        except httpx.DecodingError as problem:
            raise RemoteError(
                f"the answer of '{url}' is packed in a way that cannot be read: {problem}", url=url
            ) from problem
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as problem:
            raise UserError(f"'{url}' is no URL of a daemon: expected http://host:port") from problem
        except httpx.HTTPError as problem:
            raise RemoteError(f"call of '{url}' failed: {problem}", url=url) from problem

    def close(self) -> None:
        """Close kept connections."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _open(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                import httpx

                self._client = httpx.Client(verify=_context(self._access), trust_env=False, follow_redirects=False)
            return self._client


class AnswerBody(io.RawIOBase):
    """The body of an answer as it comes. Belongs to one thread."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._ready = pieces, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """As many bytes as have come, at least one; 0 at the end."""
        while not self._ready:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._ready = memoryview(piece)
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


def _query(params: Mapping[str, str | int | bool | None] | None) -> dict[str, str] | None:
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (params or {}).items()
        if value is not None
    } or None


def _read(chunks: Iterator[bytes], url: str, ends: float, timeout_s: float, bytes_max: int | None) -> bytes:
    """The whole body. Each chunk comes in time by itself; together they must, too."""
    received: list[bytes] = []
    size = 0
    for chunk in _in_time(chunks, url, ends, timeout_s):
        size += len(chunk)
        if bytes_max is not None and size > bytes_max:
            raise PayloadTooLargeError(
                f"the answer of '{url}' is longer than answer_bytes_max = {bytes_max}: ask for fewer rows or columns, "
                "or connect with a larger limit",
                url=url,
            )
        received.append(chunk)
    return b"".join(received)


def _in_time(chunks: Iterator[bytes], url: str, ends: float, timeout_s: float) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if time.monotonic() > ends:
            raise ServerNotRespondingError(
                f"'{url}' sent {size} bytes, but not the whole answer, within {timeout_s:g} s", url=url
            )
        yield chunk


def _refuse(answer: httpx.Response, body: bytes, url: str) -> None:
    """Raise what an answer that is no success stands for."""
    if answer.status_code >= 400:
        raise _error_of(answer.status_code, body, url)
    if answer.status_code >= 300:
        # Following it would show the credentials to whoever the daemon names.
        target = answer.headers.get("location", "")[:200]
        raise RemoteError(
            f"'{url}' redirects to '{target}', and redirects are not followed: connect with the daemon's own address",
            url=url,
        )


def _context(access: Access) -> Any:
    import ssl

    context = ssl.create_default_context(cafile=str(access.ca) if access.ca is not None else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.certificate is not None:
        context.load_cert_chain(access.certificate, access.key)
    return context


def _error_of(status: int, content: bytes, url: str) -> PinotError:
    text = content[:2000].decode(errors="replace")
    try:
        document = json.loads(content)
        if isinstance(document, dict):
            text = str(document.get("error") or document.get("message") or text)
    except ValueError:
        pass
    kind = _BY_STATUS.get(status, UserError if status < 500 else RemoteError)
    return kind(text or f"'{url}' answered HTTP {status} without a word", status=status, url=url)


def retrying(work: Callable[[], Answer], *, deadline_s: float, attempts_max: int = ATTEMPTS_MAX) -> Answer:
    """Repeat `work` after retriable errors, with doubled waits and jitter, until it answers or time or attempts are up.

    Only for calls that may be repeated: reads, and writes that are the same when done twice.
    """
    ends = time.monotonic() + deadline_s
    for attempt in range(1, attempts_max + 1):
        try:
            return work()
        except PinotError as problem:
            wait_s = min(BACKOFF_S * 2 ** (attempt - 1), BACKOFF_MAX_S) * random.uniform(0.5, 1.0)
            if not problem.retriable or attempt == attempts_max or time.monotonic() + wait_s > ends:
                raise
            time.sleep(wait_s)
    raise AssertionError("attempts_max must be positive")
