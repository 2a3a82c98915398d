"""The push of a job's segments from Spark's executors.

A push knows what is there already, so a task that Spark repeats sends nothing twice. The driver compares the segments'
input files with those of the table, before and after. What replaces segments at once is one act, which the driver does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from pinotpy.errors import PinotError
from pinotpy.ingest.jobs.access import access_of
from pinotpy.ingest.jobs.context import file_system_settings
from pinotpy.ingest.jobs.pushing import delete_archives, empty_files, find_archives, push_archives, replaces_at_once
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.spec import ConsistentPush, IngestionJobSpec, JobType
from pinotpy.ingest.push.job import push_segments, settings_of
from pinotpy.ingest.push.looking import Look, counts
from pinotpy.ingest.push.push import first_looks, last_looks
from pinotpy.ingest.push.report import Outcome
from pinotpy.ingest.push.sources import read_sources
from pinotpy.spark_jobs.task import REPORTS_DDL, unit_numbers
from pinotpy.spark_jobs.watching import ShowProgress, no_progress, watched

_SUMMED: Final = ("segmentsPushed", "segmentsPresent", "segmentsFailed", "bytesPushed", "attempts")
_LOOKS_AT_ONCE: Final = 16
_REPORTS: Final = pa.schema([("report", pa.string())])


def push_on_spark(spark: Any, spec: IngestionJobSpec, report: JobReport, show: ShowProgress = no_progress) -> JobReport:
    """The report of a job with that of its push: of what it built, or, where it built nothing, of the archives at its
    output.

    Raises:
        PinotError: nothing was pushed, and nothing was built before.
    """
    uris = [segment.uri for segment in report.segments]
    only_pushes = (
        spec if spec.job_type.push_mode is not None else spec.model_copy(update={"job_type": JobType.SEGMENT_TAR_PUSH})
    )
    if not uris:
        only_pushes = only_pushes.model_copy(
            update={"job_type": JobType(f"Segment{only_pushes.job_type.push_mode}Push")}
        )
        archives = find_archives(only_pushes)
        uris, report = list(archives.current), replace(report, replaced_archive_uris=archives.replaced)
        # Executors see a share each: that no two are of one name is seen here alone, and told before the first is sent.
        read_sources(uris, file_system_settings(spec), parallelism=_LOOKS_AT_ONCE)
    are_whole = bool(report.segments) and not report.num_failures
    try:
        looks = {} if replaces_at_once(only_pushes) else _first_looks(only_pushes, uris, are_whole, empty_files(report))
    except PinotError as error:
        if not report.segments:
            raise
        return replace(report, error=f"built, not pushed: {error.message}")
    if not looks or any(not look.only_adds for look in looks.values()):
        with watched(spark, "pushing segments", show):
            return push_archives(only_pushes, report)
    return _pushed_by_executors(spark, only_pushes, uris, report, looks, show)


def push_share(
    batches: Iterable[pa.RecordBatch], spec_json: Mapping[str, Any], shares: Sequence[Sequence[str]]
) -> Iterator[pa.RecordBatch]:
    """Numbers of shares of URIs → the reports of their pushes. Runs in executors."""
    for number in unit_numbers(batches):
        spec = IngestionJobSpec.from_json(spec_json)
        pushed = push_segments(spec, shares[number], file_systems=file_system_settings(spec), checks_inputs=False)
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps(pushed.to_json())], pa.string())], schema=_REPORTS)


def merged(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Reports of pushes to the same clusters as one; `seconds` of a cluster is that of its longest."""
    # A controller that was down for one executor alone is with its cluster in one report and by itself in another.
    by_controllers: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for report in reports:
        for push in report["clusters"]:
            by_controllers.setdefault(tuple(push["controllers"]), []).append(push)
    clusters: list[dict[str, Any]] = []
    for parts in by_controllers.values():
        causes = list(dict.fromkeys(push["cause"] for push in parts if push.get("cause")))
        clusters.append(
            {
                **parts[0],
                **{name: sum(push[name] for push in parts) for name in _SUMMED},
                "seconds": max(push["seconds"] for push in parts),
                "segments": sorted(
                    (segment for push in parts for segment in push["segments"]),
                    key=lambda segment: str(segment["segmentName"]),
                ),
                **({"cause": "; ".join(causes)} if causes else {}),
            }
        )
    state = "FAILED" if any(report["state"] == "FAILED" for report in reports) else "DONE"
    return {**reports[0], "state": state, "clusters": clusters}


def _first_looks(spec: IngestionJobSpec, uris: Sequence[str], are_whole: bool, empty: Sequence[str]) -> dict[str, Look]:
    settings = settings_of(spec, are_whole=are_whole, empty_files=empty)
    return first_looks(
        replace(settings, parallelism=_LOOKS_AT_ONCE),
        uris,
        access=access_of(spec),
        file_systems=file_system_settings(spec),
    )


def _with_looks(
    spec: IngestionJobSpec, uris: Sequence[str], looks: Mapping[str, Look], pushed: Mapping[str, Any]
) -> dict[str, Any]:
    """The report of the executors' pushes with what the driver found in the tables before and after them."""
    settings = replace(settings_of(spec), parallelism=_LOOKS_AT_ONCE)
    sent = [
        str(segment["segmentName"])
        for cluster in pushed["clusters"]
        for segment in cluster["segments"]
        if segment["outcome"] == Outcome.PUSHED
    ]
    causes = last_looks(
        settings, uris, looks, sorted({*sent}), access=access_of(spec), file_systems=file_system_settings(spec)
    )
    clusters = []
    for cluster in pushed["clusters"]:
        url = next((url for url in cluster["controllers"] if url in looks), "")
        pushed_cluster = {**cluster, **(counts(looks[url], settings).to_json() if url else {})}
        clusters.append({**pushed_cluster, "cause": causes[url]} if url in causes else pushed_cluster)
    return {**pushed, "state": "FAILED" if causes else pushed["state"], "clusters": clusters}


def _pushed_by_executors(
    spark: Any,
    spec: IngestionJobSpec,
    uris: Sequence[str],
    report: JobReport,
    looks: Mapping[str, Look],
    show: ShowProgress,
) -> JobReport:
    """Each executor pushes a share; `pushParallelism` shares go at once."""
    num_shares = max(1, min(spec.push_job_spec.push_parallelism, len(uris)))
    alone = spec.pinotpy.model_copy(update={"consistent_push": ConsistentPush.NONE})
    one_each = spec.push_job_spec.model_copy(update={"push_parallelism": 1})
    spec_json = spec.model_copy(update={"pinotpy": alone, "push_job_spec": one_each}).to_json_dict()
    shares = [list(uris[start::num_shares]) for start in range(num_shares)]
    with watched(spark, "pushing segments", show):
        rows = (
            spark.range(0, num_shares, 1, num_shares)
            .mapInArrow(lambda batches: push_share(batches, spec_json, shares), REPORTS_DDL)
            .collect()
        )
    pushed = _with_looks(spec, uris, looks, merged([json.loads(row["report"]) for row in rows]))
    causes = [
        str(entry["cause"])
        for cluster in pushed["clusters"]
        for entry in (cluster, *cluster["segments"])
        if entry.get("cause")
    ]
    error = "; ".join(["not everything was pushed", *causes[:20]]) if pushed["state"] == "FAILED" else None
    if error is None and spec.clean_up_output_dir:
        delete_archives(uris, file_system_settings(spec))
    return replace(report, push=pushed, error=error)
