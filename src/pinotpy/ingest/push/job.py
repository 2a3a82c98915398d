"""Pushes of ingestion jobs: the settings of a push from a job spec, and `push_segments`, which jobs and Spark call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pinotpy.client.http_calls import Access
from pinotpy.clock import Clock
from pinotpy.errors import UserError
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.ingest.jobs.access import access_of
from pinotpy.ingest.jobs.input_lists import listed_uri
from pinotpy.ingest.jobs.spec import ConsistentPush, IngestionJobSpec, PushMode
from pinotpy.ingest.push.push import push
from pinotpy.ingest.push.report import PushReport
from pinotpy.ingest.push.sending import Progress
from pinotpy.ingest.push.settings import PushKind, PushSettings, ReplaceScope
from pinotpy.ingest.push.sources import read_sources
from pinotpy.ingest.time_buckets import Bucket
from pinotpy.names import TableType, split_table_name

_KINDS = {PushMode.TAR: PushKind.TAR, PushMode.URI: PushKind.URI, PushMode.METADATA: PushKind.METADATA}


def push_segments(
    spec: IngestionJobSpec,
    segments: Sequence[str],
    *,
    access: Access | None = None,
    file_systems: FileSystemSettings | None = None,
    replaces: ReplaceScope | None = None,
    are_whole: bool = False,
    empty_files: Sequence[str] = (),
    checks_inputs: bool = True,
    clock: Clock | None = None,
    progress: Progress = lambda segment: None,
) -> PushReport:
    """Push a job's segments to its clusters.

    Args:
        segments: URIs of archives.
        access: instead of the job's own token and TLS.
        file_systems: instead of the job's pinotFSSpecs.
        replaces: what they replace at once, instead of what the job's consistentPush says.
        are_whole: they are all that the job built of its input files.
        empty_files: URIs of those that have no row, as lists write them.
        checks_inputs: compare their input files with those of the table's segments.

    Raises:
        as `push.push`.
    """
    files = file_systems or file_systems_of(spec)
    if replaces is None:
        replaces = _scope_of(spec, segments, files)
    settings = replace(
        settings_of(spec, are_whole=are_whole, empty_files=empty_files), replace=replaces, checks_inputs=checks_inputs
    )
    return push(
        settings, segments, access=access or access_of(spec), file_systems=files, clock=clock, progress=progress
    )


def settings_of(spec: IngestionJobSpec, *, are_whole: bool = False, empty_files: Sequence[str] = ()) -> PushSettings:
    """The settings of a job's push. `are_whole`: of all that it built."""
    mode = spec.job_type.push_mode
    if mode is None:
        raise UserError(f"a job of type {spec.job_type} pushes nothing")
    table, table_type = split_table_name(spec.table_spec.table_name)
    job = spec.push_job_spec
    return PushSettings(
        table=table,
        table_type=table_type or TableType.OFFLINE,
        controllers=tuple(cluster.controller_uri for cluster in spec.pinot_cluster_specs),
        kind=_KINDS[mode],
        attempts_max=job.push_attempts,
        retry_wait_ms=job.push_retry_interval_millis,
        parallelism=job.push_parallelism,
        upload_timeout_s=spec.pinotpy.push_timeout_ms / 1000,
        uri_prefix=job.segment_uri_prefix or "",
        uri_suffix=job.segment_uri_suffix or "",
        copy_to_deep_store=job.copy_to_deep_store_for_metadata_push,
        asks_table=spec.pinotpy.consistent_push is None,
        are_whole=are_whole,
        empty_files=tuple(empty_files),
        input_folder=_listed_folder(spec.input_dir_uri)
        if are_whole and spec.pinotpy.consistent_push is not ConsistentPush.NONE
        else "",
        allows_duplicates=spec.pinotpy.allow_duplicates,
        adopts=spec.pinotpy.adopt,
    )


def _listed_folder(uri: str | None) -> str:
    """A folder as lists of input files write it, with '/' at its end."""
    return "" if uri is None else f"{listed_uri(uri).rstrip('/')}/"


def file_systems_of(spec: IngestionJobSpec) -> FileSystemSettings:
    """The job's file systems. Class names are Pinot's and not used: the scheme decides."""
    return FileSystemSettings.from_specs(
        [{"scheme": file_system.scheme, "configs": dict(file_system.configs)} for file_system in spec.pinot_fs_specs]
    )


def _scope_of(spec: IngestionJobSpec, segments: Sequence[str], files: FileSystemSettings) -> ReplaceScope | None:
    """What the job's consistentPush replaces: nothing, the table, or the times that the pushed segments have."""
    match spec.pinotpy.consistent_push:
        case ConsistentPush.TABLE:
            return ReplaceScope()
        case ConsistentPush.TIME_RANGE:
            sources = read_sources(segments, files, parallelism=spec.push_job_spec.push_parallelism)
            ranges = [source.metadata.time_range for source in sources]
            known = [extent for extent in ranges if extent is not None]
            if not known or len(known) != len(ranges):
                raise UserError(
                    "consistentPush TIME_RANGE needs segments with a time column: the table's timeColumnName"
                )
            start_ms, end_ms = min(extent.start_ms for extent in known), max(extent.end_ms for extent in known)
            bucket = spec.pinotpy.time_bucket
            # Segments of whole buckets replace whole buckets, also where their first or last rows are missing.
            return (
                ReplaceScope(start_ms, end_ms + 1)
                if bucket is None
                else ReplaceScope(_bucket_start(bucket, start_ms), _bucket_end(bucket, end_ms))
            )
    return None


def _bucket_start(bucket: Bucket, time_ms: int) -> int:
    return int(
        np.datetime64(time_ms, "ms").astype(f"datetime64[{bucket.value}]").astype("datetime64[ms]").astype(np.int64)
    )


def _bucket_end(bucket: Bucket, time_ms: int) -> int:
    following = np.datetime64(time_ms, "ms").astype(f"datetime64[{bucket.value}]") + np.timedelta64(1, bucket.value)
    return int(following.astype("datetime64[ms]").astype(np.int64))
