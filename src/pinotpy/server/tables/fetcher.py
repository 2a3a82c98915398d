"""Downloading a segment's archive: only from controllers of this cluster, bounded in size and time, retried with jitter.

The URL stands in ZooKeeper; it is never trusted to name a host (reliability H12): what counts is its path, and the
controllers that are registered in the cluster are asked for it, the one that the URL names first.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from pinotpy.clock import Clock
from pinotpy.errors import DataError, PinotError, RemoteError

log = logging.getLogger(__name__)
ATTEMPTS_MAX = 5
BACKOFF_S = 0.2
CONNECT_TIMEOUT_S = 3.0
READ_TIMEOUT_S = 30.0
ARCHIVE_BYTES_MAX = 16 << 30


class ControllerFetcher:
    """Fetches archives over the controllers' REST.

    Args:
        controllers: base URLs of the registered controllers (`http://host:9000`), asked anew for every download.
        headers: credentials of this daemon (the cluster token).
        verify: TLS settings as httpx takes them.
    """

    def __init__(self, controllers: Callable[[], Sequence[str]], headers: Callable[[], dict[str, str]], clock: Clock, verify: object = True) -> None:
        self._controllers = controllers
        self._headers = headers
        self._clock = clock
        self._client = httpx.Client(
            timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            verify=verify,  # type: ignore[arg-type]
            follow_redirects=False,
            trust_env=False,
        )
        self._stopped = threading.Event()

    def fetch(self, url: str, target: Path) -> None:
        """Write the archive behind `url` to the new file `target`.

        Raises: RemoteError after the last attempt, with the reason of each; DataError if the URL is none of ours.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.path.startswith("/segments/"):
            raise DataError(f"a segment's download URL must be a controller's /segments/… path, found '{url[:200]}'")
        reasons: list[str] = []
        for attempt in range(ATTEMPTS_MAX):
            bases = sorted(self._controllers(), key=lambda base: urlsplit(base).netloc != parts.netloc)
            for base in bases:
                try:
                    self._download(base + parts.path, target)
                    return
                except (httpx.HTTPError, RemoteError) as error:
                    reasons.append(f"{base}: {error}")
            log.warning("segment download failed attempt=%d url=%s reasons=%s", attempt + 1, parts.path, reasons[-3:])
            if self._clock.wait(self._stopped, BACKOFF_S * 2**attempt * random.uniform(0.5, 1.5)):
                break
        raise RemoteError(
            f"no controller gave the segment '{parts.path}' in {ATTEMPTS_MAX} attempts: {'; '.join(reasons[-4:]) or 'no controller is registered'}"
        )

    def close(self) -> None:
        self._stopped.set()
        self._client.close()

    def _download(self, url: str, target: Path) -> None:
        with self._client.stream("GET", url, headers=self._headers()) as response:
            if response.status_code != httpx.codes.OK:
                raise RemoteError(f"HTTP {response.status_code}: {response.read()[:200].decode(errors='replace')}")
            size = 0
            with target.open("wb") as sink:
                for chunk in response.iter_bytes(1 << 20):
                    size += len(chunk)
                    if size > ARCHIVE_BYTES_MAX:
                        raise PinotError(f"the archive is over {ARCHIVE_BYTES_MAX} bytes")
                    sink.write(chunk)
        expected = response.headers.get("content-length")
        if expected is not None and response.headers.get("content-encoding") is None and int(expected) != size:
            raise RemoteError(f"the archive broke off: expected {expected} bytes, found {size}")
