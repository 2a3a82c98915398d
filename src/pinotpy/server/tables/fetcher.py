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
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from pinotpy.clock import Clock
from pinotpy.errors import NotFoundError, PinotError, RemoteError
from pinotpy.fs.fetchers import SegmentFetchers
from pinotpy.fs.uris import masked
from pinotpy.service.archive_download import DownloadLimits, RefusedError, archive_client, download_archive

log = logging.getLogger(__name__)
BACKOFF_S = 0.2
BACKOFF_MAX_S = 30.0
# When every controller says no (404, 403 …), waiting long for another answer would only block other segments.
REFUSED_ROUNDS_MAX = 4


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
        self._client = archive_client(self._limits, verify)
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
                    download_archive(self._client, base + rest_path, self._headers(), target, self._clock, self._limits)
                    return
                except RefusedError as error:
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
