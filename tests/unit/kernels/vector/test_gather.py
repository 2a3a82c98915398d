"""Proves that docs of several blocks which come to the select section together are those of the blocks one by one: for
selections that are few, many, in clusters and at the borders of what is gathered, over runs and lists of docs, with
FILTER (WHERE), multi-values and a quantum that ends between any two blocks; and that nothing is counted twice.
"""

from __future__ import annotations

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.data_types import DataType
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.scan import driver
from pinotpy.pql.ast import Dialect, Identifier, Star
from pinotpy.query.execute import execute
from pinotpy.query.filter import index_choice
from pinotpy.query.model.context import (
    Aggregation,
    AggregationRef,
    And,
    ColumnRef,
    Comparison,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.runtime.control import QueryControl

_BLOCK, _MOST = abi.BLOCK, driver.GATHER_MAX
# Selected docs of consecutive blocks.
_PATTERNS = {
    "few": [3, 0, 0, 7, 1, 0, 90, 2],
    "borders": [_MOST, _MOST, _MOST + 1, _MOST - 1, 1, _MOST, _MOST, _MOST, _MOST, _MOST, _MOST],
    "few before all": [5, _BLOCK, 5, _BLOCK, _BLOCK, 1, 1, _BLOCK],
    "room for one": [_MOST] * 6 + [_BLOCK - 6 * _MOST, 1, *[_MOST] * 6, _BLOCK - 6 * _MOST + 1, 1],
    "nothing": [0, 0, 0],
    "last alone": [0, 0, 200],
}


def _segment(
    name: str, counts: list[int], tail: int, rng: np.random.Generator
) -> tuple[FakeSegment, dict[str, np.ndarray]]:
    """Blocks with so many docs that pass, then `tail` docs that all pass."""
    keep = np.concatenate([*(rng.permutation(np.arange(_BLOCK) < count) for count in counts), np.ones(tail, np.bool_)])
    n = len(keep)
    columns = {
        "keep": keep.astype(np.int64),
        "other": rng.integers(0, 3, n),
        "key": rng.integers(0, 40, n),
        "value": rng.integers(-(2**40), 2**40, n),
    }
    fakes = [
        fake_column(name, DataType.LONG, values.tolist(), dictionary=name != "value", inverted=name == "other")
        for name, values in columns.items()
    ]
    many = [[key % 5, 5] if key % 2 else [key % 5] for key in columns["key"].tolist()]
    return FakeSegment(name, [*fakes, fake_column("many", DataType.LONG, many, single_value=False)]), columns


def _is(column: str, value: int) -> Predicate:
    return Predicate(Identifier(column), Comparison.EQ, (value,))


def _asked(segments: list[FakeSegment], group_by: tuple[str, ...], *, listed: bool, quantum_ns: int) -> PartialResult:
    calls = (
        Aggregation("count", (Star(),), "count(*)"),
        Aggregation("sum", (Identifier("value"),), "sum(value)"),
        Aggregation("sum", (Identifier("value"),), "filtered", _is("other", 2)),
    )
    condition = And((_is("keep", 1), _is("other", 1))) if listed else _is("keep", 1)
    names = {"keep": True, "other": True, "key": True, "value": True, "many": False}
    context = QueryContext(
        Dialect.SQL,
        QueryKind.GROUP_BY if group_by else QueryKind.AGGREGATION,
        "t",
        tuple(OutputColumn(str(i), AggregationRef(i)) for i in range(len(calls))),
        filter=condition,
        group_by=tuple(Identifier(name) for name in group_by),
        aggregations=calls,
        limit=10**6,
        columns=tuple(ColumnRef(name, DataType.LONG, single) for name, single in names.items()),
    )
    return merge_partials(context, [execute(context, segments, QueryControl(quantum_ns=quantum_ns))])


@pytest.mark.parametrize("quantum_ns", [1, 10**12], ids=["interrupted", "whole"])
@pytest.mark.parametrize("listed", [False, True], ids=["runs", "lists"])
@pytest.mark.parametrize("tail", [0, 5, 700])
@pytest.mark.parametrize("pattern", _PATTERNS)
def test_gathered_docs_are_those_of_their_blocks(
    monkeypatch: pytest.MonkeyPatch, pattern: str, tail: int, listed: bool, quantum_ns: int
) -> None:
    monkeypatch.setattr(index_choice, "_NS_LIST_DOC", -1e6)  # lists also where they save little
    rng = np.random.default_rng(len(pattern) + tail)
    made = [
        _segment(f"s{i}", counts, tail, rng) for i, counts in enumerate((_PATTERNS[pattern], _PATTERNS[pattern][::-1]))
    ]
    segments, columns = (
        [segment for segment, _ in made],
        {name: np.concatenate([own[name] for _, own in made]) for name in made[0][1]},
    )
    passes = (columns["keep"] == 1) & ((columns["other"] == 1) | (not listed))
    for group_by in ((), ("key",), ("many",)):
        partial = _asked(segments, group_by, listed=listed, quantum_ns=quantum_ns)
        assert partial.statistics.num_docs_scanned == passes.sum()
        if not listed:
            assert partial.statistics.num_entries_scanned_in_filter - _sub_filter_entries(partial) <= len(passes)
        if not passes.any():
            assert partial.rows is None
            continue
        assert partial.rows is not None
        keys = partial.rows["k0"].to_pylist() if group_by else [None]
        counted, summed, filtered = (partial.rows[name].to_pylist() for name in ("a0_count", "a1_sum", "a2_sum"))
        for i, key in enumerate(keys):
            own = (
                passes
                if key is None
                else passes & (_has(columns["key"], key) if group_by == ("many",) else columns["key"] == key)
            )
            assert counted[i] == own.sum()
            assert int(summed[i]) == sum(columns["value"][own].tolist())
            assert int(filtered[i] or 0) == sum(columns["value"][own & (columns["other"] == 2)].tolist())


def _has(keys: np.ndarray, value: int) -> np.ndarray:
    return ((keys % 2 == 1) if value == 5 else np.zeros(len(keys), np.bool_)) | (keys % 5 == value)


def _sub_filter_entries(partial: PartialResult) -> int:
    # FILTER (WHERE …) reads its column for every selected doc, of multi-values at most twice.
    return 2 * partial.statistics.num_docs_scanned
