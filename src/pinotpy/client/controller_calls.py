"""Calls to a controller's REST: what the parts of ControllerClient share."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any, Self
from urllib.parse import quote

from pinotpy.client.http_calls import TIMEOUT_S, Access, Answer, HttpCalls, retrying

UPLOAD_TIMEOUT_S = 600.0
POLL_MIN_S, POLL_MAX_S = 0.05, 1.0

Document = Mapping[str, Any]


class ControllerCalls:
    """Reads are repeated when the controller cannot be reached; writes are not."""

    def __init__(self, url: str, access: Access | None = None, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._calls = HttpCalls(access or Access(), timeout_s)

    def close(self) -> None:
        """Close kept connections."""
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, path: str) -> Any:
        return retrying(lambda: self._calls.call("GET", self.url + path), deadline_s=self._timeout_s).json()

    def _write(
        self, method: str, path: str, document: Document | None = None, **params: str | bool | None
    ) -> dict[str, Any]:
        content = json.dumps(document).encode() if document is not None else None
        return self._document(self._calls.call(method, self.url + path, content=content, params=params))

    @staticmethod
    def _document(answer: Answer) -> dict[str, Any]:
        document = answer.json() if answer.content else {}
        return document if isinstance(document, dict) else {"status": document}


def looks(timeout_s: float) -> Iterator[bool]:
    """One turn a look at something that takes time, with ever longer waits between: whether it is the last one in
    time.
    """
    ends, wait_s = time.monotonic() + timeout_s, POLL_MIN_S
    is_last = False
    while not is_last:
        is_last = time.monotonic() + wait_s > ends
        yield is_last
        time.sleep(wait_s * random.uniform(0.8, 1.0))
        wait_s = min(wait_s * 1.5, POLL_MAX_S)


def quoted(name: str) -> str:
    return quote(name, safe="")
