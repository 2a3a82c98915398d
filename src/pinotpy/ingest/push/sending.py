"""Sends segments to one cluster: in parallel, each with bounded attempts, until a deadline.

Sending a segment is idempotent (the controller compares CRCs), so an attempt whose answer was lost is simply repeated.
Permanent refusals (4xx) are not retried; 409 is, because another upload was in progress.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from pinotpy.client.controller import ControllerClient
from pinotpy.clock import Clock
from pinotpy.errors import AlreadyExistsError, DataError, PinotError, UserError
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import LOCAL_SCHEMES, authority_and_path, file_uri, local_path, scheme_of
from pinotpy.ingest.push.clusters import Cluster
from pinotpy.ingest.push.report import Outcome, PushedSegment
from pinotpy.ingest.push.settings import RETRY_WAIT_MAX_MS, PushKind, PushSettings
from pinotpy.ingest.push.sources import SegmentSource
from pinotpy.segment.archive.archive import pack_metadata

log = logging.getLogger(__name__)
Progress = Callable[[PushedSegment], None]
# Beyond it every wait but none is the longest one.
_DOUBLED_MAX = 20


def send_all(
    cluster: Cluster,
    sources: Sequence[SegmentSource],
    settings: PushSettings,
    file_systems: FileSystemSettings | None,
    clock: Clock,
    progress: Progress,
) -> list[PushedSegment]:
    """Send segments to one cluster; one report each, in their order. Whatever fails is in the reports; nothing is
    raised.
    """
    ended = threading.Event()  # set when nobody waits for the result any more
    ends_ns = clock.monotonic_ns() + int(settings.deadline_s * 1e9)

    def send(source: SegmentSource) -> PushedSegment:
        began_ns, attempts, cause = clock.monotonic_ns(), 0, ""
        missing: tuple[str, ...] = ()
        while not cause and not ended.is_set():
            left_s = (ends_ns - clock.monotonic_ns()) / 1e9
            if left_s <= 0:
                cause = f"the push's time of {settings.deadline_s:g} s was over"
                break
            attempts += 1
            try:
                timeout_s = min(settings.upload_timeout_s, left_s)
                missing = send_once(cluster, source, settings, file_systems, timeout_s=timeout_s)
                break
            except PinotError as error:
                wait_s = retry_wait_s(settings, attempts)
                if not is_retriable(error) or attempts >= settings.attempts_max:
                    cause = error.message
                elif wait_s * 1e9 > ends_ns - clock.monotonic_ns():
                    cause = f"{error.message}; the push's time of {settings.deadline_s:g} s was over"
                else:
                    log.warning(
                        "segment not pushed segment=%s attempt=%d of=%d cause=%s",
                        source.name,
                        attempts,
                        settings.attempts_max,
                        error.message,
                    )
                    clock.wait(ended, wait_s)
        took_s = (clock.monotonic_ns() - began_ns) / 1e9
        outcome = Outcome.FAILED if cause else Outcome.PUSHED
        done = reported(source, outcome, attempts=attempts, seconds=took_s, cause=cause, missing_columns=missing)
        log.info(
            "segment %s segment=%s bytes=%d attempts=%d took_ms=%d",
            outcome.value,
            source.name,
            source.size_bytes,
            attempts,
            took_s * 1000,
        )
        progress(done)
        return done

    with ThreadPoolExecutor(max(1, settings.parallelism), "push") as pool:
        try:
            return list(pool.map(send, sources))
        finally:
            ended.set()


def send_once(
    cluster: Cluster,
    source: SegmentSource,
    settings: PushSettings,
    file_systems: FileSystemSettings | None,
    *,
    timeout_s: float,
) -> tuple[str, ...]:
    """One attempt; gives the columns of the schema that the segment lacks. Raises what storage or the controller
    says.
    """
    table, table_type = settings.table, settings.table_type.value
    inputs = source.inputs.to_bytes() if source.inputs is not None else None

    def call(client: ControllerClient) -> dict[str, Any]:
        match settings.kind:
            case PushKind.TAR:
                with source.opened(file_systems) as stream:
                    return client.upload_segment(
                        None, table, table_type=table_type, stream=stream, inputs=inputs, timeout_s=timeout_s
                    )
            case PushKind.URI:
                headers = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": download_uri(source, settings)}
                return client.upload_segment(
                    None, table, table_type=table_type, headers=headers, inputs=inputs, timeout_s=timeout_s
                )
            case PushKind.METADATA:
                headers = {
                    "UPLOAD_TYPE": "METADATA",
                    "DOWNLOAD_URI": download_uri(source, settings),
                    "COPY_SEGMENT_TO_DEEP_STORE": str(settings.copy_to_deep_store).lower(),
                }
                packed = BytesIO(pack_metadata(source.metadata_bytes, source.name))
                return client.upload_segment(
                    None,
                    table,
                    table_type=table_type,
                    stream=packed,
                    headers=headers,
                    inputs=inputs,
                    timeout_s=timeout_s,
                )

    return tuple(cluster.once(call).get("missingColumns", ()))


def download_uri(source: SegmentSource, settings: PushSettings) -> str:
    """Where the controller shall find a segment: its URI, or with a prefix `<prefix><path><suffix>`, as Pinot's push
    jobs make it.

    Raises UserError for a segment that only this machine knows.
    """
    if source.folder is not None:
        raise UserError(
            f"segment '{source.name}' is a folder of this machine: a {settings.kind.value} push needs an archive, "
            "pack it or use a tar push"
        )
    is_local = scheme_of(source.uri) in LOCAL_SCHEMES
    uri = file_uri(local_path(source.uri).absolute()) if is_local else source.uri
    if not settings.uri_prefix:
        return uri + settings.uri_suffix
    parts = urlsplit(uri) if is_local or scheme_of(uri) in ("http", "https") else None
    path = parts.path if parts is not None else "/" + authority_and_path(uri)[1]
    return settings.uri_prefix + path + settings.uri_suffix


def is_retriable(error: PinotError) -> bool:
    """Whether another attempt may help."""
    if isinstance(error, AlreadyExistsError):
        return "not permitted" not in error.message
    return error.retriable and not isinstance(error, DataError)


def retry_wait_s(settings: PushSettings, attempts: int) -> float:
    """Wait after so many attempts: doubled each time, up to 30 s, and then between half and one and a half of it."""
    wait_ms = min(settings.retry_wait_ms * 2.0 ** min(attempts - 1, _DOUBLED_MAX), RETRY_WAIT_MAX_MS)
    return wait_ms / 1000 * random.uniform(0.5, 1.5)


def reported(
    source: SegmentSource,
    outcome: Outcome,
    *,
    attempts: int = 0,
    seconds: float = 0.0,
    cause: str = "",
    missing_columns: tuple[str, ...] = (),
) -> PushedSegment:
    """The line of a segment in the report."""
    metadata = source.metadata
    return PushedSegment(
        source.name,
        source.uri,
        metadata.crc,
        source.size_bytes,
        metadata.num_docs,
        outcome,
        attempts,
        seconds,
        cause,
        missing_columns,
    )
