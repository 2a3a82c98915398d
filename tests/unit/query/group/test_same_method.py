"""Proves that every query of the benchmark suites takes the same grouping method the first time, later, after other
queries, and after its segments were loaded anew; and that EXPLAIN names that method without having run the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.ours import segment_directories
from bench.suites import SUITES, Query, Suite
from bench.tables import TABLES
from pinotpy.config.schema import Schema
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.group import choose
from pinotpy.query.model.context import QueryContext, QueryKind
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.model.options import query_options
from pinotpy.query.plan import build as scan
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.kernel_threads import KernelThreads
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.shared_codes.cache import SharedDictionaries

ROWS, CHUNKS = 20_000, 4
# As on tables of many millions, so that every method pays off for some query.
FEW_ROWS = {"MERGED_ROWS_MIN": 200, "RADIX_DOCS_MIN": 2_000, "DIRECT_GROUPS_FREE": 512, "SMALL_VALUES_MAX": 4_000}
FEWER_ROWS = {**FEW_ROWS, "RADIX_DOCS_MIN": 500}


class _Server:
    """One table as a server has it: a set of segments, and what queries leave behind."""

    def __init__(self, directories: list[Path], executor: Any) -> None:
        self._directories, self._executor = directories, executor
        self.set = SegmentSet([load_segment(directory) for directory in directories])
        self.dictionaries = SharedDictionaries()

    def reload(self) -> None:
        """Load all segments anew, as after a refresh: other dictionaries, a set made from the one before."""
        loaded = [load_segment(directory) for directory in self._directories]
        before, self.set = self.set, SegmentSet(loaded, self.set)
        before.let_go()

    def methods(self, context: QueryContext) -> list[str]:
        control = QueryControl(memory_max_bytes=1 << 30)
        self._execute(context, control)
        return control.grouping_methods

    def explained(self, context: QueryContext) -> set[str]:
        partial = self._execute(replace(context, explain=True), QueryControl(memory_max_bytes=1 << 30))
        return {group["operator"]["way"] for group in partial.explain if "operator" in group}

    def _execute(self, context: QueryContext, control: QueryControl) -> Any:
        return execute(
            context,
            self.set,
            control,
            threads=2,
            executor=self._executor,
            dictionaries=self.dictionaries,
            is_final=True,
        )


def _context(suite: Suite, query: Query, repetition: int) -> QueryContext:
    text, schema = query.text_of_ours(query.drawn(repetition)), Schema.from_json(TABLES[suite.table].schema)
    statement = parse_pql(text) if query.pql is not None else parse_sql(text)
    options = query_options(statement)
    return compile_query(statement, schema, options, null_handling=bool(options.enable_null_handling))


@pytest.fixture(scope="module")
def executor() -> Iterator[KernelThreads]:
    with KernelThreads(2) as threads:
        yield threads


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.mark.parametrize("thresholds", [{}, FEW_ROWS, FEWER_ROWS], ids=["real", "of few rows", "of fewer"])
@pytest.mark.parametrize("name", ["own", "ssb", "ads"])
def test_a_query_takes_the_same_method_cold_warm_and_after_a_reload(
    name: str, thresholds: dict[str, int], data_dir: Path, executor: KernelThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1_000)
    for constant, value in thresholds.items():
        monkeypatch.setattr(choose, constant, value)
    suite = SUITES[name]
    table = TABLES[suite.table]
    directories = segment_directories(
        table, ROWS, data_dir, config=suite.config(table.config), variant=suite.variant, chunks=CHUNKS
    )
    asked = [(query.name, _context(suite, query, repetition)) for query in suite.queries for repetition in (0, 1)]
    grouped = [(name, one) for name, one in asked if one.kind in (QueryKind.GROUP_BY, QueryKind.DISTINCT)]
    alone, explained = [], []
    for _, context in grouped:
        explained.append(_Server(directories, executor).explained(context))
        alone.append(_Server(directories, executor).methods(context))
    server = _Server(directories, executor)
    rounds = [[server.methods(context) for _, context in grouped] for _ in range(2)]
    server.reload()
    rounds.append([server.methods(context) for _, context in grouped])
    rounds.append([server.methods(context) for _, context in reversed(grouped)][::-1])
    for (query, context), first, ways, *others in zip(grouped, alone, explained, *rounds, strict=True):
        assert all(other == first for other in others), f"{query}: {first}, later {others}"
        if first and ways != {"nothing"}:
            assert any(first[0] in way.split(" or ") for way in ways), f"{query}: explained as {ways}, took {first}"
        assert len(first) == 1, context.kind
    taken = {method for methods in alone for method in methods}
    if thresholds and name == "own":
        other = GroupingMethod.HASH_TABLE if thresholds is FEWER_ROWS else GroupingMethod.RADIX_PARTITION
        assert taken == {method.value for method in GroupingMethod if method is not other}
