"""Proves that every SQL query of tests/sql/*.test answers in Arrow what it answers in JSON: names, types, values, order
of rows, faults. The JSON is what test_sql_files.py compares with rows written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process import InProcessCluster
from query_files import Block, read_blocks, read_tables

from pinotpy.client.arrow_answers import ArrowResultSet
from pinotpy.client.result import parse_response
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.ast import Dialect

HERE = Path(__file__).parent
BLOCKS = {
    path.stem: [block for block in read_blocks(path) if block.dialect == "sql"] for path in sorted(HERE.glob("*.test"))
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    made = InProcessCluster(tmp_path_factory.mktemp("arrow"))
    for table in read_tables(HERE / "tables").values():
        made.add_table(
            Schema.from_json(table.schema), TableConfig.from_json(table.config), [[table.batch(0, len(table.rows))]]
        )
    yield made
    made.close()


@pytest.mark.parametrize("name", [name for name, blocks in BLOCKS.items() if blocks])
def test_arrow_says_what_json_says(cluster: InProcessCluster, name: str) -> None:
    for block in BLOCKS[name]:
        _compare(cluster, block)


def _compare(cluster: InProcessCluster, block: Block) -> None:
    by_json = parse_response(cluster.ask(block.text, Dialect.SQL, query_options=block.options))
    by_arrow = cluster.ask_arrow(block.text, query_options=block.options)
    assert by_arrow.exceptions == by_json.exceptions and len(by_arrow.tables) == len(by_json.tables), block.text
    for ours, theirs in zip(by_arrow.tables, by_json.tables, strict=True):
        assert isinstance(ours, ArrowResultSet), block.text
        assert (ours.columns, ours.types, repr(ours.rows)) == (theirs.columns, theirs.types, repr(theirs.rows)), (
            block.text
        )
