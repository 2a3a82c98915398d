"""Web addresses that came from a request or a record: only those that the operator allows, and no detours to others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx

from pinotpy.errors import AccessDeniedError, RemoteError
from pinotpy.fs.allowed_uris import AllowedUris
from pinotpy.fs.configs import Configs
from pinotpy.fs.http_files import HttpFiles
from pinotpy.fs.uris import masked, scheme_of

_REDIRECTS_MAX: Final = 5


class GuardedHttpFiles(HttpFiles):
    """HttpFiles that asks the address that was checked, and follows redirects to allowed addresses only.

    Args:
        configs: of the scheme; see `http_files.open_http`.
    """

    def __init__(self, allowed: AllowedUris, configs: Mapping[str, str]) -> None:
        read = Configs("http", configs)
        self._allowed = allowed
        self._authorization = read.text("authorization")
        timeout = httpx.Timeout(
            read.seconds("requestTimeoutMs", 30_000), connect=read.seconds("connectTimeoutMs", 5_000)
        )
        # No proxy of the environment: it would look the name up once more.
        ca_file = read.ca_file()
        read.finish()
        super().__init__(httpx.Client(timeout=timeout, verify=ca_file or True, follow_redirects=False, trust_env=False))

    def _stream(self, uri: str, headers: dict[str, str]) -> AbstractContextManager[httpx.Response]:
        return self._followed(uri, headers)

    @contextmanager
    def _followed(self, uri: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
        asked = uri
        for _ in range(_REDIRECTS_MAX + 1):
            self._allowed.check(asked)
            # Credentials are for the server that was named, and go by no weaker protocol.
            credentials = (
                {"authorization": self._authorization}
                if self._authorization and urlsplit(asked)[:2] == urlsplit(uri)[:2]
                else {}
            )
            with self._ask(asked, {**headers, **credentials}) as response:
                if not response.has_redirect_location:
                    yield response
                    return
                asked = _next(asked, response.headers["location"])
        raise RemoteError(f"'{masked(uri)}' leads through more than {_REDIRECTS_MAX} redirects", uri=masked(uri))

    def _ask(self, uri: str, headers: dict[str, str]) -> AbstractContextManager[httpx.Response]:
        parts = urlsplit(uri)
        address = self._allowed.web_address(uri)
        host = f"[{address}]" if ":" in address else address
        place = urlunsplit(
            (parts.scheme, host if parts.port is None else f"{host}:{parts.port}", parts.path, parts.query, "")
        )
        # The certificate is checked against the name, whatever address is asked.
        extensions = {"sni_hostname": parts.hostname} if parts.scheme == "https" else {}
        return self._client.stream("GET", place, headers={**headers, "host": parts.netloc}, extensions=extensions)


def _next(asked: str, location: str) -> str:
    """Where a redirect leads: to the web, never to files of this machine or to other storage, whatever the operator's
    list has.
    """
    try:
        target = urljoin(asked, location)
    except ValueError:
        raise RemoteError(
            f"'{masked(asked)}' leads to what is no address: '{masked(location[:200])}'", uri=masked(asked)
        ) from None
    if scheme_of(target) not in ("http", "https"):
        raise AccessDeniedError(
            f"'{masked(asked)}' leads to '{masked(target[:200])}': a web address may lead to another one only",
            uri=masked(asked),
        )
    return target
