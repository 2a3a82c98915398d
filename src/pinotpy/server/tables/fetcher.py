"""Downloading a segment's archive: from addresses that the operator allows, else from controllers of this cluster;
bounded in size and time, retried with jitter.

The address stands in ZooKeeper; it is never trusted to name a host. What the operator's list has (the deep store) is
fetched from there. For anything else, and when that fails, the controllers that are registered in the cluster are asked
for the segment by its name, the one that the address names first: a server needs no credentials of the deep store, and
works without a list.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from pinotpy.clock import Clock
from pinotpy.errors import DataError, NotFoundError, PinotError, RemoteError
from pinotpy.fs.fetchers import SegmentFetchers
from pinotpy.fs.uris import masked

log = logging.getLogger(__name__)
BACKOFF_S = 0.2
BACKOFF_MAX_S = 30.0
CONNECT_TIMEOUT_S = 3.0
READ_TIMEOUT_S = 30.0
# When every controller says no (404, 403 …), waiting long for another answer would only block other segments.
REFUSED_ROUNDS_MAX = 4


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """timeout_ms: longest download from one controller. retries_max: further rounds over the controllers after a failed
    one; 8 wait about 50 s in all, so that a controller's restart puts no replica in ERROR. archive_bytes_max: longest
    archive.
    """

    timeout_ms: int = 600_000
    retries_max: int = 8
    archive_bytes_max: int = 40 << 30


class _RefusedError(RemoteError):
    """A controller answered that it will not give the segment."""


class ArchiveFetcher:
    """Fetches archives from where their records say, or from the controllers.

    Args:
        fetchers: what the operator allows.
        controllers: the other way, for everything.
    """

    def __init__(self, fetchers: SegmentFetchers, controllers: ControllerFetcher) -> None:
        self._fetchers, self._controllers = fetchers, controllers

    def fetch(self, url: str, target: Path, rest_path: str) -> None:
        """Write the archive to the new file `target`.

        Args:
            url: the record's address.
            rest_path: the segment's path in the controllers' REST.

        Raises: RemoteError after the last attempt, with all reasons.
        """
        if not url or not self._fetchers.allows(url):
            if not url.startswith(("http:", "https:")):
                log.info(
                    "address is not in the list of this server, a controller is asked url=%s segment=%s",
                    masked(url),
                    rest_path,
                )
            self._controllers.fetch(url, target, rest_path)
            return
        try:
            self._fetchers.fetch(url, target)
        except PinotError as error:
            log.warning(
                "segment not fetched from its address, a controller is asked url=%s reason=%s",
                masked(url),
                error.message,
            )
            try:
                self._controllers.fetch(url, target, rest_path, is_last_resort=True)
            except PinotError as other:
                kind = RemoteError if isinstance(error, (RemoteError, NotFoundError)) else type(error)
                raise kind(f"{error.message}; and {other.message}") from error

    def close(self) -> None:
        self._fetchers.close()
        self._controllers.close()


class ControllerFetcher:
    """Fetches archives over the controllers' REST.

    Args:
        controllers: base URLs of the registered controllers (`http://host:9000`), asked anew for every download.
        headers: credentials of this daemon (the cluster token).
        verify: TLS settings as httpx takes them.
    """

    def __init__(
        self,
        controllers: Callable[[], Sequence[str]],
        headers: Callable[[], dict[str, str]],
        clock: Clock,
        verify: object = True,
        limits: DownloadLimits | None = None,
    ) -> None:
        self._limits = limits or DownloadLimits()
        self._controllers = controllers
        self._headers = headers
        self._clock = clock
        self._client = httpx.Client(
            timeout=httpx.Timeout(min(READ_TIMEOUT_S, self._limits.timeout_ms / 1000), connect=CONNECT_TIMEOUT_S),
            verify=verify,  # type: ignore[arg-type]
            follow_redirects=False,
            trust_env=False,
        )
        self._stopped = threading.Event()

    def fetch(self, url: str, target: Path, rest_path: str, *, is_last_resort: bool = False) -> None:
        """Write the archive of the segment with this path in the REST to the new file `target`.

        Args:
            url: the record's; the controller that it names is asked first.
            is_last_resort: one round is enough, another way was tried for long enough.

        Raises: RemoteError after the last attempt, with the reason of each.
        """
        named_host = urlsplit(url).netloc
        reasons: list[str] = []
        attempts_max = 1 if is_last_resort else self._limits.retries_max + 1
        for attempt in range(attempts_max):
            is_refused = True
            bases = sorted(self._controllers(), key=lambda base: urlsplit(base).netloc != named_host)
            for base in bases:
                try:
                    self._download(base + rest_path, target)
                    return
                except _RefusedError as error:
                    reasons.append(f"{base}: {error}")
                except (httpx.HTTPError, RemoteError) as error:
                    is_refused = False
                    reasons.append(f"{base}: {error}")
            log.warning("segment download failed attempt=%d url=%s reasons=%s", attempt + 1, rest_path, reasons[-3:])
            is_last = attempt + 1 == attempts_max or (bool(bases) and is_refused and attempt + 1 >= REFUSED_ROUNDS_MAX)
            if is_last or self._clock.wait(
                self._stopped, min(BACKOFF_S * 2**attempt, BACKOFF_MAX_S) * random.uniform(0.5, 1.5)
            ):
                break
        raise RemoteError(
            f"no controller gave the segment '{rest_path}' in {attempt + 1} attempts: "
            f"{'; '.join(reasons[-4:]) or 'no controller is registered'}"
        )

    def close(self) -> None:
        self._stopped.set()
        self._client.close()

    def _download(self, url: str, target: Path) -> None:
        timeout_ms, bytes_max = self._limits.timeout_ms, self._limits.archive_bytes_max
        deadline_ns = self._clock.monotonic_ns() + timeout_ms * 1_000_000
        with self._client.stream("GET", url, headers=self._headers()) as response:
            if response.status_code != httpx.codes.OK:
                kind = _RefusedError if response.is_client_error else RemoteError
                raise kind(f"HTTP {response.status_code}: {response.read()[:200].decode(errors='replace')}")
            size = 0
            with target.open("wb") as sink:
                for chunk in response.iter_bytes():  # as they come: one that drips must meet its deadline
                    size += len(chunk)
                    if size > bytes_max:
                        raise DataError(
                            f"the archive is over {bytes_max} bytes: raise "
                            "pinot.server.segment.archive.maxUnpackedBytes"
                        )
                    if self._clock.monotonic_ns() > deadline_ns:
                        raise RemoteError(f"the download took longer than {timeout_ms} ms, {size} bytes had come")
                    sink.write(chunk)
        expected = response.headers.get("content-length")
        if expected is not None and response.headers.get("content-encoding") is None and int(expected) != size:
            raise RemoteError(f"the archive broke off: expected {expected} bytes, found {size}")
