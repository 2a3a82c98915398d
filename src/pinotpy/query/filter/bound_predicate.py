"""What a predicate is in each segment: the table that kernels fill and read."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.filter import predicate_table as table_rows
from pinotpy.kernels.filter.predicate_frame import PREDICATE_ALWAYS, PREDICATE_NEVER
from pinotpy.kernels.runtime import abi
from pinotpy.query.filter.search.json_match import matching_docs as json_matches
from pinotpy.query.filter.search.json_query import parse_json_query
from pinotpy.query.filter.search.text_match import matching_docs
from pinotpy.query.filter.text.texts import raw_matches
from pinotpy.query.model.predicate import JsonSearch, TextSearch, TextTest, TypedPredicate
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.column_metas import ColumnMetas

Flags = NDArray[np.bool_]

# A predicate reads about this much per doc, in terms of one id range: decides the order of predicates.
COST_IDS, COST_RAW, COST_TABLE, COST_BITS, COST_SET, COST_MULTI_VALUE, COST_STRINGS = (
    1.0,
    1.5,
    2.0,
    4.0,
    16.0,
    8.0,
    16.0,
)
COST_PATTERN: Final = 64.0
_NO_MEMBERS: Final = np.zeros(0, np.uint32)


class BoundPredicate:
    """A predicate in every segment; arrays of shape (num_segments,) unless said otherwise, all of them views of
    `table`, the predicate table that kernels fill and read (kernels/filter/predicate_table.py).

    mode: PREDICATE_*; function, flags and tests (num_segments, 4) make the instruction where mode is PREDICATE_RUN.
    prune: segments that are left out before anything is read; rule: by what (pruning.BY_*).
    docs: (num_segments, 2) the run of docs that the positive test selects, where `sorted` is set.
    ids: (num_segments, 2) the id range of the positive test, where `ranged` is set.
    members, spans (num_segments, 2): elsewhere the ids of segment s are members[spans[s, 0] : spans[s, 1]].
    answer: who answers the predicate (predicate_table.BY_*), which the planner decides.
    computed: segments whose flags of docs must be computed in Python before the predicate can run.
    selectivity: estimated share of docs that pass; cost: relative price of a doc.
    has_index: an index may answer the predicate in some segment (index_choice.py).
    """

    __slots__ = ("cost", "has_index", "keep_alive", "members", "negated", "nulls", "selectivity", "table", "typed")

    def __init__(self, bound: TypedPredicate, table: Int64Array, *, nulls: int, has_index: bool) -> None:
        self.typed = bound
        self.table = table
        self.nulls = nulls
        self.negated = int(bound.negated)
        self.members = _NO_MEMBERS
        self.selectivity = 0.5
        self.cost = COST_IDS
        self.has_index = has_index
        self.keep_alive: list[Any] = []

    @property
    def mode(self) -> Int64Array:
        return self._words(table_rows.L_MODE)

    @property
    def function(self) -> Int64Array:
        return self._words(table_rows.L_FUNCTION)

    @property
    def flags(self) -> Int64Array:
        return self._words(table_rows.L_FLAGS)

    @property
    def prune(self) -> Flags:
        return self._bytes(table_rows.L_PRUNE).view(np.bool_)

    @property
    def rule(self) -> NDArray[np.int8]:
        return self._bytes(table_rows.L_RULE)

    @property
    def sorted(self) -> Flags:
        return self._bytes(table_rows.L_SORTED).view(np.bool_)

    @property
    def ranged(self) -> Flags:
        return self._bytes(table_rows.L_RANGED).view(np.bool_)

    @property
    def computed(self) -> Flags:
        return self._bytes(table_rows.L_COMPUTED).view(np.bool_)

    @property
    def answer(self) -> NDArray[np.int8]:
        return self._bytes(table_rows.L_ANSWER)

    @property
    def docs(self) -> Int64Array:
        return self._groups(table_rows.L_DOCS, 2)

    @property
    def ids(self) -> Int64Array:
        return self._groups(table_rows.L_IDS, 2)

    @property
    def spans(self) -> Int64Array:
        return self._groups(table_rows.L_SPANS, 2)

    @property
    def tests(self) -> Int64Array:
        return self._groups(table_rows.L_TESTS, 4)

    def _words(self, row: int) -> Int64Array:
        words: Int64Array = self.table[row]
        return words

    def _bytes(self, row: int) -> NDArray[np.int8]:
        return flags_of(self.table, row)

    def _groups(self, row: int, count: int) -> Int64Array:
        return self.table[row : row + count].reshape(self.table.shape[1], count)

    @property
    def mode_of_test(self) -> Int64Array:
        """PREDICATE_* of the test that a run or a list of docs leaves."""
        modes: Int64Array = np.where(self.answer >= table_rows.BY_RUN, PREDICATE_ALWAYS, self.mode)
        return modes

    @property
    def never(self) -> Flags:
        never: Flags = self.mode == PREDICATE_NEVER
        return never

    def always(self, metas: Int64Array) -> Flags:
        """Holds for every doc of the segment that is left, nulls considered."""
        held: Flags = self.mode_of_test == PREDICATE_ALWAYS
        return held & (metas[:, abi.M_NULLS] == 0) if self.nulls else held

    def compute(self, segment: int, metas: ColumnMetas, control: QueryControl, low: int, high: int) -> int:
        """Flags of the docs of a segment where the predicate is a pattern on raw text or a search in a text index
        (no-op elsewhere); gives the number of values read.
        """
        if not self.computed[segment]:
            return 0
        column = metas.segments[segment].column(self.typed.column)
        if isinstance(self.typed.test, JsonSearch):
            flags, entries = json_matches(column, parse_json_query(self.typed.test.text), control, low, high)
        elif isinstance(self.typed.test, TextSearch):
            assert column.text_index is not None, "bind_predicate refuses it"
            flags, entries = matching_docs(column.text_index, self.typed.test.query, column.num_docs, control), 0
        else:
            assert isinstance(self.typed.test, TextTest)
            flags, entries = raw_matches(column, self.typed.test.pattern, control, low, high)
        self.keep_alive.append(flags)
        self.tests[segment, 0], self.tests[segment, 1] = flags.ctypes.data, len(flags)
        self.computed[segment] = False
        return entries

    def take(self, rows: Int64Array) -> BoundPredicate:
        """The predicate in the segments at `rows`, in their order."""
        taken = BoundPredicate(self.typed, empty_table(len(rows)), nulls=self.nulls, has_index=self.has_index)
        for name in _FIELDS:
            getattr(taken, name)[:] = getattr(self, name)[rows]
        taken.members, taken.selectivity, taken.cost, taken.keep_alive = (
            self.members,
            self.selectivity,
            self.cost,
            self.keep_alive,
        )
        return taken


_FIELDS: Final = (
    "mode",
    "function",
    "flags",
    "tests",
    "prune",
    "rule",
    "answer",
    "docs",
    "sorted",
    "ids",
    "ranged",
    "computed",
    "spans",
)


def empty_table(num_segments: int) -> Int64Array:
    """Of a predicate that is tested by a scan in every segment, by what is not known yet."""
    table = np.zeros((table_rows.PREDICATE_ROWS, num_segments), np.int64)
    table[table_rows.L_FLAGS] = abi.I_SCAN_PREDICATE
    return table


def flags_of(table: Int64Array, row: int) -> NDArray[np.int8]:
    """A row of flags of a predicate table, a byte a segment."""
    flags: NDArray[np.int8] = table[row].view(np.int8)[: table.shape[1]]
    return flags
