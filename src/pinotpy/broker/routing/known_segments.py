"""What is known of the segments of a table half, from view to view: only records that changed are read, and arrays are
made of those before.

A record holds only where servers serve what it describes: a segment whose content was replaced is known only where all
servers that may be asked for it serve the content that its record describes; rows that are not in a file yet only by
the partition of the stream that they came of, while all these servers say that they are in it, and only with their
whole chain.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.broker.routing.segment_facts import DOCS_MAX, is_finished, read_record
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.stream_promise import promise_of
from pinotpy.config.schema import Schema
from pinotpy.query.pruning.facts import NOTHING_KNOWN, SegmentFacts
from pinotpy.query.pruning.facts_table import FactsTable

LOG = logging.getLogger(__name__)

_SLICE: Final = 1_000
NOT_PROVEN: Final = "replaced, and not all replicas say that they serve this content"


@dataclass(frozen=True, slots=True)
class KnownSegments:
    """Of one view. names: in the routing's order, as all. docs: int64[n], by their records; num_docs: of all. unused:
    by what kept them from being used, how many records exclude nothing or less. chains: the rows of each one's members.
    """

    names: tuple[str, ...]
    table: FactsTable
    docs: Int64Array
    num_docs: int
    unused: dict[str, int]
    chains: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _View:
    """What was read last. records: kept alive, so that no other record gets the identity of one.

    record_ids: int64, of `records` in their order. ids: int64[n], of each segment's record, 0: it has none. facts_of:
    the same, 0 also where the record does not hold.
    expected: of segments that are served otherwise than all that were never replaced: what servers say where they serve
    what the record describes; None: nothing that they could say. faults: of records that hold, (kind, sentence).
    """

    schema: Schema
    replicas: Mapping[str, tuple[str, ...]]
    names: tuple[str, ...]
    records: Mapping[str, SegmentZkMetadata]
    record_ids: Int64Array
    ids: Int64Array
    facts_of: Int64Array
    docs: Int64Array
    table: FactsTable
    expected: dict[str, str | None]
    faults: dict[str, tuple[tuple[str, str], ...]]


class FactsOfTable:
    """The facts of a table's segments, read once a record. A kind of fault is told when the first record has it, and
    not again while any has.
    """

    def __init__(self, table: str) -> None:
        self._table = table
        self._last: _View | None = None
        self._standing: dict[str, int] = {}

    def read(
        self,
        routing: TableRouting,
        records: Mapping[str, SegmentZkMetadata],
        contents: Mapping[str, str],
        schema: Schema,
    ) -> KnownSegments:
        """Of a view. Records that are the same objects as before are not read again, unless the schema is another.

        Args:
            records: by name; never changed.
            contents: see ExternalView.
        """
        last = self._last
        if last is None or last.schema is not schema:
            nothing = np.zeros(0, np.int64)
            last = _View(schema, {}, (), {}, nothing, nothing, nothing, nothing, FactsTable.of(()), {}, {})
        names = last.names if routing.replicas is last.replicas else tuple(routing.replicas)
        record_ids = np.fromiter(map(id, records.values()), np.int64, len(records))
        ids = _ids(names, records, record_ids, last)
        source = _sources(ids, last.ids)
        docs = np.concatenate([last.docs, [0]])[source]
        expected = {name: text for name, text in last.expected.items() if name in records and name in routing.replicas}
        for row in np.flatnonzero(source < 0).tolist():
            record = records.get(names[row])
            docs[row] = _docs(record)
            expected.pop(names[row], None)
            if record is not None and (text := _expected(record)) != "":
                expected[names[row]] = text
        # Most segments were never replaced, and nobody says anything of them: only others are looked at.
        named = contents.keys() | expected.keys()
        others = {name for name in named if expected.get(name, "") != contents.get(name, "")}
        place = {name: row for row, name in enumerate(names)} if others or routing.chains else {}
        others &= place.keys() & records.keys()
        unproven = [name for name in others if is_finished(records[name])]
        for chain in routing.chains:
            final = records.get(chain[-1])
            if final is None or chain[-1] in others or is_finished(final):
                # Servers may have rows behind a chain that ends with a file, of a segment that is not seen yet.
                others.update(chain)
        facts_of = ids.copy()
        facts_of[[place[name] for name in others]] = 0
        changed = _sources(facts_of, last.facts_of)
        faults = {
            name: told
            for name, told in last.faults.items()
            if name in records and name in routing.replicas and name not in others
        }
        new = [names[row] for row in np.flatnonzero(changed < 0).tolist()]

        def read_new() -> Iterator[SegmentFacts]:
            for name in new:
                faults.pop(name, None)
                record = None if name in others else records.get(name)
                if record is None:
                    yield NOTHING_KNOWN
                    continue
                read = read_record(record, schema)
                if read.faults:
                    faults[name] = read.faults
                yield read.facts

        table = last.table.changed(changed, read_new())
        self._last = _View(
            schema, routing.replicas, names, records, record_ids, ids, facts_of, docs, table, expected, faults
        )
        unused = {**({NOT_PROVEN: len(unproven)} if unproven else {}), **self._told(faults)}
        chains = tuple(tuple([place[name] for name in chain]) for chain in routing.chains)
        return KnownSegments(names, table, docs, int(docs.sum()), unused, chains)

    def _told(self, faults: Mapping[str, Sequence[tuple[str, str]]]) -> dict[str, int]:
        """How many records have a fault of each kind; one that no record had is told."""
        found, first = Counter[str](), dict[str, str]()
        for name, of_record in faults.items():
            found.update({kind for kind, _ in of_record})
            for kind, sentence in of_record:
                first.setdefault(kind, f"{name}: {sentence}")
        for kind in found.keys() - self._standing.keys():
            LOG.warning(
                "records of segments are not pruned by table=%s what=%s segments=%d first=%s",
                self._table, kind, found[kind], first[kind],
            )  # fmt: skip
        self._standing = dict(found)
        return self._standing


def _ids(
    names: tuple[str, ...], records: Mapping[str, SegmentZkMetadata], record_ids: Int64Array, last: _View
) -> Int64Array:
    """The identity of each segment's record, 0: it has none. Only what differs from `last` is looked up by name, which
    takes ten times as long as to compare identities. record_ids: of `records` in their order.
    """
    first = len(names) if names is last.names else _num_alike_names(names, last.names)
    num_last = _num_alike_names(names[first:][::-1], last.names[first:][::-1])
    end, old_end = len(names) - num_last, len(last.names) - num_last
    ids = np.concatenate([last.ids[:first], np.zeros(end - first, np.int64), last.ids[old_end:]])
    source = _sources(record_ids, last.record_ids)
    is_gone = np.ones(len(last.record_ids), np.bool_)
    is_gone[source[source >= 0]] = False
    # Segments without a record so far may have one now.
    rows = np.flatnonzero(np.isin(ids, last.record_ids[is_gone]) | (ids == 0)).tolist()
    ids[rows] = [0 if (record := records.get(names[row])) is None else id(record) for row in rows]
    return ids


def _num_alike_names(names: Sequence[str], before: Sequence[str]) -> int:
    """At how many places from the first one on both are equal. Slices of the same objects are compared at once."""
    length = min(len(names), len(before))
    for begin in range(0, length, _SLICE):
        end = min(begin + _SLICE, length)
        if names[begin:end] != before[begin:end]:
            return next(place for place in range(begin, end) if names[place] != before[place])
    return length


def _sources(ids: Int64Array, before: Int64Array) -> Int64Array:
    """Of each id a place where it was before, -1: none. Most stand before or behind what changed."""
    length = min(len(ids), len(before))
    first = _num_alike(ids[:length], before[:length])
    last = _num_alike(ids[::-1][: length - first], before[::-1][: length - first])
    source = np.arange(len(ids))
    source[len(ids) - last :] += len(before) - len(ids)
    middle, end = before[first : len(before) - last], len(ids) - last
    order = np.concatenate([np.argsort(middle), [-1]])
    places = np.searchsorted(middle, ids[first:end], sorter=order[:-1])
    found = order[places]
    is_there = np.concatenate([middle, [0]])[found] == ids[first:end]
    source[first:end] = np.where((found >= 0) & is_there, found + first, -1)
    return source


def _num_alike(one: Int64Array, other: Int64Array) -> int:
    """How many at their beginnings are equal; they are of one length."""
    different = one != other
    return int(np.argmax(different)) if different.any() else len(one)


def _docs(record: SegmentZkMetadata | None) -> int:
    """Of a record that may be edited by hand."""
    return 0 if record is None else min(max(record.total_docs, 0), DOCS_MAX)


def _expected(record: SegmentZkMetadata) -> str | None:
    """What all servers that may be asked say if they serve what `record` describes, "" where they say nothing. Of a
    segment that takes rows: what they say while these keep to what it promises; None: it promises nothing.
    """
    if is_finished(record):
        return record.content_id
    promise = promise_of(record.partition_metadata)
    return None if promise is None else promise.text
