"""Legs against segments: what each leg is in each segment, found for all segments at once where the dictionary allows.

In a segment a leg is known never or always to hold, or it is one test instruction with its words. A sorted or inverted
index turns it into a run or a list of docs.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.data_types import StoredType
from pinotpy.errors import QueryExecutionError
from pinotpy.kernels import abi, filters, planning, resolve, strings, text_search
from pinotpy.kernels.hash_set import float_words, hash_set
from pinotpy.kernels.legs import LEG_ALWAYS, LEG_NEVER, LEG_RUN
from pinotpy.query.columns import ColumnMetas
from pinotpy.query.control import QueryControl
from pinotpy.query.filter.json_match import matching_docs as json_matches
from pinotpy.query.filter.json_query import parse_json_query
from pinotpy.query.filter.pruning import BY_MIN_MAX, NOT_PRUNED, excluded_by
from pinotpy.query.filter.text_blooms import text_blooms
from pinotpy.query.filter.text_match import matching_docs
from pinotpy.query.filter.text_needle import TextNeedle, equality, needle_of, text_sample
from pinotpy.query.filter.texts import dictionary_matches, raw_matches
from pinotpy.query.predicate import FixedMembers, FixedRange, JsonSearch, Leg, Nothing, NullTest, Test, TextSearch, TextTest, VarMembers, VarRange
from pinotpy.query.segment_set import ColumnRanges, ColumnRows

Words = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Up to this many ids a table has a byte an id; above, a bit.
_LUT_SMALL: Final = 1 << 16
# Up to this many ids it is worth its memory whatever the share of them that pass.
_BITS_FREE: Final = 1 << 24
# So many runs of ids of one byte are compared in less time than ids are looked up; fewer of wider ids, of which fewer fit a register.
_RUNS_OF_BYTES_MAX: Final = 16
_RUN_IDS_MAX: Final = 1 << 16
# A leg reads about this much per doc, in terms of one id range: decides the order of legs.
_COST_IDS, _COST_RAW, _COST_TABLE, _COST_BITS, _COST_SET, _COST_MULTI_VALUE, _COST_STRINGS = 1.0, 1.5, 2.0, 4.0, 16.0, 8.0, 16.0
_COST_PATTERN: Final = 64.0
# From so many segments on the smallest and largest text of each is looked at before its dictionary.
_BY_RANGES_MIN: Final = 32
# Tests of a range, as kernels/planning.py wants them.
_RANGE_TESTS: Final = np.array([filters.ids_range.address, filters.docs_range.address, filters.raw_range.address], np.int64)
_NO_BYTES: Final = np.zeros(0, np.uint8)
_NO_MEMBERS: Final = np.zeros(0, np.uint32)


class ResolvedLeg:
    """A leg in every segment; arrays of shape (num_segments,) unless said otherwise, all of them views of `table`, the
    leg table that kernels fill and read (kernels/planning.py).

    mode: LEG_*; function, flags and tests (num_segments, 4) make the instruction where mode is LEG_RUN.
    prune: segments that are left out before anything is read; rule: by what (pruning.BY_*).
    docs: (num_segments, 2) the run of docs that the positive test selects, where `sorted` is set.
    ids: (num_segments, 2) the id range of the positive test, where `ranged` is set.
    members, spans (num_segments, 2): elsewhere the ids of segment s are members[spans[s, 0] : spans[s, 1]].
    computed: segments whose flags of docs must be computed in Python before the leg can run.
    selectivity: estimated share of docs that pass; cost: relative price of a doc.
    has_index: an index may answer the leg in some segment (index_access.py).
    """

    __slots__ = ("cost", "has_index", "keep_alive", "leg", "members", "negated", "nulls", "selectivity", "table")

    def __init__(self, leg: Leg, table: Words, *, nulls: int, has_index: bool) -> None:
        self.leg = leg
        self.table = table
        self.nulls = nulls
        self.negated = int(leg.negated)
        self.members = _NO_MEMBERS
        self.selectivity = 0.5
        self.cost = _COST_IDS
        self.has_index = has_index
        self.keep_alive: list[Any] = []

    @property
    def mode(self) -> Words:
        return self._words(planning.L_MODE)

    @property
    def function(self) -> Words:
        return self._words(planning.L_FUNCTION)

    @property
    def flags(self) -> Words:
        return self._words(planning.L_FLAGS)

    @property
    def prune(self) -> Flags:
        return self._bytes(planning.L_PRUNE).view(np.bool_)

    @property
    def rule(self) -> NDArray[np.int8]:
        return self._bytes(planning.L_RULE)

    @property
    def sorted(self) -> Flags:
        return self._bytes(planning.L_SORTED).view(np.bool_)

    @property
    def ranged(self) -> Flags:
        return self._bytes(planning.L_RANGED).view(np.bool_)

    @property
    def computed(self) -> Flags:
        return self._bytes(planning.L_COMPUTED).view(np.bool_)

    @property
    def docs(self) -> Words:
        return self._groups(planning.L_DOCS, 2)

    @property
    def ids(self) -> Words:
        return self._groups(planning.L_IDS, 2)

    @property
    def spans(self) -> Words:
        return self._groups(planning.L_SPANS, 2)

    @property
    def tests(self) -> Words:
        return self._groups(planning.L_TESTS, 4)

    def _words(self, row: int) -> Words:
        found: Words = self.table[row]
        return found

    def _bytes(self, row: int) -> NDArray[np.int8]:
        found: NDArray[np.int8] = self.table[row].view(np.int8)[: self.table.shape[1]]
        return found

    def _groups(self, row: int, count: int) -> Words:
        return self.table[row : row + count].reshape(self.table.shape[1], count)

    @property
    def never(self) -> Flags:
        found: Flags = self.mode == LEG_NEVER
        return found

    def always(self, metas: Words) -> Flags:
        """Holds for every doc of the segment, nulls considered."""
        held: Flags = self.mode == LEG_ALWAYS
        return held & (metas[:, abi.M_NULLS] == 0) if self.nulls else held

    def compute(self, segment: int, metas: ColumnMetas, control: QueryControl, low: int, high: int) -> int:
        """Flags of the docs of a segment where the leg is a pattern on raw text or a search in a text index (no-op
        elsewhere); gives the number of values read."""
        if not self.computed[segment]:
            return 0
        column = metas.segments[segment].column(self.leg.column)
        if isinstance(self.leg.test, JsonSearch):
            flags, entries = json_matches(column, parse_json_query(self.leg.test.text), control, low, high)
        elif isinstance(self.leg.test, TextSearch):
            assert column.text_index is not None, "resolve_leg refuses it"
            flags, entries = matching_docs(column.text_index, self.leg.test.query, column.num_docs, control), 0
        else:
            assert isinstance(self.leg.test, TextTest)
            flags, entries = raw_matches(column, self.leg.test.pattern, control, low, high)
        self.keep_alive.append(flags)
        self.tests[segment, 0], self.tests[segment, 1] = flags.ctypes.data, len(flags)
        self.computed[segment] = False
        return entries

    def take(self, rows: Words) -> ResolvedLeg:
        """The leg in the segments at `rows`, in their order."""
        taken = ResolvedLeg(self.leg, _empty_table(len(rows)), nulls=self.nulls, has_index=self.has_index)
        for name in _FIELDS:
            getattr(taken, name)[:] = getattr(self, name)[rows]
        taken.members, taken.selectivity, taken.cost, taken.keep_alive = self.members, self.selectivity, self.cost, self.keep_alive
        return taken


_FIELDS: Final = ("mode", "function", "flags", "tests", "prune", "rule", "docs", "sorted", "ids", "ranged", "computed", "spans")


def _empty_table(num_segments: int) -> Words:
    """Of a leg that is tested by a scan in every segment, by what is not known yet."""
    table = np.zeros((planning.LEG_ROWS, num_segments), np.int64)
    table[planning.L_FLAGS] = abi.I_SCAN_LEG
    return table


def resolve_leg(leg: Leg, metas: ColumnMetas, control: QueryControl, *, null_handling: bool) -> ResolvedLeg:
    """What `leg` is in every segment of `metas`."""
    rows = metas.planned(leg.column)
    words = rows.metas
    is_null_test = isinstance(leg.test, NullTest)
    nulls = int(null_handling and not is_null_test)
    resolved = ResolvedLeg(leg, _empty_table(len(words)), nulls=nulls, has_index=rows.has_index)
    if isinstance(leg.test, Nothing):
        resolved.mode[:] = LEG_NEVER
        # The reference prunes by the converted literal, which lies outside every segment's values.
        resolved.prune[:] = not leg.negated
    elif is_null_test:
        resolved.mode[words[:, abi.M_NULLS] == 0] = LEG_NEVER
        resolved.function[:], resolved.flags[:] = filters.is_null.address, abi.I_LEG
        resolved.cost, resolved.selectivity = 0.5, 0.1
    elif isinstance(leg.test, TextSearch):
        _in_text_indexes(resolved, metas)
    elif isinstance(leg.test, JsonSearch):
        parse_json_query(leg.test.text)
        resolved.computed[:] = True
        resolved.function[:], resolved.flags[:] = filters.doc_flags.address, abi.I_LEG
        resolved.cost = 0.1
    else:
        excluding = rows.has_bloom or metas.partitionings(leg.column) is not None
        if excluding:
            resolved.rule[:] = excluded_by(leg.test, leg.column, metas)
        if isinstance(leg.test, (FixedRange, VarRange)):
            _as_range(resolved, metas, rows, control)
        else:
            _as_other(resolved, metas, rows, control)
        if not rows.single_value:
            resolved.cost += _COST_MULTI_VALUE
    if leg.negated:
        known = resolved.mode != LEG_RUN
        resolved.mode[known] = LEG_NEVER + LEG_ALWAYS - resolved.mode[known]
        resolved.selectivity = 1 - resolved.selectivity
        # What no value passes every value of the segment's docs fails: nothing is excluded.
        resolved.rule[:] = NOT_PRUNED
    if not leg.prunes:
        resolved.prune[:] = False
    _rules(resolved)
    return resolved


def _rules(resolved: ResolvedLeg) -> None:
    # A segment that one rule excludes is pruned; what min and max exclude is pruned by them.
    prune, rule = resolved.prune, resolved.rule
    rule[prune] = BY_MIN_MAX
    np.not_equal(rule, NOT_PRUNED, out=prune)


def _as_range(resolved: ResolvedLeg, metas: ColumnMetas, rows: ColumnRows, control: QueryControl) -> None:
    """=, comparisons and BETWEEN: all dictionaries, and all raw values of fixed types, in one call."""
    leg, test = resolved.leg, resolved.leg.test
    stored = rows.stored
    ranges = metas.segments.ranges(leg.column)
    known, least, most = ranges.addresses
    if isinstance(test, VarRange):
        low, end = _bytes(test.low), _bytes(b"" if test.end is None else test.end)
        literals = (0, 0.0, 0, 0.0, low, end, test.end is not None)
    else:
        assert isinstance(test, FixedRange)
        whole = isinstance(test.low, int)
        literals = (int(test.low) if whole else 0, float(test.low), int(test.high) if whole else 0, float(test.high), _NO_BYTES, _NO_BYTES, False)
    prunes = leg.prunes and len(rows.metas) > 1
    if prunes and isinstance(test, VarRange) and len(rows.metas) >= _BY_RANGES_MIN:
        # Before any dictionary is looked at; kernels cannot compare these.
        outside = _outside(test, ranges) & (resolved.rule == NOT_PRUNED)
        resolved.prune[:], resolved.mode[outside] = outside, LEG_NEVER
    table = resolved.table.reshape(-1)
    resolved.selectivity, num_raw, num_sorted = planning.range_leg(rows.metas, table, *literals, known, least, most, prunes, _RANGE_TESTS)
    if num_raw:
        resolved.cost = _COST_RAW
    elif num_sorted:
        resolved.cost = 0.1
    if stored is StoredType.VAR and rows.has_raw:
        raw = np.flatnonzero((rows.metas[:, abi.M_CARDINALITY] < 0) & (resolved.mode == LEG_RUN))
        if len(raw):
            _on_raw_values(resolved, metas, rows.metas, raw, control)


def _as_other(resolved: ResolvedLeg, metas: ColumnMetas, rows: ColumnRows, control: QueryControl) -> None:
    """Lists of values and patterns."""
    words, excluded = rows.metas, resolved.rule != NOT_PRUNED
    resolved.mode[excluded] = LEG_NEVER
    encoded = np.flatnonzero((words[:, abi.M_CARDINALITY] >= 0) & ~excluded)
    raw = np.flatnonzero((words[:, abi.M_CARDINALITY] < 0) & ~excluded)
    if len(encoded):
        _on_dictionaries(resolved, metas, words, encoded, control)
    if len(raw):
        _on_raw_values(resolved, metas, words, raw, control)


def _in_text_indexes(resolved: ResolvedLeg, metas: ColumnMetas) -> None:
    name = resolved.leg.column
    for segment in metas.segments:
        if segment.column(name).text_index is None:
            raise QueryExecutionError(
                f"cannot apply TEXT_MATCH on column '{name}' without text index: segment '{segment.name}' has none; "
                "name the column in fieldConfigList with indexType TEXT and build the segment anew",
                column=name,
            )
    resolved.computed[:] = True
    resolved.function[:], resolved.flags[:] = filters.doc_flags.address, abi.I_LEG
    resolved.cost = 0.1


# --- dictionaries ---------------------------------------------------------------------------------------------------


def _on_dictionaries(resolved: ResolvedLeg, metas: ColumnMetas, words: Words, encoded: Words, control: QueryControl) -> None:
    _enter_members(resolved, words, encoded, *_member_ids(resolved.leg.test, resolved, metas, words, encoded, control))
    ranged = encoded[resolved.ranged[encoded]]
    if len(ranged):
        num_sorted = planning.id_range_legs(words, resolved.table.reshape(-1), ranged, _RANGE_TESTS)
        resolved.cost = 0.1 if num_sorted else resolved.cost


def _bytes(value: bytes) -> NDArray[np.uint8]:
    # numba tells read-only arrays from others: always hand over the same kind.
    return np.array(bytearray(value), np.uint8)


def _member_ids(test: Test, resolved: ResolvedLeg, metas: ColumnMetas, words: Words, encoded: Words, control: QueryControl) -> tuple[NDArray[np.uint32], Words]:
    """Ids that pass in each of the `encoded` segments, one after another, and where each segment's start, shape (n + 1,)."""
    starts = np.zeros(len(encoded) + 1, np.int64)
    if isinstance(test, TextTest):
        found = []
        for segment in encoded.tolist():
            control.check()
            found.append(np.flatnonzero(dictionary_matches(metas.segments[segment].column(resolved.leg.column), test.pattern)).astype(np.uint32))
        np.cumsum([len(ids) for ids in found], out=starts[1:])
        return np.concatenate(found), starts
    num_values = len(test.offsets) - 1 if isinstance(test, VarMembers) else len(test.values) if isinstance(test, FixedMembers) else 0
    cardinalities = words[encoded, abi.M_CARDINALITY]
    out = np.empty(int(np.minimum(cardinalities, num_values).sum()), np.uint32)
    if isinstance(test, VarMembers):
        resolve.var_members(words[encoded], test.data, test.offsets, out, starts)
    else:
        assert isinstance(test, FixedMembers)
        integers = test.values if test.values.dtype == np.int64 else np.zeros(0, np.int64)
        reals = test.values if test.values.dtype == np.float64 else np.zeros(0, np.float64)
        resolve.fixed_members(words[encoded], integers, reals, out, starts)
    return out, starts


def _enter_members(resolved: ResolvedLeg, words: Words, encoded: Words, ids: NDArray[np.uint32], starts: Words) -> None:
    cardinalities, counts = words[encoded, abi.M_CARDINALITY], np.diff(starts)
    resolved.selectivity = float(np.mean(counts / np.maximum(cardinalities, 1)))
    padded = np.append(ids, np.uint32(0)).astype(np.int64)
    first, last = padded[starts[:-1]], padded[np.maximum(starts[1:] - 1, 0)]
    # None, or neighbours: a range.
    in_range = (counts == 0) | (last - first + 1 == counts)
    resolved.ranged[encoded[in_range]] = True
    resolved.ids[encoded[in_range], 0] = np.where(counts, first, 0)[in_range]
    resolved.ids[encoded[in_range], 1] = np.where(counts, last + 1, 0)[in_range]
    scattered = ~in_range
    if not scattered.any():
        return
    resolved.members = ids
    resolved.spans[encoded[scattered], 0], resolved.spans[encoded[scattered], 1] = starts[:-1][scattered], starts[1:][scattered]
    spare = _by_runs(resolved, words, encoded, ids, starts, scattered)
    by_table = spare & (cardinalities <= _LUT_SMALL)
    by_bits = spare & ~by_table & ((counts * 64 >= cardinalities) | (cardinalities <= _BITS_FREE))
    for chosen, function, fill, sizes, kind in (
        (by_table, filters.ids_lut, resolve.fill_tables, cardinalities, np.uint8),
        (by_bits, filters.ids_bits, resolve.fill_bits, (cardinalities + 31) >> 5, np.uint32),
    ):
        if not chosen.any():
            continue
        bases = np.full(len(encoded), -1, np.int64)
        bases[chosen] = np.cumsum(sizes[chosen]) - sizes[chosen]
        tables = np.zeros(int(sizes[chosen].sum()), kind)
        fill(ids, starts, tables, bases)
        resolved.keep_alive.append(tables)
        at = encoded[chosen]
        resolved.function[at], resolved.tests[at, 0] = function.address, tables.ctypes.data + bases[chosen] * tables.itemsize
        resolved.cost = max(resolved.cost, _COST_TABLE if function is filters.ids_lut else _COST_BITS)
    for i in np.flatnonzero(spare & ~by_table & ~by_bits).tolist():
        table = hash_set(ids[starts[i] : starts[i + 1]].astype(np.int64))
        resolved.keep_alive.append(table)
        segment = encoded[i]
        resolved.function[segment] = filters.ids_set.address
        resolved.tests[segment, :2] = table.ctypes.data, len(table) // 2 - 1
        resolved.cost = _COST_SET


def _by_runs(resolved: ResolvedLeg, words: Words, encoded: Words, ids: NDArray[np.uint32], starts: Words, scattered: Flags) -> Flags:
    """Make few runs of ids a test by comparison; gives the scattered segments that it did not serve."""
    if len(ids) > _RUN_IDS_MAX or bool((words[encoded, abi.M_MV_OFFSETS] != 0).any()):
        return scattered
    ids = ids[: starts[-1]]  # there may be room for more
    begins = np.ones(len(ids), np.bool_)
    begins[1:] = ids[1:] != ids[:-1] + np.uint32(1)
    begins[starts[:-1][np.diff(starts) > 0]] = True
    first = np.flatnonzero(begins)
    runs = np.stack([ids[first], ids[np.append(first[1:], len(ids)) - 1].astype(np.int64) + 1], axis=1)
    spans = first.searchsorted(starts)
    counts, cardinalities = np.diff(spans), words[encoded, abi.M_CARDINALITY]
    allowed = _RUNS_OF_BYTES_MAX >> ((cardinalities > 1 << 8).astype(np.int64) + (cardinalities > 1 << 16))
    served = scattered & (counts <= allowed)
    if served.any():
        resolved.keep_alive.append(runs)
        at = encoded[served]
        resolved.function[at], resolved.tests[at, 1] = filters.ids_runs.address, counts[served]
        resolved.tests[at, 0] = runs.ctypes.data + spans[:-1][served] * runs.strides[0]
    spare: Flags = scattered & ~served
    return spare


# --- raw values -----------------------------------------------------------------------------------------------------


def _on_raw_values(resolved: ResolvedLeg, metas: ColumnMetas, words: Words, raw: Words, control: QueryControl) -> None:
    test = resolved.leg.test
    resolved.cost = _COST_RAW
    if isinstance(test, FixedMembers):
        table = hash_set(test.values if test.values.dtype == np.int64 else float_words(test.values))
        resolved.keep_alive.append(table)
        resolved.function[raw] = filters.raw_set.address
        resolved.tests[raw, :2] = table.ctypes.data, len(table) // 2 - 1
        resolved.cost = _COST_SET
    elif isinstance(test, VarRange):
        resolved.cost = _COST_STRINGS
        if test.end == test.low + b"\0":  # the successor of `low`: nothing but it is in between
            metas.ready(resolved.leg.column, raw)
            needle = equality(test.low, text_sample(words[raw[0]]))
            _search(resolved, raw, needle)
            if not needle.is_often:
                resolved.tests[raw, 1], kept = text_blooms(metas.segments, resolved.leg.column, words, raw, control)
                resolved.keep_alive.append(kept)
        else:
            low, end = _bytes(test.low or b"\0"), _bytes(test.end or b"\0")
            resolved.keep_alive += [low, end]
            resolved.function[raw] = strings.var_range.address
            resolved.tests[raw] = low.ctypes.data, end.ctypes.data, len(test.low), -1 if test.end is None else len(test.end)
    elif isinstance(test, VarMembers):
        resolved.keep_alive.append(test)
        resolved.function[raw] = strings.var_members.address
        resolved.tests[raw, :3] = test.data.ctypes.data, test.offsets.ctypes.data, len(test.offsets) - 1
        resolved.cost = _COST_STRINGS
    else:
        assert isinstance(test, TextTest)
        column = metas.column(resolved.leg.column)
        if column.data_type.stored is not StoredType.VAR:
            raise QueryExecutionError(f"a pattern needs text: column '{column.name}' is {column.data_type} without dictionary; cast it to STRING")
        metas.ready(resolved.leg.column, raw)
        found = needle_of(test.pattern, text_sample(words[raw[0]]))
        if found is not None:
            _search(resolved, raw, found)
        else:
            resolved.computed[raw] = True
            resolved.function[raw], resolved.flags[raw] = filters.doc_flags.address, abi.I_LEG
            resolved.cost = 0.2
    if isinstance(test, VarRange):
        ranges = metas.segments.ranges(resolved.leg.column).take(raw)
        outside = _outside(test, ranges)
        resolved.mode[raw[outside]], resolved.prune[raw[outside]] = LEG_NEVER, True
        resolved.mode[raw[_inside(test, ranges)]] = LEG_ALWAYS


def _search(resolved: ResolvedLeg, raw: Words, needle: TextNeedle) -> None:
    resolved.keep_alive.append(needle)
    resolved.function[raw], resolved.tests[raw, 0] = text_search.var_search.address, needle.address
    resolved.cost = _COST_PATTERN if needle.words[text_search.W_TEST] == text_search.MATCHING else _COST_STRINGS


def _outside(test: VarRange, ranges: ColumnRanges) -> Flags:
    """Segments whose smallest and largest value say that none passes."""
    beyond = ranges.most < _object(test.low)
    if test.end is not None:
        beyond |= ranges.least >= _object(test.end)
    return ranges.known & beyond.astype(np.bool_)


def _inside(test: VarRange, ranges: ColumnRanges) -> Flags:
    """Segments whose smallest and largest value pass."""
    within = ranges.least >= _object(test.low)
    if test.end is not None:
        within &= ranges.most < _object(test.end)
    return ranges.known & within.astype(np.bool_)


def _object(value: bytes) -> NDArray[Any]:
    # As plain bytes numpy would drop zero bytes at the end, and every end of a closed range has one.
    one = np.empty(1, object)
    one[0] = value
    return one
