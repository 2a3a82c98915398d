"""How a replacement of segments goes on: `decide(lineage, event, situation, now) -> SegmentLineage | None`, pure.

Rules in prose. A replacement is announced (start), its new segments are uploaded and loaded while queries do not see
them, and one write switches queries over (end). It can be given up before or taken back after (revert), as long as the
old segments are there. Whoever repeats a step that is done gets the same answer: replies may be lost. Whatever a step
decides on, it decides on one reading, and is written only if lineage and ideal state are still as they were read
(`cluster.table_state`).

    state         start                      end         revert                age
    -             IN_PROGRESS                refused     refused               -
    IN_PROGRESS   the same id: the same      COMPLETED   REVERTED, if forced   REVERTED, after a day
    COMPLETED     the same id: the same      the same    REVERTED              gone, when the old segments are
    REVERTED      gives up names it shares   refused     the same              gone after a day, when the new ones are

Rules that keep queries from seeing old and new rows together, or neither:
- a segment may be replaced only if queries see it, and by one replacement at a time; new names are names that queries
  do not see and that no replacement waits for or has replaced, so that no segment is ever hidden by one entry and shown
  by another;
- an entry under way may be taken over with `force_cleanup`: its names that the new one shares stay hidden throughout;
- what was visible until a moment ago is neither deleted nor given new content for SETTLE_MS: brokers may still ask for
  it;
- an entry outlives its segments: a job that was given up and goes on uploading must not bring its rows into sight, and
  an entry that built on another one's segments stays as long as that one, so that nobody reverts below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pinotpy.cluster.segment_lineage import LineageEntry, LineageState, SegmentLineage
from pinotpy.errors import AlreadyExistsError, ClusterError, NotFoundError, UserError
from pinotpy.names import check_segment_name

# Brokers follow the store within milliseconds and look again every second; a query that chose its segments before the
# switch has sent its requests by then.
SETTLE_MS = 10_000
DAY_MS = 86_400_000
SHOWN_NAMES_MAX = 5

IN_PROGRESS, COMPLETED, REVERTED = LineageState.IN_PROGRESS, LineageState.COMPLETED, LineageState.REVERTED


class NotReadyError(ClusterError):
    """The step is not possible yet: repeat the same request later."""

    retriable = True


@dataclass(frozen=True, slots=True)
class StartReplace:
    """`segments_to` will replace `segments_from` (empty: rows are added; empty `segments_to`: rows are removed).

    entry_id: chosen before the first attempt, so that a repeated one is recognised. force_cleanup: entries in progress
    that share segments are reverted.
    """

    entry_id: str
    segments_from: tuple[str, ...]
    segments_to: tuple[str, ...]
    force_cleanup: bool = False
    custom_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndReplace:
    """Switch to the new segments. `segments_to`: those that were uploaded, a subset of those announced; none = all of
    them.
    """

    entry_id: str
    segments_to: tuple[str, ...] = ()
    custom_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RevertReplace:
    """Switch back to the old segments. `force`: even if the entry is in progress, or old segments are not served at the
    moment.
    """

    entry_id: str
    force: bool = False
    custom_map: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgeLineage:
    """Time has passed: entries in progress for too long are reverted, entries that are no longer needed are removed."""


LineageEvent = StartReplace | EndReplace | RevertReplace | AgeLineage


@dataclass(frozen=True, slots=True)
class Ages:
    """Retention periods in ms. replaced: of old segments after the switch, for a revert; entries: of those in progress
    or reverted.
    """

    replaced_ms: int = DAY_MS
    entries_ms: int = DAY_MS


DEFAULT_AGES = Ages()


@dataclass(frozen=True, slots=True)
class Situation:
    """The table at one moment. wanted: segments of its ideal state; served: those that a server answers for now."""

    wanted: Collection[str]
    served: Collection[str] = ()
    ages: Ages = DEFAULT_AGES


def decide(lineage: SegmentLineage, event: LineageEvent, situation: Situation, now_ms: int) -> SegmentLineage | None:
    """The lineage after an event; None = it stays as it is.

    Raises: UserError (400), NotFoundError (no such entry), AlreadyExistsError (409: it contradicts another entry or the
        table's segments), NotReadyError (the same again later).
    """
    match event:
        case StartReplace():
            return _start(lineage, event, situation, now_ms)
        case EndReplace():
            return _end(lineage, event, situation, now_ms)
        case RevertReplace():
            return _revert(lineage, event, situation, now_ms)
        case AgeLineage():
            return _age(lineage, situation, now_ms)


def check_start(event: StartReplace) -> None:
    """Refuse a request that no table could fulfil."""
    if not event.segments_from and not event.segments_to:
        raise UserError(
            "'segmentsFrom' and 'segmentsTo' are both empty: name what shall be replaced, or what it shall be "
            "replaced by"
        )
    for title, names in (("segmentsFrom", event.segments_from), ("segmentsTo", event.segments_to)):
        if len(set(names)) != len(names):
            raise UserError(
                f"'{title}' names a segment twice: "
                f"{_shown(name for name, times in Counter(names).items() if times > 1)}"
            )
        for name in names:
            check_segment_name(name)
            if "," in name:
                raise UserError(
                    f"segment '{name[:80]}' of '{title}' cannot be replaced: the record of replacements separates "
                    "names by commas"
                )
    both = set(event.segments_from) & set(event.segments_to)
    if both:
        raise UserError(
            f"a segment cannot take its own place: {_shown(both)} in 'segmentsFrom' and in 'segmentsTo'; upload it "
            "again to refresh it"
        )


def doomed_segments(
    lineage: SegmentLineage, wanted: Collection[str], ages: Ages, now_ms: int, *, replaced_now: Collection[str] = ()
) -> list[str]:
    """Segments that no query will see again and whose retention is over. `replaced_now`: ids of entries whose old
    segments need no longer be kept.
    """
    doomed: set[str] = set()
    for entry_id, entry in lineage.entries.items():
        age_ms = now_ms - entry.timestamp_ms
        if entry.state is COMPLETED and age_ms >= (
            SETTLE_MS if entry_id in replaced_now else max(ages.replaced_ms, SETTLE_MS)
        ):
            doomed.update(entry.segments_from)
        elif entry.state is REVERTED and age_ms >= SETTLE_MS:
            doomed.update(entry.segments_to)
    return sorted(name for name in doomed if name in wanted)


def _start(lineage: SegmentLineage, event: StartReplace, situation: Situation, now_ms: int) -> SegmentLineage | None:
    check_start(event)
    known = lineage.entries.get(event.entry_id)
    if known is not None:
        if known.segments_from == event.segments_from and known.segments_to == event.segments_to and known.is_live:
            return None
        raise AlreadyExistsError(
            f"entry '{event.entry_id}' exists with other segments or was reverted: start with a new id",
            table=lineage.table,
        )
    _check_old_segments(lineage, event.segments_from, situation)
    _check_new_segments(lineage, event.segments_to, situation)
    new_names, entries = set(event.segments_to), dict(lineage.entries)
    for entry_id, entry in lineage.entries.items():
        shares_new = not new_names.isdisjoint(entry.segments_to)
        if entry.state is IN_PROGRESS and (shares_new or not set(event.segments_from).isdisjoint(entry.segments_from)):
            if not event.force_cleanup:
                raise AlreadyExistsError(
                    f"entry '{entry_id}', in progress for {_age_text(entry, now_ms)}, replaces or brings some of "
                    "these segments: "
                    f"{_shown({*event.segments_from} & {*entry.segments_from} | new_names & {*entry.segments_to})}; "
                    "end it or revert it, "
                    "or start with forceCleanup=true, which reverts it",
                    table=lineage.table,
                )
            entries[entry_id] = replace(entry, state=REVERTED, timestamp_ms=now_ms)
        elif entry.state is REVERTED and shares_new and now_ms - entry.timestamp_ms < SETTLE_MS:
            raise NotReadyError(
                f"segments of entry '{entry_id}' were visible until {_age_text(entry, now_ms)} ago, and brokers may "
                "still ask for them: "
                f"start again in {(SETTLE_MS - now_ms + entry.timestamp_ms) / 1000:.0f} s",
                table=lineage.table,
            )
        elif entry.state is COMPLETED and shares_new:
            raise AlreadyExistsError(
                f"{_shown(new_names & {*entry.segments_to})} came with entry '{entry_id}' and cannot come again while "
                "that entry is kept: choose other names",
                table=lineage.table,
            )
    return lineage.with_entries(
        {**_without_names(entries, new_names), event.entry_id: _new_entry(event, now_ms)}, event.custom_map
    )


def _new_entry(event: StartReplace, now_ms: int) -> LineageEntry:
    return LineageEntry(event.segments_from, event.segments_to, IN_PROGRESS, now_ms)


def _without_names(entries: Mapping[str, LineageEntry], names: set[str]) -> dict[str, LineageEntry]:
    """Reverted entries give up names that a new entry takes over, and go when nothing is left of them."""
    remaining = {}
    for entry_id, entry in entries.items():
        segments_to = (
            tuple(name for name in entry.segments_to if name not in names)
            if entry.state is REVERTED
            else entry.segments_to
        )
        if segments_to or segments_to == entry.segments_to:
            remaining[entry_id] = entry if segments_to == entry.segments_to else replace(entry, segments_to=segments_to)
    return remaining


def _check_old_segments(lineage: SegmentLineage, names: Iterable[str], situation: Situation) -> None:
    missing = [name for name in names if name not in situation.wanted]
    if missing:
        raise UserError(
            f"segments of 'segmentsFrom' are not in table '{lineage.table}': {_shown(missing)}", table=lineage.table
        )
    for name in names:
        hiding = lineage.entry_hiding(name)
        if hiding is not None:
            raise AlreadyExistsError(
                f"segment '{name}' of 'segmentsFrom' is not what queries see: entry '{hiding[0]}' ({hiding[1].state}) "
                "hides it; replace what took its place",
                table=lineage.table,
            )


def _check_new_segments(lineage: SegmentLineage, names: Collection[str], situation: Situation) -> None:
    seen = [name for name in names if name in situation.wanted and name not in lineage.hidden]
    if seen:
        raise AlreadyExistsError(
            f"segments of 'segmentsTo' are in table '{lineage.table}' already: {_shown(seen)}; choose other names",
            table=lineage.table,
        )
    for entry_id, entry in lineage.entries.items():
        shared = set(names) & set(entry.segments_from) if entry.is_live else None
        if shared:
            raise AlreadyExistsError(
                f"{_shown(shared)} of 'segmentsTo' is replaced by entry '{entry_id}' ({entry.state}): choose other "
                "names, such as by "
                "segment.name.postfix, revert that entry, or wait until it is gone "
                "(segmentsConfig.replacedSegmentsRetentionPeriod, by default a day)",
                table=lineage.table,
            )


def _end(lineage: SegmentLineage, event: EndReplace, situation: Situation, now_ms: int) -> SegmentLineage | None:
    entry = _entry(lineage, event.entry_id)
    if entry.state is COMPLETED:
        return None
    if entry.state is REVERTED:
        raise AlreadyExistsError(
            f"entry '{event.entry_id}' was reverted {_age_text(entry, now_ms)} ago and cannot be ended: start again",
            table=lineage.table,
        )
    arrived, announced = tuple(dict.fromkeys(event.segments_to)) or entry.segments_to, set(entry.segments_to)
    unknown = [name for name in arrived if name not in announced]
    if unknown:
        raise UserError(
            f"{_shown(unknown)} was not announced in 'segmentsTo' of entry '{event.entry_id}'", table=lineage.table
        )
    left_out = [name for name in announced.difference(arrived) if name in situation.wanted]
    if left_out:
        raise AlreadyExistsError(
            f"{_shown(left_out)} of entry '{event.entry_id}' was uploaded and is left out of 'segmentsTo': delete it "
            "first, or end with it",
            table=lineage.table,
        )
    missing = [name for name in arrived if name not in situation.wanted]
    if missing:
        raise AlreadyExistsError(
            f"{len(missing)} of {len(arrived)} segments of entry '{event.entry_id}' are not in table "
            f"'{lineage.table}': {_shown(missing)}; upload them first",
            table=lineage.table,
        )
    _check_served(lineage, event.entry_id, arrived, situation)
    done = replace(entry, segments_to=arrived, state=COMPLETED, timestamp_ms=now_ms)
    return lineage.with_entries({**lineage.entries, event.entry_id: done}, event.custom_map)


def _revert(lineage: SegmentLineage, event: RevertReplace, situation: Situation, now_ms: int) -> SegmentLineage | None:
    entry = _entry(lineage, event.entry_id)
    if entry.state is REVERTED:
        return None
    if entry.state is IN_PROGRESS and not event.force:
        raise AlreadyExistsError(
            f"entry '{event.entry_id}' is in progress for {_age_text(entry, now_ms)}: revert it with forceRevert=true "
            "if nobody works on it any more",
            table=lineage.table,
        )
    if entry.state is COMPLETED:
        missing = [name for name in entry.segments_from if name not in situation.wanted]
        if missing:
            raise AlreadyExistsError(
                f"entry '{event.entry_id}' cannot be reverted: old segments are deleted: {_shown(missing)}",
                table=lineage.table,
            )
        for other_id, other in lineage.entries.items():
            shared = set(entry.segments_to) & set(other.segments_from) if other.is_live else None
            if shared:
                raise AlreadyExistsError(
                    f"entry '{event.entry_id}' cannot be reverted: entry '{other_id}' ({other.state}) replaces "
                    f"{_shown(shared)} of it; revert that one first",
                    table=lineage.table,
                )
        if not event.force:
            _check_served(lineage, event.entry_id, entry.segments_from, situation)
    undone = replace(entry, state=REVERTED, timestamp_ms=now_ms)
    return lineage.with_entries({**lineage.entries, event.entry_id: undone}, event.custom_map)


def _check_served(lineage: SegmentLineage, entry_id: str, names: Collection[str], situation: Situation) -> None:
    waiting = [name for name in names if name not in situation.served]
    if waiting:
        raise NotReadyError(
            f"{len(waiting)} of {len(names)} segments of entry '{entry_id}' of table '{lineage.table}' are not served "
            f"yet: {_shown(waiting)}; "
            "the switch waits until each is ONLINE on a server that takes queries: look at the table's external view "
            "and the servers' logs, or ask again",
            table=lineage.table,
        )


def _age(lineage: SegmentLineage, situation: Situation, now_ms: int) -> SegmentLineage | None:
    ages, registered = situation.ages, situation.wanted
    entries: dict[str, LineageEntry] = {}
    for entry_id, entry in lineage.entries.items():
        is_old = now_ms - entry.timestamp_ms >= max(
            ages.replaced_ms if entry.state is COMPLETED else ages.entries_ms, SETTLE_MS
        )
        if entry.state is IN_PROGRESS:
            entries[entry_id] = replace(entry, state=REVERTED, timestamp_ms=now_ms) if is_old else entry
        elif not is_old or any(name in registered for name in entry.hidden):
            entries[entry_id] = entry
    # An entry that replaced another one's new segments stays as long as that one could be reverted.
    grew = True
    while grew:
        brought = {name for entry in entries.values() if entry.state is COMPLETED for name in entry.segments_to}
        needed = {
            earlier_id: entry
            for earlier_id, entry in lineage.entries.items()
            if earlier_id not in entries and entry.is_live and not brought.isdisjoint(entry.segments_from)
        }
        entries |= needed
        grew = bool(needed)
    return None if entries == lineage.entries else lineage.with_entries(entries)


def _entry(lineage: SegmentLineage, entry_id: str) -> LineageEntry:
    entry = lineage.entries.get(entry_id)
    if entry is None:
        raise NotFoundError(
            f"no entry '{entry_id[:80]}' in the segment lineage of table '{lineage.table}'", table=lineage.table
        )
    return entry


def _age_text(entry: LineageEntry, now_ms: int) -> str:
    return f"{max(now_ms - entry.timestamp_ms, 0) // 1000} s"


def _shown(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - SHOWN_NAMES_MAX} more" if len(listed) > SHOWN_NAMES_MAX else ""
    return ", ".join(f"'{name}'" for name in listed[:SHOWN_NAMES_MAX]) + more
