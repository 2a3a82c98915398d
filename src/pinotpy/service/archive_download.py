"""One download of an archive from another daemon of the cluster, bounded in size and time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import httpx

from pinotpy.clock import Clock
from pinotpy.errors import DataError, RemoteError

CONNECT_TIMEOUT_S = 3.0
READ_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """timeout_ms: longest download from one daemon. retries_max: further rounds over the daemons after a failed one; 8
    wait about 50 s in all, so that a controller's restart puts no replica in ERROR. archive_bytes_max: longest archive,
    as `bytes_setting` says.
    """

    timeout_ms: int = 600_000
    retries_max: int = 8
    archive_bytes_max: int = 40 << 30
    bytes_setting: str = "pinot.server.segment.archive.maxUnpackedBytes"


class RefusedError(RemoteError):
    """A daemon answered that it will not give the segment."""


def archive_client(limits: DownloadLimits, verify: object) -> httpx.Client:
    """A client for such downloads. `verify`: TLS settings as httpx takes them."""
    return httpx.Client(
        timeout=httpx.Timeout(min(READ_TIMEOUT_S, limits.timeout_ms / 1000), connect=CONNECT_TIMEOUT_S),
        verify=verify,  # type: ignore[arg-type]
        follow_redirects=False,
        trust_env=False,
    )


def download_archive(
    client: httpx.Client, url: str, headers: dict[str, str], target: Path, clock: Clock, limits: DownloadLimits
) -> None:
    """Write what `url` gives to the file `target`.

    Raises: RefusedError for a 4xx, RemoteError for any other failure but httpx.HTTPError, DataError for an archive over
    the limit.
    """
    timeout_ms, bytes_max = limits.timeout_ms, limits.archive_bytes_max
    deadline_ns = clock.monotonic_ns() + timeout_ms * 1_000_000
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code != httpx.codes.OK:
            kind = RefusedError if response.is_client_error else RemoteError
            raise kind(f"HTTP {response.status_code}: {response.read()[:200].decode(errors='replace')}")
        size = 0
        with target.open("wb") as sink:
            for chunk in response.iter_bytes():  # as they come: one that drips must meet its deadline
                size += len(chunk)
                if size > bytes_max:
                    raise DataError(f"the archive is over {bytes_max} bytes: raise {limits.bytes_setting}")
                if clock.monotonic_ns() > deadline_ns:
                    raise RemoteError(f"the download took longer than {timeout_ms} ms, {size} bytes had come")
                sink.write(chunk)
    expected = response.headers.get("content-length")
    if expected is not None and response.headers.get("content-encoding") is None and int(expected) != size:
        raise RemoteError(f"the archive broke off: expected {expected} bytes, found {size}")
