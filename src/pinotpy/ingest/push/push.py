"""A push from its first look at the archives to its report: start reading at `push`.

A segment that exists with the same CRC is not sent again, so an interrupted push is resumed by running it again. Rows
of one input file enter the table once (`looking`, `inputs`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pinotpy.client.http_calls import Access
from pinotpy.clock import Clock, SystemClock
from pinotpy.errors import NotFoundError, PinotError, UserError
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.ingest.push.clusters import Cluster, Unreachable, find_clusters
from pinotpy.ingest.push.inputs import InputPlan, Overlap
from pinotpy.ingest.push.looking import Look, came_meanwhile, counts, look, take_back
from pinotpy.ingest.push.replacing import ReplacePlan, is_complete, start_or_resume
from pinotpy.ingest.push.report import ClusterPush, Outcome, PushedSegment, PushReport, Replacement
from pinotpy.ingest.push.sending import Progress, reported, retry_wait_s, send_all
from pinotpy.ingest.push.settings import ONLINE_TIMEOUT_S, PushSettings, ReplaceScope
from pinotpy.ingest.push.sources import SegmentSource, read_sources
from pinotpy.names import table_name_with_type

log = logging.getLogger(__name__)


def push(
    settings: PushSettings,
    segments: Sequence[str],
    *,
    access: Access | None = None,
    file_systems: FileSystemSettings | None = None,
    clock: Clock | None = None,
    progress: Progress = lambda segment: None,
) -> PushReport:
    """Push segments to every cluster behind the settings' controllers.

    Args:
        segments: URIs of archives, or of segment folders of this machine.
        access: credentials and trust for the controllers.
        file_systems: how the storages of the URIs are reached.
        progress: called with each segment that is done, from any thread.

    Raises:
        UserError and its kin: nothing can be pushed (no segment, no such table, no right, rows that would be there
            twice); nothing was sent.
        NotFoundError, RemoteError: a segment is not there, or its storage cannot be reached.
        What fails later is in the report, also controllers that cannot be reached.
    """
    clock = clock or SystemClock()
    with _begun(settings, segments, access, file_systems, clock) as begun:
        done = [
            _push_to(cluster, begun.sources, cluster_settings, look, file_systems, clock, progress)
            for cluster, cluster_settings, look in begun.clusters
        ]
    sources, silent = begun.sources, begun.silent
    lost = [
        ClusterPush(
            (cluster.url,),
            tuple(reported(source, Outcome.FAILED, cause=cluster.cause) for source in sources),
            0.0,
            cause=cluster.cause,
        )
        for cluster in silent
    ]
    return PushReport(table_name_with_type(settings.table, settings.table_type), settings.kind, (*done, *lost))


def first_looks(
    settings: PushSettings, segments: Sequence[str], *, access: Access | None, file_systems: FileSystemSettings | None
) -> dict[str, Look]:
    """What `push` would find before it sends the first segment, by the cluster's first controller, for those who send
    by other ways. Raises as `push`.
    """
    with _begun(settings, segments, access, file_systems, SystemClock()) as begun:
        return {cluster.urls[0]: look for cluster, _, look in begun.clusters}


def last_looks(
    settings: PushSettings,
    segments: Sequence[str],
    looks: Mapping[str, Look],
    pushed: Collection[str],
    *,
    access: Access | None,
    file_systems: FileSystemSettings | None,
) -> dict[str, str]:
    """The second look of who sent the segments `pushed` by other ways: what was taken back for another push's sake, by
    the cluster's first controller.
    """
    causes = {}
    with _begun(replace(settings, checks_inputs=False), segments, access, file_systems, SystemClock()) as begun:
        for cluster, _, _ in begun.clusters:
            look_before = looks.get(cluster.urls[0], Look(InputPlan()))
            if others := came_meanwhile(cluster, begun.sources, settings, look_before):
                added, refreshed = (
                    [name for name in pushed if name not in look_before.live],
                    [name for name in pushed if name in look_before.live],
                )
                causes[cluster.urls[0]] = take_back(cluster, settings, others, None, added, refreshed)
    return causes


@dataclass(frozen=True, slots=True)
class _Begun:
    """The segments of a push, its clusters with their settings and first looks, and the controllers that do not
    answer.
    """

    sources: list[SegmentSource]
    clusters: list[tuple[Cluster, PushSettings, Look]]
    silent: list[Unreachable]


@contextmanager
def _begun(
    settings: PushSettings,
    segments: Sequence[str],
    access: Access | None,
    file_systems: FileSystemSettings | None,
    clock: Clock,
) -> Iterator[_Begun]:
    """Look at all segments and every table, before the first byte is sent anywhere."""
    if not segments:
        raise UserError("there is no segment to push")
    sources = read_sources(segments, file_systems, parallelism=settings.parallelism)
    waits_s = (retry_wait_s(settings, attempt) for attempt in range(1, settings.attempts_max))
    never = threading.Event()
    clusters, silent = find_clusters(settings.controllers, access, waits_s, lambda wait_s: clock.wait(never, wait_s))
    try:
        asked = [_as_table_says(cluster, settings) for cluster in clusters]
        looks = [
            look(cluster, sources, cluster_settings, file_systems)
            for cluster, cluster_settings in zip(clusters, asked, strict=True)
        ]
        yield _Begun(sources, list(zip(clusters, asked, looks, strict=True)), silent)
    finally:
        for cluster in clusters:
            cluster.close()


def _as_table_says(cluster: Cluster, settings: PushSettings) -> PushSettings:
    """The settings for one cluster. Raises NotFoundError if it has no such table: said once, not by the refusal of
    every segment.
    """
    halves = cluster.ask(lambda client: client.table(settings.table))
    config = halves.get(settings.table_type.value)
    if config is None:
        name = table_name_with_type(settings.table, settings.table_type)
        raise NotFoundError(f"no table '{name}' at {cluster.urls[0]}: create it first, or name another one", table=name)
    batch = (config.get("ingestionConfig") or {}).get("batchIngestionConfig") or {}
    push_type = batch.get("segmentIngestionType") or (config.get("segmentsConfig") or {}).get("segmentPushType") or ""
    if str(push_type).upper() != "REFRESH":
        settings = replace(settings, input_folder="")
    if settings.replace is not None or not settings.asks_table:
        return settings
    return replace(settings, replace=ReplaceScope()) if batch.get("consistentDataPush") is True else settings


def _push_to(
    cluster: Cluster,
    sources: Sequence[SegmentSource],
    settings: PushSettings,
    look: Look,
    file_systems: FileSystemSettings | None,
    clock: Clock,
    progress: Progress,
) -> ClusterPush:
    began_ns = clock.monotonic_ns()
    segments: list[PushedSegment] = []
    replacement: Replacement | None = None
    cause = ""
    by_name = {source.name: source for source in sources}
    sent = [source for source in sources if source.name not in look.plan.adopted]
    try:
        for name, of_segment in look.plan.listed.items():
            _set_inputs(cluster, settings, name, by_name[of_segment], look.live[name].crc)
        if look.swap is None:
            segments = _send_missing(cluster, sent, settings, file_systems, clock, progress)
            if settings.online_timeout_s is not None:
                _wait_online(
                    cluster,
                    settings,
                    [segment.name for segment in segments if segment.outcome is not Outcome.FAILED],
                    settings.online_timeout_s,
                )
        else:
            segments, replacement = _replace(cluster, sent, settings, look.swap, file_systems, clock, progress)
        segments += [reported(by_name[name], Outcome.PRESENT) for name in sorted(look.plan.adopted)]
        if others := came_meanwhile(cluster, sources, settings, look):
            segments, replacement, cause = _taken_back(cluster, settings, look, others, segments, replacement)
    except PinotError as error:
        log.warning(
            "push failed controllers=%s table=%s cause=%s", ",".join(cluster.urls), settings.table, error.message
        )
        cause = error.message
        segments = segments or [reported(source, Outcome.FAILED, cause=error.message) for source in sources]
    return ClusterPush(
        cluster.urls,
        tuple(segments),
        (clock.monotonic_ns() - began_ns) / 1e9,
        replacement,
        cause,
        counts(look, settings),
    )


def _set_inputs(cluster: Cluster, settings: PushSettings, segment: str, source: SegmentSource, crc: int) -> None:
    assert source.inputs is not None
    data = source.inputs.to_bytes()
    cluster.ask(
        lambda client: client.set_segment_inputs(
            table_name_with_type(settings.table, settings.table_type), segment, data, crc=crc
        )
    )


def _taken_back(
    cluster: Cluster,
    settings: PushSettings,
    look: Look,
    others: Sequence[Overlap],
    segments: Sequence[PushedSegment],
    replacement: Replacement | None,
) -> tuple[list[PushedSegment], Replacement | None, str]:
    """The report of a push that another one of the same files was faster than."""
    pushed = [segment.name for segment in segments if segment.outcome is Outcome.PUSHED]
    added, refreshed = (
        [name for name in pushed if name not in look.live],
        [name for name in pushed if name in look.live],
    )
    ended = replacement if replacement is not None and replacement.is_complete else None
    cause = take_back(
        cluster, settings, others, ended.lineage_entry_id if ended is not None else None, added, refreshed
    )
    failed = [
        replace(segment, outcome=Outcome.FAILED, cause=cause) if segment.name in set(added) else segment
        for segment in segments
    ]
    return failed, replace(ended, is_complete=False) if ended is not None else replacement, cause


def _send_missing(
    cluster: Cluster,
    sources: Sequence[SegmentSource],
    settings: PushSettings,
    file_systems: FileSystemSettings | None,
    clock: Clock,
    progress: Progress,
) -> list[PushedSegment]:
    """Send what does not exist with the same CRC; one report each, in the order of `sources`."""
    records = (
        {}
        if settings.sends_again
        else cluster.ask(lambda client: client.segment_records(settings.table, table_type=settings.table_type.value))
    )
    is_there = {
        source.name: int(records.get(source.name, {}).get("segment.crc", -1)) == source.metadata.crc
        for source in sources
    }
    present = {source.name: reported(source, Outcome.PRESENT) for source in sources if is_there[source.name]}
    for segment in present.values():
        progress(segment)
    sent = send_all(
        cluster, [source for source in sources if not is_there[source.name]], settings, file_systems, clock, progress
    )
    by_name = present | {segment.name: segment for segment in sent}
    return [by_name[source.name] for source in sources]


def _replace(
    cluster: Cluster,
    sources: Sequence[SegmentSource],
    settings: PushSettings,
    plan: ReplacePlan,
    file_systems: FileSystemSettings | None,
    clock: Clock,
    progress: Progress,
) -> tuple[list[PushedSegment], Replacement | None]:
    """Push, and swap in at once. What fails is reverted, and then raised or in the reports."""
    if not plan.segments_from and not plan.segments_to:
        return [reported(source, Outcome.PRESENT) for source in sources], None
    entry_id = cluster.ask(lambda client: start_or_resume(client, settings, plan))
    try:
        segments = _send_missing(cluster, sources, settings, file_systems, clock, progress)
        is_whole = all(segment.outcome is not Outcome.FAILED for segment in segments)
        if is_whole:
            _wait_online(cluster, settings, plan.segments_to, settings.online_timeout_s or ONLINE_TIMEOUT_S)
    except BaseException:
        _give_up(cluster, settings, entry_id)
        raise
    if is_whole:
        _end(cluster, settings, entry_id)
    else:
        _give_up(cluster, settings, entry_id)
    return segments, Replacement(entry_id, plan.segments_from, plan.segments_to, is_whole)


def _end(cluster: Cluster, settings: PushSettings, entry_id: str) -> None:
    """Swap. If the answer says no, or never comes, what the lineage says counts."""
    table_type, timeout_s = settings.table_type.value, settings.online_timeout_s or ONLINE_TIMEOUT_S
    try:
        cluster.ask(
            lambda client: client.end_replace_segments(
                settings.table, entry_id, table_type=table_type, timeout_s=timeout_s
            )
        )
    except BaseException:
        # If nobody can say, the entry stays as it is: the next push of the same segments goes on with it.
        if cluster.ask(lambda client: is_complete(client, settings, entry_id)):
            return
        _revert(cluster, settings, entry_id)
        raise


def _give_up(cluster: Cluster, settings: PushSettings, entry_id: str) -> None:
    """Revert a replacement that did not take place. Two runs of the same push share an entry: if the other one ended
    it, it stays.
    """
    try:
        took_place = cluster.ask(lambda client: is_complete(client, settings, entry_id))
    except PinotError as error:
        log.warning(
            "replacement not reverted, nobody says whether it took place table=%s entry=%s cause=%s",
            settings.table,
            entry_id,
            error.message,
        )
        return
    if not took_place:
        _revert(cluster, settings, entry_id)


def _revert(cluster: Cluster, settings: PushSettings, entry_id: str) -> None:
    """Give a replacement up. If that fails, too, the new segments stay hidden, and the next push of the same segments
    goes on with the entry.
    """
    try:
        cluster.ask(
            lambda client: client.revert_replace_segments(
                settings.table, entry_id, table_type=settings.table_type.value, force_revert=True
            )
        )
        log.info("replacement reverted table=%s entry=%s", settings.table, entry_id)
    except PinotError as error:
        log.warning(
            "replacement not reverted, its segments stay hidden table=%s entry=%s cause=%s",
            settings.table,
            entry_id,
            error.message,
        )


def _wait_online(cluster: Cluster, settings: PushSettings, names: Sequence[str], timeout_s: float) -> None:
    table = table_name_with_type(settings.table, settings.table_type)
    cluster.ask(lambda client: client.wait_until_online(table, segments=names, timeout_s=timeout_s))
