"""Proves the queries of tests/sql/*.test four ways: over one segment; over five segments on two servers with combine
and reduce; over rows that are not sealed yet, frozen, in the tail, both, and as half of a hybrid table; on a live
cluster over HTTP and gRPC. The expected rows stand in the files, written by hand (README.md).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from consuming_registry import ReadLog, filled_log, freeze
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
KINDS = ("frozen", "tail", "frozen and tail", "hybrid")

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


def _of_streams(directory: Path, kind: str) -> InProcessCluster:
    """Rows of a partition's log, which lie as `kind` says."""
    cluster = InProcessCluster(directory)
    (server,) = cluster.registries
    registry = cluster.registries[server]
    logs: dict[str, dict[int, ReadLog]] = {}
    registry.partitions = lambda name: logs.get(name, {})
    for table in TABLES.values():
        schema, config = Schema.from_json(table.schema), TableConfig.from_json(table.config)
        raw, of_table, num_rows = config.raw_table_name, config.name_with_type, len(table.rows)
        of_stream = f"{raw}_REALTIME" if kind == "hybrid" else of_table
        first = num_rows // 2 if kind == "hybrid" else 0
        halves = []
        if first:
            sealed = cluster.add_table(schema, config, [[table.batch(0, first)]])
            halves = [Half(TableRouting(of_table, dict.fromkeys(sealed, (server,))), is_offline=True)]
        chunk_rows = num_rows + 1 if kind == "tail" else max(num_rows * 2 // 5, 1)
        log = filled_log(schema, config, [table.batch(first, num_rows)], chunk_rows=chunk_rows, batch_rows=7)
        if kind == "frozen":
            log.end_chunks()
            freeze(log)
        read = ReadLog(log, of_stream)
        view, is_large = read.piece_view(), num_rows >= 3
        assert {
            "frozen": not view.tail,
            "tail": not view.frozen,
            "frozen and tail": not is_large or bool(view.frozen and view.tail),
            "hybrid": bool(halves) or not is_large,
        }[kind]
        (segment,) = log.segments
        logs[of_stream] = {0: read}
        halves.append(Half(TableRouting(of_stream, {segment.name: (server,)}, ((segment.name,),))))
        cluster.catalog.targets[raw] = Target(raw, schema, tuple(halves))
    return cluster


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


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_not_sealed(kind: str, tmp_path: Path) -> None:
    """Of each kind of rows every query has the answer that it has of sealed ones; their count is printed."""
    cluster = _of_streams(tmp_path, kind)
    wrong = []
    try:
        for block in BLOCKS:
            dialect = Dialect.PQL if block.dialect == "pql" else Dialect.SQL
            answer = cluster.ask(block.text, dialect, query_options=block.options)
            try:
                check_answer(block, answer)
            except AssertionError as error:
                wrong.append(f"{block}: {error}")
    finally:
        cluster.close()
    print({kind: len(BLOCKS)})
    assert not wrong, "\n\n".join(wrong[:5])


@pytest.mark.cluster
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_live_cluster(block: Block, live: Ask) -> None:
    check_answer(block, live(block))
