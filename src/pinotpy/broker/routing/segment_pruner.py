"""Which segments of a table half may have rows that a query asks for, by what its broker knows of them
(`known_segments`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from pinotpy.arrays import Int64Array
from pinotpy.broker.routing.known_segments import FactsOfTable, KnownSegments
from pinotpy.broker.routing.table_routing import ChoiceKey, Selection, TableRouting
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.schema import Schema
from pinotpy.config.serving import RoutingConfig
from pinotpy.query.model.context import Constant, QueryContext
from pinotpy.query.pruning.few import FEW_MAX
from pinotpy.query.pruning.kept import kept_rows
from pinotpy.query.pruning.leaves import Rule
from pinotpy.query.pruning.prune import Pruning, prune

# What the first query of a larger table takes is no work for an event loop.
INLINE_SEGMENTS_MAX: Final = 5_000
# Results that are kept: dashboards repeat their queries. Names of segments in all of them together.
RESULTS_MAX: Final = 512
NAMES_KEPT_MAX: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Kept:
    """What a filter leaves of a table half. names: of the segments that may have a row that passes, in the routing's
    order, without those of chains. num_pruned, num_docs: of the others. routing: of the half with those chains that may
    have one. selections: who was chosen to answer for them.
    """

    names: tuple[str, ...]
    num_pruned: int
    num_docs: int
    routing: TableRouting
    selections: dict[ChoiceKey, Selection] = field(default_factory=dict, compare=False, repr=False)


class SegmentPruner:
    """Of one view of a table half. `known` is called at the first query that has a filter, later ones share it."""

    def __init__(
        self, routing: TableRouting, known: Callable[[], KnownSegments], config: Mapping[str, Any] | None
    ) -> None:
        self._routing, self._num_segments, self._config = routing, len(routing.replicas), config
        self._read = known
        self._known: KnownSegments | None = None
        self._results: OrderedDict[Hashable, Kept | None] = OrderedDict()
        self._num_names = 0

    @property
    def is_large(self) -> bool:
        """Whether an event loop must not wait for `prune` and `explain`."""
        return self._num_segments > INLINE_SEGMENTS_MAX

    def found(self, key: Hashable) -> tuple[Kept | None] | None:
        """What `prune` gave for this key, in a tuple; None: it is not kept."""
        if key not in self._results:
            return None
        self._results.move_to_end(key)
        return (self._results[key],)

    def keep(self, key: Hashable, kept: Kept | None) -> None:
        """Remember it for `found`."""
        if key in self._results:
            return  # two queries found it at the same time
        self._results[key] = kept
        self._num_names += 0 if kept is None else len(kept.names)
        while len(self._results) > RESULTS_MAX or (self._num_names > NAMES_KEPT_MAX and len(self._results) > 1):
            _, old = self._results.popitem(last=False)
            self._num_names -= 0 if old is None else len(old.names)

    def prune(self, context: QueryContext) -> Kept | None:
        """What the filter of `context`, which is as servers get it, leaves; None: all segments. On any thread."""
        known = self._of_records()
        table = known.table
        is_constant = isinstance(context.filter, Constant)  # as tools write it that ask for names and types alone
        if not (table.has_empty or is_constant) and table.columns.isdisjoint([each.name for each in context.columns]):
            return None  # most filters that exclude nothing
        rows = kept_rows(context, table)
        if known.chains:
            return self._with_chains(known, rows)
        if len(rows) == table.size:
            return None
        num_docs = sum(map(known.docs.item, rows)) if len(rows) <= FEW_MAX else int(known.docs[rows].sum())
        names = known.names
        return Kept(
            tuple([names[row] for row in rows]), table.size - len(rows), known.num_docs - num_docs, self._routing
        )

    def _with_chains(self, known: KnownSegments, rows: list[int]) -> Kept | None:
        """A chain is asked whole, or not at all: of one that keeps a member all are kept."""
        kept = set(rows)
        asked = [members for members in known.chains if not kept.isdisjoint(members)]
        chained = {row for members in known.chains for row in members}
        alone = [row for row in rows if row not in chained]
        in_chains = [row for members in asked for row in members]
        num_pruned = len(known.table) - len(alone) - len(in_chains)
        if not num_pruned:
            return None
        names, routing = known.names, self._routing
        if len(asked) < len(known.chains):
            chains = tuple(tuple([names[row] for row in members]) for members in asked)
            routing = routing.with_chains(chains)
        num_docs = known.num_docs - int(known.docs[np.array([*alone, *in_chains], np.int64)].sum())
        return Kept(tuple([names[row] for row in alone]), num_pruned, num_docs, routing)

    def explain(self, context: QueryContext) -> ExplainedPruning:
        """By which rules segments are excluded, and why conditions exclude no more. On any thread."""
        known = self._of_records()
        pruning = prune(context, known.table, explains=True)
        for members in known.chains:
            rows = list(members)
            if (pruning.rules[rows] == Rule.KEPT).any():
                pruning.rules[rows] = Rule.KEPT  # as `prune` keeps them
        warnings = _warnings(self._config)
        return ExplainedPruning(self._routing.table, known.names, known.docs, pruning, known.unused, warnings)

    def docs_of(self, names: Iterable[str]) -> int:
        """By the segments' records. Raises ValueError if the half has no such segment."""
        known = self._of_records()
        return sum([int(known.docs[known.names.index(name)]) for name in names])

    def _of_records(self) -> KnownSegments:
        if self._known is None:
            self._known = self._read()
        return self._known


@dataclass(frozen=True, slots=True)
class ExplainedPruning:
    """names, docs: of the segments that `pruning` is about, of `table` with type. unused: see KnownSegments. warnings:
    of the table's config. for_types: of the segments that are excluded, those that a server was asked for all the same.
    """

    table: str
    names: tuple[str, ...]
    docs: Int64Array
    pruning: Pruning
    unused: dict[str, int]
    warnings: list[str]
    for_types: tuple[str, ...] = ()


# Called with a table and, by what keeps them from being used, how many of its records exclude nothing or less.
TellUnused = Callable[[str, Mapping[str, int]], None]


def tell_nobody(table: str, unused: Mapping[str, int]) -> None:
    """Where nobody counts."""


class PrunedTable:
    """What is read of the records of a table half, from view to view: only what is new is read again. tell: called on
    any thread.
    """

    def __init__(self, table: str, tell: TellUnused = tell_nobody) -> None:
        self._table, self._tell = table, tell
        self._lock = threading.Lock()  # of what threads read at the same time
        self._facts = FactsOfTable(table)
        self._pruner: tuple[tuple[object, ...], SegmentPruner] | None = None

    def pruner(
        self,
        routing: TableRouting,
        records: Mapping[str, SegmentZkMetadata],
        contents: Mapping[str, str],
        schema: Schema,
        config: Mapping[str, Any] | None = None,
    ) -> SegmentPruner:
        """Of this view; the same one while its parts are.

        Args:
            records: of the segments, by name.
            contents: see ExternalView.
            config: of the table, as it is stored; EXPLAIN warns of what in it turns no pruning on.
        """
        parts = (routing, records, contents, schema, config)
        known = self._pruner
        if known is None or any(one is not other for one, other in zip(known[0], parts, strict=True)):
            pruner = SegmentPruner(routing, lambda: self._known(routing, records, contents, schema), config)
            known = self._pruner = parts, pruner
        return known[1]

    def _known(
        self,
        routing: TableRouting,
        records: Mapping[str, SegmentZkMetadata],
        contents: Mapping[str, str],
        schema: Schema,
    ) -> KnownSegments:
        with self._lock:
            known = self._facts.read(routing, records, contents, schema)
            self._tell(self._table, known.unused)
            return known


def _warnings(config: Mapping[str, Any] | None) -> list[str]:
    """Of the pruners of a table config; none where it has no `routing` that can be read."""
    section = (config or {}).get("routing")
    try:
        return RoutingConfig.model_validate(section).warnings if section else []
    except ValidationError:
        return []
