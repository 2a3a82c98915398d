"""Steps of replacements as writes: decided on lineage and ideal state as read, written only if both are unchanged."""

from __future__ import annotations

from collections.abc import Iterable

from pinotpy.cluster.buckets import WritePlan
from pinotpy.cluster.lineage import EndReplace, RevertReplace, Situation, decide
from pinotpy.cluster.segment_lineage import LineageState
from pinotpy.cluster.store import Check, Create, Delete, Op, SetData
from pinotpy.cluster.table_changes import ChangeLineage
from pinotpy.cluster.table_reading import Decision, Reading
from pinotpy.errors import AlreadyExistsError


def change_lineage(reading: Reading, change: ChangeLineage) -> Decision:
    """One step, or nothing if it is done already. Raises what `cluster.lineage.decide` raises."""
    lineage, version = reading.lineage()
    stored = reading.ideal_state()
    served = reading.served_segments() if isinstance(change.event, EndReplace | RevertReplace) else ()
    new = decide(lineage, change.event, Situation(stored.record.map_fields, served, change.ages), change.now_ms)
    if new is None:
        return Decision(None)
    path, data = reading.paths.segment_lineage(reading.table), new.to_record().to_bytes()
    # No segment may come or go between the decision and its write. The node stays when it is empty: a version that
    # starts at 0 again would let a late writer pass.
    ops: list[Op] = [Check(where, number) for where, number in stored.versions.items()]
    if version is not None:
        ops.append(SetData(path, data, version))
    else:
        if reading.store.exists(reading.paths.segment_lineages) is None:
            ops.append(Create(reading.paths.segment_lineages))
        ops.append(Create(path, data))
    return Decision(WritePlan(ops))


def refuse_hidden(reading: Reading, names: Iterable[str]) -> None:
    """Refuse to store rows that no query would see, except those of a replacement in progress. Raises
    AlreadyExistsError.
    """
    lineage, _ = reading.lineage()
    for name in names:
        hiding = lineage.entry_hiding(name)
        if hiding is None or hiding[1].state is LineageState.IN_PROGRESS:
            continue
        entry_id, entry = hiding
        why = (
            "has been replaced"
            if entry.state is LineageState.COMPLETED
            else "belongs to a replacement that was reverted"
        )
        raise AlreadyExistsError(
            f"segment '{name}' of table '{reading.table}' {why} (entry '{entry_id}'), so that no query would see its "
            "rows: "
            "start a new replacement that brings it, or use another name",
            table=reading.table,
            segment=name,
        )


def lineage_drop(reading: Reading) -> list[Op]:
    """The lineage of a table goes with it."""
    path = reading.paths.segment_lineage(reading.table)
    node = reading.node(path)
    return [] if node is None else [Delete(path, node[1])]
