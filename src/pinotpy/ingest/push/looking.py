"""What a table already has of the files of a push: checked before the first segment is sent, and again after the last
one.

The first check decides what is replaced, or refuses. Two concurrent pushes may both find nothing: for new rows each
checks again when queries see its own, so that the later one sees the other's. A push that finds rows of its files in
segments that appeared meanwhile withdraws its additions. So of two pushes of the same files at most one adds them;
perhaps none does, and reports it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pinotpy.errors import AlreadyExistsError, NotFoundError, PinotError, ServerUnreachableError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import masked
from pinotpy.ingest.push.clusters import Cluster
from pinotpy.ingest.push.inputs import (
    InputPlan,
    KnownFiles,
    LiveSegment,
    Overlap,
    files_in_question,
    plan_inputs,
    shared_rows,
)
from pinotpy.ingest.push.replacing import ReplacePlan, plan_replacement, shown
from pinotpy.ingest.push.report import InputCounts
from pinotpy.ingest.push.settings import PushSettings
from pinotpy.ingest.push.sources import SegmentSource
from pinotpy.segment.input_list import InputList

log = logging.getLogger(__name__)
LOOKS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Look:
    """The segments that are live, what becomes of them, and what is swapped at once for it; None: nothing."""

    plan: InputPlan
    live: Mapping[str, LiveSegment] = field(default_factory=dict)
    swap: ReplacePlan | None = None

    @property
    def only_adds(self) -> bool:
        return self.swap is None and not self.plan.listed


def look(
    cluster: Cluster, sources: Sequence[SegmentSource], settings: PushSettings, file_systems: FileSystemSettings | None
) -> Look:
    """Look at a cluster's table before a push. Only pushes that bring lists of input files are compared.

    Raises:
        AlreadyExistsError: rows would be there twice, or be lost; its message says how to go on.
    """
    without_list = sum(source.inputs is None for source in sources)
    if settings.replace is None and (not settings.checks_inputs or without_list == len(sources)):
        return Look(InputPlan(num_without_list=without_list))
    pushed = {source.name: as_pushed(source) for source in sources}
    live = (
        _with_inputs(cluster, settings, pushed, live_segments(cluster, settings))
        if settings.checks_inputs
        else live_segments(cluster, settings)
    )
    asked = ReplacePlan((), ()) if settings.replace is None else plan_replacement(settings.replace, sources, live)
    plan = InputPlan(num_without_list=without_list)
    if settings.checks_inputs:
        remaining = {name: segment for name, segment in live.items() if name not in set(asked.segments_from)}
        exists = _whether_there(files_in_question(pushed, remaining, settings.input_folder), file_systems)
        plan = plan_inputs(
            pushed,
            remaining,
            KnownFiles(exists, settings.are_whole, settings.input_folder, settings.empty_files),
            adopts=settings.adopts,
        )
        refuse(plan, settings)
    gone = {*asked.segments_from, *(() if settings.allows_duplicates else plan.replaced)}
    if settings.replace is None and not gone:
        return Look(plan, live)
    new = (
        asked.segments_to
        if settings.replace is not None
        else tuple(sorted(name for name in pushed if name not in live and name not in plan.adopted))
    )
    return Look(plan, live, ReplacePlan(tuple(sorted(gone)), new))


def refuse(plan: InputPlan, settings: PushSettings) -> None:
    """Raises AlreadyExistsError for what a push shall not do unasked."""
    faults = []
    if plan.lost:
        faults.append(
            f"{_num_rows(plan.lost):,} rows would be lost: segments come under the name of {_named(plan.lost)}, whose "
            "rows are of files that are "
            "not in this push; give the new segments names of their own, such as by segment.name.prefix or .postfix, "
            "or delete the old ones first"
        )
    if plan.versions and not settings.allows_duplicates:
        faults.append(
            f"two versions of one file are in this push: {_named(plan.versions)} and another segment; remove the "
            "archive of the older one"
        )
    if plan.twice and not settings.allows_duplicates:
        faults.append(
            f"{_num_rows(plan.twice):,} rows would be there twice, those in {_named(plan.twice)}: they stay, as rows "
            "of other files are with them, a file was "
            "copied and not moved, or nothing says that all rows of the file come; push all these files in one job "
            "that builds and pushes, or replace the "
            "table or a range of times (--replace-table; consistentPush), or add the rows all the same "
            "(--allow-duplicates; pinotpy.allowDuplicates)"
        )
    if plan.alike and not settings.allows_duplicates:
        faults.append(
            f"{len(plan.alike):,} segments of files that are gone have the time range and the number of rows of "
            "segments that come: "
            f"{shown(plan.alike)}; if the files were renamed and changed, such as packed, delete these segments first "
            "(DELETE "
            "/segments/{table}/{segment}); else add the rows all the same (--allow-duplicates; pinotpy.allowDuplicates)"
        )
    if plan.unknown and not settings.allows_duplicates:
        faults.append(
            f"{len(plan.unknown):,} segments of the table have no list of their input files and may have rows of this "
            f"push: {shown(plan.unknown)}; "
            "if they are those of this push, --adopt (pinotpy.adopt) gives each of them the list of the one of the "
            "same time range and number of rows; "
            "else replace them (--replace-table; consistentPush), or add the rows all the same (--allow-duplicates; "
            "pinotpy.allowDuplicates)"
        )
    if faults:
        raise AlreadyExistsError(
            f"nothing is pushed to table '{settings.table}': " + ". ".join(faults), table=settings.table
        )


def counts(found: Look, settings: PushSettings) -> InputCounts:
    """What the report of a push tells of its first look."""
    plan, rows_twice = found.plan, 0
    if settings.allows_duplicates:
        replaced = sum(file.num_rows for name in plan.replaced for file in found.live[name].files)
        rows_twice = replaced + _num_rows(plan.twice) + _num_rows(plan.versions)
    return InputCounts(rows_twice, len(plan.listed), plan.num_without_list, len(plan.kept), len(plan.unknown))


def came_meanwhile(
    cluster: Cluster, sources: Sequence[SegmentSource], settings: PushSettings, before: Look
) -> list[Overlap]:
    """The second look: rows of the push's files in segments that another push added since the first one."""
    if not settings.checks_inputs or settings.allows_duplicates or all(source.inputs is None for source in sources):
        return []
    pushed = {source.name: as_pushed(source) for source in sources}
    names = cluster.ask(lambda client: client.segments(settings.table, exclude_replaced=True)).get(
        settings.table_type.value, []
    )
    if all(name in pushed or name in before.live for name in names):
        return []
    now = {
        name: segment
        for name, segment in live_segments(cluster, settings).items()
        if name not in pushed and name not in before.live
    }
    return shared_rows(pushed, _with_inputs(cluster, settings, {}, now))


def take_back(
    cluster: Cluster,
    settings: PushSettings,
    others: Sequence[Overlap],
    entry_id: str | None,
    added: Collection[str],
    refreshed: Collection[str],
) -> str:
    """Withdraw the additions of a push because another one has the same rows; returns what to report."""
    cause = f"another push brought {_num_rows(others):,} rows of the same files meanwhile, in {_named(others)}"
    table, table_type = settings.table, settings.table_type.value
    try:
        if entry_id is not None:
            cluster.ask(lambda client: client.revert_replace_segments(table, entry_id, table_type=table_type))
        else:
            cluster.ask(lambda client: [client.delete_segment(table, name) for name in added])
    except PinotError as error:
        return (
            f"{cause}; they are there twice, as what this push added could not be taken back ({error.message}): "
            "push again"
        )
    log.info(
        "push taken back table=%s segments=%d others=%s",
        table,
        len(added),
        ",".join(other.segment for other in others[:5]),
    )
    note = f", but for {shown(refreshed)}, which had its name before: its rows are there twice" if refreshed else ""
    return f"{cause}; what this push added is taken back{note}: push again"


def live_segments(cluster: Cluster, settings: PushSettings) -> dict[str, LiveSegment]:
    """The segments that answer queries, by name, without their input files: those that were replaced are not among
    them, nor those that wait for the end of their replacement.
    """
    table_type = settings.table_type.value
    names = cluster.ask(lambda client: client.segments(settings.table, exclude_replaced=True)).get(table_type, [])
    records = cluster.ask(lambda client: client.segment_records(settings.table, table_type=table_type))
    return {name: _from_record(records[name]) for name in names if name in records}


def _from_record(record: Mapping[str, str]) -> LiveSegment:
    start_ms, end_ms = (
        int(record[key]) if key in record else None for key in ("segment.start.time", "segment.end.time")
    )
    return LiveSegment(
        int(record["segment.crc"]),
        start_ms,
        end_ms,
        int(record.get("segment.total.docs", 0)),
        inputs_sha256=record.get("segment.inputs.sha256", ""),
    )


def as_pushed(source: SegmentSource) -> LiveSegment:
    """A segment that is to be pushed, as it will be in the table."""
    metadata, times = source.metadata, source.metadata.time_range
    start_ms, end_ms = (times.start_ms, times.end_ms) if times is not None else (None, None)
    return LiveSegment(
        metadata.crc,
        start_ms,
        end_ms,
        metadata.num_docs,
        source.inputs,
        source.inputs.digest if source.inputs is not None else "",
    )


def _with_inputs(
    cluster: Cluster, settings: PushSettings, pushed: Mapping[str, LiveSegment], live: Mapping[str, LiveSegment]
) -> dict[str, LiveSegment]:
    """The live segments with their lists. What comes unchanged is not asked for."""
    known = {segment.inputs_sha256: segment.inputs for segment in pushed.values() if segment.inputs is not None}

    def completed(name: str) -> LiveSegment:
        segment = live[name]
        if not segment.inputs_sha256:
            return segment
        return replace(segment, inputs=known.get(segment.inputs_sha256) or _read_inputs(cluster, settings.table, name))

    with ThreadPoolExecutor(LOOKS_AT_ONCE, "push-inputs") as pool:
        return dict(zip(live, pool.map(completed, live), strict=True))


def _read_inputs(cluster: Cluster, table: str, segment: str) -> InputList | None:
    """The list of a live segment: it may lie at one controller alone. None if none of those that are known has it."""
    for client in cluster.clients:
        try:
            return InputList.from_bytes(client.segment_inputs(table, segment), f"of segment '{segment}'")
        except NotFoundError:
            continue
        except ServerUnreachableError:
            if client is cluster.clients[-1]:
                raise
    return None


def _whether_there(uris: Collection[str], file_systems: FileSystemSettings | None) -> dict[str, bool | None]:
    """Of files whether they exist; None where their storage does not say."""

    def exists(uri: str) -> bool | None:
        try:
            return file_system_for(uri, file_systems).exists(uri)
        except PinotError as error:
            log.warning("nobody can tell whether an input file exists uri=%s reason=%s", masked(uri), error.message)
            return None

    with ThreadPoolExecutor(LOOKS_AT_ONCE, "push-files") as pool:
        return dict(zip(uris, pool.map(exists, uris), strict=True))


def _num_rows(overlaps: Iterable[Overlap]) -> int:
    return sum(overlap.num_rows for overlap in overlaps)


def _named(overlaps: Sequence[Overlap]) -> str:
    """`segments a, b (of 3 files, first 's3://…')`."""
    files = {file.uri for overlap in overlaps for file in overlap.files}
    return (
        f"{shown(overlap.segment for overlap in overlaps)} "
        f"({f'{len(files):,} files, first' if len(files) > 1 else 'of'} '{masked(min(files))}')"
    )
