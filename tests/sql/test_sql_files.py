"""Proves the queries of tests/sql/*.test four ways: over one segment; over five segments on two servers with combine
and reduce; over rows that are not sealed yet; on a live cluster over HTTP and gRPC. The expected rows stand in the
files, written by hand (README.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from consuming_registry import ReadLog, filled_log
from in_process import InProcessCluster
from live_cluster import LiveCluster
from query_files import Block, TestTable, check_answer, read_blocks, read_tables

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.ast import Dialect

HERE = Path(__file__).parent
TABLES = read_tables(HERE / "tables")
BLOCKS = [block for path in sorted(HERE.glob("*.test")) for block in read_blocks(path)]
QUERIES = {(block.file, block.line) for block in BLOCKS}

Ask = Callable[[Block], dict[str, Any]]


def _cuts(num_rows: int) -> list[tuple[int, int]]:
    """Five segments of unequal size; the second has one row."""
    quarter = num_rows // 4
    return list(itertools.pairwise([0, quarter, quarter + 1, num_rows // 2 + 1, 3 * quarter, num_rows]))


def _in_process(directory: Path, num_servers: int, cuts: Callable[[TestTable], list[tuple[int, int]]]) -> Iterator[Ask]:
    cluster = InProcessCluster(directory, num_servers=num_servers)
    for table in TABLES.values():
        cluster.add_table(
            Schema.from_json(table.schema),
            TableConfig.from_json(table.config),
            [[table.batch(a, b)] for a, b in cuts(table)],
        )
    yield lambda block: cluster.ask(
        block.text, Dialect.PQL if block.dialect == "pql" else Dialect.SQL, query_options=block.options
    )
    cluster.close()


@pytest.fixture(scope="module")
def one_segment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    yield from _in_process(tmp_path_factory.mktemp("one"), 1, lambda table: [(0, len(table.rows))])


@pytest.fixture(scope="module")
def many_segments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    yield from _in_process(tmp_path_factory.mktemp("many"), 2, lambda table: _cuts(len(table.rows)))


@pytest.fixture(scope="module")
def consuming(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Rows of a partition's log: pieces of frozen chunks, and the rows that came last."""
    cluster = InProcessCluster(tmp_path_factory.mktemp("consuming"))
    (server,) = cluster.registries
    registry = cluster.registries[server]
    logs: dict[str, dict[int, ReadLog]] = {}
    registry.partitions = lambda name: logs.get(name, {})
    for table in TABLES.values():
        schema, config = Schema.from_json(table.schema), TableConfig.from_json(table.config)
        num_rows = len(table.rows)
        log = filled_log(schema, config, [table.batch(0, num_rows)], chunk_rows=max(num_rows * 2 // 5, 1), batch_rows=7)
        read = ReadLog(log, config.name_with_type)
        assert num_rows < 3 or (read.piece_view().frozen and read.piece_view().tail)
        (segment,) = log.segments
        logs[config.name_with_type] = {0: read}
        routing = TableRouting(config.name_with_type, {segment.name: (server,)}, ((segment.name,),))
        cluster.catalog.targets[config.raw_table_name] = Target(config.raw_table_name, schema, (Half(routing),))
    yield lambda block: cluster.ask(
        block.text, Dialect.PQL if block.dialect == "pql" else Dialect.SQL, query_options=block.options
    )
    cluster.close()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    cluster = LiveCluster(tmp_path_factory.mktemp("live"))
    try:
        for table in TABLES.values():
            cluster.add_table(
                table.schema, table.config, [[table.batch(a, b)] for a, b in _cuts(len(table.rows))], wait=False
            )
        for table in TABLES.values():
            cluster.controller.wait_until_online(table.name, timeout_s=120)
        yield lambda block: cluster.query(block.text, block.dialect, query_options=block.options)
    finally:
        statuses = cluster.close()
    assert set(statuses.values()) <= {0}, statuses


def test_the_files_have_what_they_are_for() -> None:
    assert len(QUERIES) >= 600
    assert len({file for file, _ in QUERIES}) >= 26
    assert {block.table for block in BLOCKS} == set(TABLES), "a table that no query reads"
    assert all(len(_cuts(len(table.rows))) == 5 for table in TABLES.values())


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_one_segment(block: Block, one_segment: Ask) -> None:
    check_answer(block, one_segment(block))


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_many_segments_on_two_servers(block: Block, many_segments: Ask) -> None:
    check_answer(block, many_segments(block))


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_rows_that_are_not_sealed(block: Block, consuming: Ask) -> None:
    check_answer(block, consuming(block))


@pytest.mark.cluster
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_live_cluster(block: Block, live: Ask) -> None:
    check_answer(block, live(block))
