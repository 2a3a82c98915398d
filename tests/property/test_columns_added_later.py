"""Proves that a segment which was built before its table had a column answers as one of today that was built of the
same rows, none of which has a value there: with nulls where the table keeps nulls of the column, else with its default,
in both null modes, PQL and SQL, JSON and Arrow, whatever prunes and whatever star-trees there are. The oracle of random
questions is DuckDB.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import duck_oracle
import pytest
from built_segments import batch_of, config_of
from in_process import InProcessCluster
from random_queries import check, random_question
from random_tables import RandomTable, random_config, random_table
from thinning import cases

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.build.builder import build_segment

TABLES = cases(24)
QUESTIONS = 12
CHUNKS = 4
OWN_DEFAULTS: dict[str, Any] = {"INT": -5, "LONG": 77, "STRING": "none", "DOUBLE": 1.5}


class Grown:
    """A table that got columns after its first segments were built. `kept`: columns that keep nulls."""

    def __init__(self, rng: random.Random) -> None:
        table = random_table(rng, rows_max=120)
        while not table.cuts:
            table = random_table(rng, rows_max=120)
        self.added = rng.sample([c.name for c in table.columns], rng.randint(1, len(table.columns) - 1))
        self.num_old = rng.randint(1, len(table.cuts))
        columns = tuple(self._with_default(rng, column) for column in table.columns)
        by_table, by_column = rng.choice([(True, False), (False, True), (False, False)])
        not_null = {c.name for c in columns if rng.random() < 0.5}
        self.kept = {c.name for c in columns if by_table or (by_column and c.name not in not_null)}
        end = table.cuts[self.num_old - 1]
        cells = {
            name: [None] * end + values[end:] if name in self.added else values for name, values in table.cells.items()
        }
        of_old = [column for column in columns if column.name not in self.added]
        self.old_schema, self.schema = (
            self._schema(some, by_column=by_column, not_null=not_null) for some in (of_old, columns)
        )
        self.old_config, config = (
            self._config(random_config(rng, tuple(some)), by_table=by_table) for some in (of_old, columns)
        )
        self.table = replace(table, columns=columns, cells=cells, schema=self.schema, config=config)

    def filled(self, *, null_handling: bool) -> RandomTable:
        """As the rows read: the default is a value where nulls are not kept."""
        cells = {
            c.name: [
                (c.default if c.single_value else [c.default]) if cell is None and c.name not in self.kept else cell
                for cell in self.table.cells[c.name]
            ]
            for c in self.table.columns
        }
        return replace(self.table, cells=cells, null_handling=null_handling)

    def serve(self, cluster: InProcessCluster) -> None:
        folders = []
        edges = itertools.pairwise([0, *self.table.cuts, self.table.num_rows])
        for number, (start, stop) in enumerate(edges):
            is_old = number < self.num_old
            schema, config = (self.old_schema, self.old_config) if is_old else (self.schema, self.table.config)
            batches = [batch.select(list(schema.field_specs)) for batch in self.table.batches(start, stop)]
            build_segment(schema, config, batches, cluster.directory, f"t_{number}")
            folders.append(cluster.directory / f"t_{number}")
        cluster.add_built_table(self.schema, self.table.config, folders)

    def _with_default(self, rng: random.Random, column: Any) -> Any:
        if column.name not in self.added:
            return column
        own = OWN_DEFAULTS.get(column.type) if rng.random() < 0.5 else None
        column = replace(column, own_default=own)
        return replace(column, pool=[*column.pool, column.default])  # so that conditions ask for it

    def _schema(self, columns: Any, *, by_column: bool, not_null: set[str]) -> Schema:
        specs = [
            {"name": c.name, "dataType": c.type, "notNull": c.name in not_null}
            | ({} if c.own_default is None else {"defaultNullValue": c.own_default})
            | ({} if c.metric else {"singleValueField": c.single_value})
            for c in columns
        ]
        return Schema.from_json(
            {
                "schemaName": "t",
                "dimensionFieldSpecs": [s for s, c in zip(specs, columns, strict=True) if not c.metric],
                "metricFieldSpecs": [s for s, c in zip(specs, columns, strict=True) if c.metric],
                "enableColumnBasedNullHandling": by_column,
            }
        )

    def _config(self, config: TableConfig, *, by_table: bool) -> TableConfig:
        document = config.to_json_dict()
        document["tableIndexConfig"]["nullHandlingEnabled"] = by_table
        return TableConfig.from_json(document)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_segments_without_a_column_answer_like_those_whose_rows_have_no_value(chunk: int, tmp_path: Path) -> None:
    for seed in range(chunk, TABLES, CHUNKS):
        rng = random.Random(seed)
        grown = Grown(rng)
        cluster = InProcessCluster(tmp_path / str(seed), num_servers=rng.choice([1, 2]), threads=1, prunes=True)
        grown.serve(cluster)
        for null_handling in (False, True):
            table = grown.filled(null_handling=null_handling)
            connection = duck_oracle.load(table, null_handling=null_handling)
            options = f"preserveType=true;enableNullHandling={str(null_handling).lower()}"
            for number in range(QUESTIONS):
                question = random_question(rng, table)
                answer = (cluster.pql if question.dialect == "pql" else cluster.sql)(
                    question.text, query_options=options
                )
                try:
                    check(question, answer, connection, null_handling=null_handling)
                except AssertionError as error:
                    raise AssertionError(
                        f"seed {seed}, question {number}, added {grown.added}, nulls of {sorted(grown.kept)} are kept, "
                        f"{question.dialect}: {question.text}\nduck: {question.duck}\n{error}"
                    ) from error
            connection.close()
        cluster.close()


SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "city", "dataType": "STRING"},
            {"name": "later", "dataType": "INT", "defaultNullValue": -5},
            {"name": "words", "dataType": "STRING", "singleValueField": False, "defaultNullValue": "none"},
        ],
    }
)
OLD_SCHEMA = Schema.from_json(
    {"schemaName": "t", "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}]},
)
TREES = [{"dimensionsSplitOrder": ["city"], "functionColumnPairs": ["COUNT__*"], "maxLeafRecords": 1}]
# In each: rows of the old segment (4), of the new one that have a value (1), and that have none (2).
AS_VALUES = {
    "SELECT COUNT(*) FROM t WHERE later = -5": [[6]],
    "SELECT COUNT(*) FROM t WHERE later IS NULL": [[0]],
    "SELECT COUNT(*) FROM t WHERE later IS NOT NULL": [[7]],
    "SELECT COUNT(later), MIN(later), MAX(later), SUM(later) FROM t": [[7, -5, 3, -27]],
    "SELECT later, COUNT(*) FROM t GROUP BY later ORDER BY later LIMIT 9": [[-5, 6], [3, 1]],
    "SELECT DISTINCT later FROM t ORDER BY later LIMIT 9": [[-5], [3]],
    "SELECT city, COUNT(*) FROM t WHERE later = -5 GROUP BY city ORDER BY city LIMIT 9": [["oslo", 3], ["rome", 3]],
    "SELECT later + 1, COUNT(*) FROM t GROUP BY later + 1 ORDER BY later + 1 LIMIT 9": [[-4, 6], [4, 1]],
    "SELECT COUNT(*) FROM t WHERE words = 'none'": [[6]],
    "SELECT later FROM t ORDER BY later, city LIMIT 7": [[-5]] * 6 + [[3]],
}
AS_NULLS = {
    "SELECT COUNT(*) FROM t WHERE later = -5": [[0]],
    "SELECT COUNT(*) FROM t WHERE later IS NULL": [[6]],
    "SELECT COUNT(later), MIN(later), MAX(later), SUM(later) FROM t": [[1, 3, 3, 3]],
    "SELECT later, COUNT(*) FROM t GROUP BY later ORDER BY later LIMIT 9": [[3, 1], [None, 6]],
}


@pytest.mark.parametrize("keeps_nulls", [False, True])
def test_a_table_without_nulls_has_the_default_in_the_old_segment_as_in_the_new_one(
    tmp_path: Path, keeps_nulls: bool
) -> None:
    cluster = InProcessCluster(tmp_path, threads=1, prunes=True)
    config = config_of({"nullHandlingEnabled": keeps_nulls, "starTreeIndexConfigs": TREES})
    rows = {"city": ["rome", "oslo", "rome"], "later": [3, None, None], "words": [["a"], None, None]}
    old = {"city": ["oslo", "oslo", "rome", "rome"]}
    build_segment(OLD_SCHEMA, config, [batch_of(OLD_SCHEMA, old)], tmp_path, "old")
    build_segment(SCHEMA, config, [batch_of(SCHEMA, rows)], tmp_path, "new")
    cluster.add_built_table(SCHEMA, config, [tmp_path / "old", tmp_path / "new"])
    for null_handling in (True, False):
        options = f"enableNullHandling={str(null_handling).lower()}"
        if keeps_nulls and not null_handling:
            continue  # IS NULL reads null vectors in both modes
        for text, expected in (AS_NULLS if keeps_nulls else AS_VALUES).items():
            for _ in range(3):  # as plans and templates are kept
                answer = cluster.sql(text, query_options=options)
                assert not answer["exceptions"], answer["exceptions"]
                assert answer["resultTable"]["rows"] == expected, (text, options)
                assert "warnings" not in answer, (text, answer["warnings"])
            table = cluster.ask_arrow(text, query_options=options).result_sets[0]
            assert table.rows == answer["resultTable"]["rows"], text
            assert not cluster.sql(f"EXPLAIN PLAN FOR {text}", query_options=options)["exceptions"]
    cluster.close()
