"""A segment's archive from a server that serves the segment: for servers whose deep store fails them, and for the
controller that repairs it.

A server makes the archive of its files as they were built, so that it has the CRC of the record (`server/api/
segment_archive.py`). Replicas are asked in random order, several times over with growing waits: one that gives out as
many archives as it may says so with 503. Whoever asks checks what came before it counts as an answer.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

import httpx

from pinotpy.clock import Clock
from pinotpy.cluster.buckets import read_record
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore
from pinotpy.cluster.views import ONLINE, InstanceConfig
from pinotpy.errors import DataError, NoNodeError, RemoteError
from pinotpy.service.archive_download import DownloadLimits, RefusedError, archive_client, download_archive

log = logging.getLogger(__name__)
BACKOFF_S: Final = 0.2
BACKOFF_MAX_S: Final = 30.0

T = TypeVar("T")


def archive_path(table: str, segment: str, crc: int) -> str:
    """The path of a segment's archive in a server's REST. `table`: with type."""
    return f"/segments/{quote(table, safe='')}/{quote(segment, safe='')}?crc={crc}"


def replica_urls(store: ClusterStore, paths: ClusterPaths, scheme: str, table: str, segment: str) -> dict[str, str]:
    """Server → base URL of its REST, of those live ones that serve a segment. Raises ConnectionLostError."""
    view = read_record(store, paths.external_view(table))
    states = {} if view is None else view.record.map_fields.get(segment, {})
    urls = {}
    for server in (name for name, state in states.items() if state == ONLINE):
        try:
            config = InstanceConfig.from_record(ZNRecord.from_bytes(store.get(paths.instance_config(server))[0]))
        except NoNodeError:
            continue
        if (port := config.port_of("adminPort")) is not None:
            urls[server] = f"{scheme}://{config.host}:{port}"
    return urls


class PeerArchives:
    """Downloads from replicas. Safe to share between threads.

    Args:
        replicas: (table with type, segment) → base URLs of the servers that may be asked; asked anew for every round.
        headers: credentials of this daemon (the cluster token).
        verify: TLS settings as httpx takes them.
    """

    def __init__(
        self,
        replicas: Callable[[str, str], Sequence[str]],
        headers: Callable[[], dict[str, str]],
        clock: Clock,
        verify: object = True,
        limits: DownloadLimits | None = None,
    ) -> None:
        self._replicas, self._headers, self._clock = replicas, headers, clock
        self._limits = limits or DownloadLimits()
        self._client = archive_client(self._limits, verify)
        self._stopped = threading.Event()

    def fetch(self, table: str, segment: str, crc: int, target: Path, take: Callable[[Path], T]) -> tuple[T, str]:
        """Download the segment with this CRC; what `take` made of its archive, and who gave it.

        Args:
            target: where an archive is written, again and again until one is good; the caller removes it.
            take: checks an archive; raises DataError or SegmentCorruptError for one that is not that segment.

        Raises: RemoteError: nobody gave it; with the reasons. What else `take` raises.
        """
        reasons: list[str] = []
        refused: set[str] = set()
        for attempt in range(self._limits.retries_max + 1):
            bases = [base for base in self._replicas(table, segment) if base not in refused]
            if not bases:
                break
            random.shuffle(bases)
            for base in bases:
                try:
                    download_archive(
                        self._client,
                        base + archive_path(table, segment, crc),
                        self._headers(),
                        target,
                        self._clock,
                        self._limits,
                    )
                    return take(target), base
                except (RefusedError, DataError) as error:
                    refused.add(base)  # it would say, or give, the same again
                    reasons.append(f"{base}: {error.message}")
                except RemoteError as error:
                    reasons.append(f"{base}: {error.message}")
                except httpx.HTTPError as error:
                    reasons.append(f"{base}: {type(error).__name__}: {error}")
                log.warning("replica gave no archive table=%s segment=%s reason=%s", table, segment, reasons[-1])
            if refused.issuperset(bases):
                break
            wait_s = min(BACKOFF_S * 2**attempt, BACKOFF_MAX_S) * random.uniform(0.5, 1.5)
            if attempt == self._limits.retries_max or self._clock.wait(self._stopped, wait_s):
                break
        raise RemoteError(
            f"no replica gave segment '{segment}' of '{table}' with CRC {crc}: "
            f"{'; '.join(reasons[-4:]) or 'no other server serves it'}",
            table=table,
            segment=segment,
        )

    def close(self) -> None:
        """Let waiting tries give up."""
        self._stopped.set()
        self._client.close()
