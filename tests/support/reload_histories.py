"""Histories of a table: rows, schema and config of one seed, and changes of the documents that reloads bring to its
segments.

The rows never change. What reads differently afterwards is only what the documents say of columns that segments do not
hold: a column that was added later has its default everywhere, and a new build writes the defaults of now.
`ReloadHistory` knows what every row must read; `Questions` has the same rows in DuckDB.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import duck_oracle
import duckdb
import pyarrow as pa
from duck_oracle import canonical
from random_queries import check, random_question
from random_tables import (
    METRIC_DEFAULTS,
    TYPES,
    RandomColumn,
    RandomTable,
    random_cell,
    random_value,
    sort_value,
    stored_array,
)

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

# A page is 4,096 bytes: most buffers have several.
ROWS: Final = (1, 120, 500, 500, 1100, 2000)
CODECS: Final = (None, "LZ4", "ZSTANDARD", "SNAPPY", "DELTA", "PASS_THROUGH")
_NUMBERS: Final = ("INT", "LONG", "FLOAT", "DOUBLE")


class ReloadHistory:
    """The table of a seed as its documents are now."""

    def __init__(self, seed: int, name: str = "t", *, num_rows: int | None = None) -> None:
        rng = self.rng = random.Random(seed)
        self.name = name
        self.columns = [self._new_column(number) for number in range(rng.randint(4, 8))]
        self.num_rows = rng.choice(ROWS) if num_rows is None else num_rows
        self.cells = {column.name: [random_cell(rng, column) for _ in range(self.num_rows)] for column in self.columns}
        self._sort()
        cuts = sorted({rng.randrange(self.num_rows) for _ in range(rng.choice([0, 0, 1, 2]))} - {0})
        self.cuts = tuple(cuts)
        self.num_builds = 0
        self._arrays: dict[tuple[RandomColumn, bool, bool], pa.Array] = {}
        # By column: its indexes with their settings, and how a build would store it.
        self.indexes: dict[str, dict[str, Any]] = {}
        self.storage: dict[str, dict[str, Any]] = {column.name: self._random_storage(column) for column in self.columns}
        for column in self.columns:
            self._draw_indexes(column)
        self.trees = [self._random_tree() for _ in range(rng.choice([0, 0, 1]))]
        self.load_mode = rng.choice(["MMAP", "HEAP"])
        self.null_vectors = rng.random() < 0.85
        self.more: dict[str, Any] = {"columnMinMaxValueGeneratorMode": rng.choice(["ALL", "ALL", "NONE", "NON_METRIC"])}
        self.built()

    def built(self) -> None:
        """All segments are built, or built anew, with the documents as they are now."""
        self.stored = tuple(self.columns)
        if not self.null_vectors:
            # Then a row without a value holds the default like any other value.
            for column in self.columns:
                default = column.default if column.single_value else [column.default]
                self.cells[column.name] = [default if cell is None else cell for cell in self.cells[column.name]]
        self.num_builds += 1
        self._arrays.clear()

    # --- documents -------------------------------------------------------------------------------------------------

    def schema(self) -> dict[str, Any]:
        def field(column: RandomColumn) -> dict[str, Any]:
            default = (
                {} if column.own_default is None else {"defaultNullValue": _as_json(column.type, column.own_default)}
            )
            return {
                "name": column.name,
                "dataType": column.type,
                **({} if column.single_value else {"singleValueField": False}),
                **default,
            }

        return {
            "schemaName": self.name,
            "dimensionFieldSpecs": [field(column) for column in self.columns if not column.metric],
            "metricFieldSpecs": [field(column) for column in self.columns if column.metric],
        }

    def config(self) -> dict[str, Any]:
        raw = [name for name, storage in self.storage.items() if storage["raw"]]
        fields: list[dict[str, Any]] = []
        for name, storage in self.storage.items():
            field: dict[str, Any] = {"name": name, "encodingType": "RAW" if storage["raw"] else "DICTIONARY"}
            if storage["raw"] and storage["codec"]:
                field["compressionCodec"] = storage["codec"]
            if not storage["raw"] and storage["packed"]:
                field["properties"] = {"dictIdEncoding": "FIXED_BIT"}
            if "text" in self.indexes[name]:
                field["indexTypes"] = ["TEXT"]
            fields.append(field)

        def named(index: str) -> list[str]:
            return [name for name, indexes in self.indexes.items() if index in indexes]

        texts = [column.name for column in self.columns if column.type not in (*_NUMBERS, "BOOLEAN", "TIMESTAMP")]
        return {
            "tableName": self.name,
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "fieldConfigList": fields,
            "tableIndexConfig": {
                "loadMode": self.load_mode,
                "nullHandlingEnabled": self.null_vectors,
                "noDictionaryColumns": raw,
                "invertedIndexColumns": [name for name in named("inverted") if name not in raw],
                "rangeIndexColumns": [name for name in named("range") if name not in raw or name not in texts],
                "bloomFilterConfigs": {name: self.indexes[name]["bloom"] for name in named("bloom")},
                "jsonIndexConfigs": {name: self.indexes[name]["json"] for name in named("json")},
                "enableDynamicStarTreeCreation": True,
                "starTreeIndexConfigs": [tree for tree in self.trees if not {*tree["dimensionsSplitOrder"]} & {*raw}],
                **self.more,
            },
        }

    # --- changes ---------------------------------------------------------------------------------------------------

    def change(self) -> str:
        """Change the documents once or a few times; returns how, for messages."""
        steps = (
            self._index_added, self._index_added, self._index_dropped, self._indexes_anew, self._tree_changed,
            self._load_mode_changed,
            self._load_mode_changed, self._column_added, self._default_changed, self._storage_changed,
            self._setting_changed,
        )  # fmt: skip
        return "; ".join(step() for step in self.rng.choices(steps, k=self.rng.choice([1, 1, 2, 3])))

    def _index_added(self) -> str:
        column = self.rng.choice(self.columns)
        kind = self.rng.choice(_possible(column))
        self.indexes[column.name][kind] = self._settings(kind)
        return f"{column.name}.{kind} added"

    def _index_dropped(self) -> str:
        present = [(name, kind) for name, indexes in self.indexes.items() for kind in indexes]
        if not present:
            return self._index_added()
        name, kind = self.rng.choice(present)
        del self.indexes[name][kind]
        return f"{name}.{kind} dropped"

    def _indexes_anew(self) -> str:
        for column in self.columns:
            self._draw_indexes(column)
        return "all indexes drawn anew"

    def _tree_changed(self) -> str:
        if self.trees and self.rng.random() < 0.4:
            self.trees.pop()
            return "star-tree dropped"
        self.trees = [*self.trees[-1:], self._random_tree()]
        return "star-tree added"

    def _load_mode_changed(self) -> str:
        self.load_mode = "MMAP" if self.load_mode == "HEAP" else "HEAP"
        return f"loadMode {self.load_mode}"

    def _column_added(self) -> str:
        column = self._new_column(len(self.columns))
        self.columns.append(column)
        self.cells[column.name] = [None] * self.num_rows
        self.storage[column.name] = self._random_storage(column)
        self._draw_indexes(column)
        return f"column {column.name} added"

    def _default_changed(self) -> str:
        at = self.rng.randrange(len(self.columns))
        column = self.columns[at]
        self.columns[at] = replace(column, own_default=_random_value(self.rng, column.type))
        return f"default of {column.name} is {self.columns[at].own_default!r}"

    def _storage_changed(self) -> str:
        column = self.rng.choice(self.columns)
        self.storage[column.name] = self._random_storage(column)
        return f"{column.name} to be stored as {self.storage[column.name]}"

    def _setting_changed(self) -> str:
        key = self.rng.choice(
            [
                "nullHandlingEnabled",
                "nullHandlingEnabled",
                "columnMinMaxValueGeneratorMode",
                "segmentPartitionConfig",
                "enableDefaultStarTree",
            ]
        )
        partitioned = [
            column.name for column in self.columns if column.single_value and column.type in ("INT", "LONG", "STRING")
        ]
        if key == "nullHandlingEnabled":
            self.null_vectors = not self.null_vectors
            return f"{key} {self.null_vectors}"
        if key == "segmentPartitionConfig" and partitioned:
            partition = {"functionName": "Murmur", "numPartitions": self.rng.choice([2, 50])}
            self.more[key] = {"columnPartitionMap": {self.rng.choice(partitioned): partition}}
        elif key == "enableDefaultStarTree":
            self.more[key] = not self.more.get(key, False)
        else:
            key = "columnMinMaxValueGeneratorMode"
            self.more[key] = self.rng.choice(["ALL", "NONE", "NON_METRIC"])
        return f"{key} {self.more[key]}"

    # --- what rows read --------------------------------------------------------------------------------------------

    def read_columns(self) -> tuple[RandomColumn, ...]:
        """The columns with the defaults that rows without a value read: segments that hold a column hold what was its
        default then.
        """
        built = {column.name: column for column in self.stored}
        return tuple(built.get(column.name, column) for column in self.columns)

    @property
    def without_nulls(self) -> frozenset[str]:
        """The columns of which the table keeps no nulls now, as brokers tell servers."""
        return frozenset() if self.null_vectors else frozenset(column.name for column in self.columns)

    def read_cells(self, column: RandomColumn) -> list[Any]:
        """What every row has in a column. Of one that came after the segments it is nothing, and that is the column's
        default where the table keeps no nulls.
        """
        if self.null_vectors or any(column.name == one.name for one in self.stored):
            return self.cells[column.name]
        return [column.default if column.single_value else [column.default]] * self.num_rows

    def rows(self, *, null_handling: bool) -> pa.Table:
        """What every row must read, in storage form."""
        return pa.table({column.name: self._array(column, null_handling) for column in self.read_columns()})

    def _array(self, column: RandomColumn, null_handling: bool) -> pa.Array:
        key = column, null_handling, self.null_vectors
        found = self._arrays.get(key)
        if found is None:
            default = column.default if column.single_value else [column.default]
            cells = self.read_cells(column)
            found = stored_array(
                column, cells if null_handling else [default if cell is None else cell for cell in cells]
            )
            self._arrays[key] = found
        return found

    def shown_rows(self, *, null_handling: bool) -> Counter[tuple[Any, ...]]:
        """What every row must read, in the form in which `random_queries.our_value` has answers."""
        columns = self.read_columns()
        shown = []
        for column in columns:
            default = column.default if column.single_value else [column.default]
            cells = [default if cell is None and not null_handling else cell for cell in self.read_cells(column)]
            shown.append(
                [
                    tuple(value) if isinstance(value, list) else value
                    for value in (canonical(column, cell) for cell in cells)
                ]
            )
        return Counter(zip(*shown, strict=True))

    def table(self, *, null_handling: bool) -> RandomTable:
        """The table for random questions, which know nothing of JSON."""
        columns = tuple(column for column in self.read_columns() if column.type != "JSON")
        schema, config = Schema.from_json(self.schema()), TableConfig.from_json(self.config())
        cells = {column.name: self.read_cells(column) for column in columns}
        return RandomTable(columns, cells, self.num_rows, self.cuts, schema, config, null_handling)

    def splits(self) -> list[list[pa.RecordBatch]]:
        """The rows of every segment, in the columns that it stores."""
        rows = pa.table({column.name: self._array(column, True) for column in self.stored}).combine_chunks()
        return [
            rows.slice(start, stop - start).to_batches()
            for start, stop in itertools.pairwise([0, *self.cuts, self.num_rows])
        ]

    # --- drawing ---------------------------------------------------------------------------------------------------

    def _new_column(self, number: int) -> RandomColumn:
        rng = self.rng
        data_type = rng.choice((*TYPES, "JSON"))
        metric = data_type in METRIC_DEFAULTS and data_type != "BYTES" and rng.random() < 0.3
        single = metric or rng.random() < 0.75 or data_type in ("BIG_DECIMAL", "JSON")
        pool = [_random_value(rng, data_type) for _ in range(rng.choice([1, 3, 20, 400]))]
        own = _random_value(rng, data_type) if rng.random() < 0.3 else None
        return RandomColumn(
            f"c{number}_{data_type.lower()}", data_type, single, metric, pool, rng.choice([0, 0, 0.1, 0.5]), own
        )

    def _sort(self) -> None:
        by = self.rng.choice(
            [None, *(c for c in self.columns if c.single_value and c.type in ("INT", "LONG", "STRING", "TIMESTAMP"))]
        )
        if by is not None:
            keys = [sort_value(by.default if cell is None else cell) for cell in self.cells[by.name]]
            order = sorted(range(self.num_rows), key=lambda row: keys[row])
            self.cells = {name: [cells[row] for row in order] for name, cells in self.cells.items()}

    def _random_storage(self, column: RandomColumn) -> dict[str, Any]:
        rng = self.rng
        packed = rng.random() < 0.3 and column.single_value
        codecs = (
            CODECS
            if column.type in ("INT", "LONG", "TIMESTAMP") and column.single_value
            else [codec for codec in CODECS if codec != "DELTA"]
        )
        return {"raw": rng.random() < 0.4, "codec": rng.choice(codecs), "packed": packed}

    def _draw_indexes(self, column: RandomColumn) -> None:
        share = self.rng.choice([0.0, 0.3, 0.8])
        self.indexes[column.name] = {
            kind: self._settings(kind) for kind in _possible(column) if self.rng.random() < share
        }

    def _settings(self, kind: str) -> dict[str, Any]:
        match kind:
            case "bloom":
                return self.rng.choice([{"fpp": 0.05}, {"fpp": 0.3, "maxSizeInBytes": 64}])
            case "json":
                return self.rng.choice([{}, {"maxLevels": 1}])
        return {}

    def _random_tree(self) -> dict[str, Any]:
        single = [column for column in self.columns if column.single_value and column.type != "JSON"]
        dimensions = [column.name for column in self.rng.sample(single, min(len(single), self.rng.randint(1, 3)))]
        numbers = [column.name for column in single if column.type in _NUMBERS]
        pairs = [
            f"{function}__{name}"
            for name in numbers
            for function in ("SUM", "MIN", "MAX", "AVG")
            if self.rng.random() < 0.7
        ]
        leaf = self.rng.choice([1, 10, 10_000])
        if not dimensions:
            return {
                "dimensionsSplitOrder": [self.columns[0].name],
                "functionColumnPairs": ["COUNT__*"],
                "maxLeafRecords": leaf,
            }
        return {"dimensionsSplitOrder": dimensions, "functionColumnPairs": ["COUNT__*", *pairs], "maxLeafRecords": leaf}


class Questions:
    """Random questions about the rows of a history in one null mode, with DuckDB's answers."""

    def __init__(self, history: ReloadHistory, *, null_handling: bool) -> None:
        self._history, self._null_handling = history, null_handling
        self._loaded: tuple[Any, ...] = ()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def ask(self, number: int, answer: Callable[[str, str, str], dict[str, Any]]) -> None:
        """Compare that many answers; `answer`: (dialect, text, query options) → response. Raises AssertionError."""
        table = self._history.table(null_handling=self._null_handling)
        if not table.columns:
            return
        wanted = (self._history.num_builds, self._history.null_vectors, *table.columns)
        if wanted != self._loaded or self._connection is None:
            self.close()
            self._loaded, self._connection = wanted, duck_oracle.load(table, null_handling=self._null_handling)
        options = f"preserveType=true;enableNullHandling={str(self._null_handling).lower()}"
        for _ in range(number):
            question = random_question(self._history.rng, table)
            text = question.text.replace(" FROM t", f" FROM {self._history.name}")
            try:
                check(
                    question,
                    answer(question.dialect, text, options),
                    self._connection,
                    null_handling=self._null_handling,
                )
            except AssertionError as error:
                raise AssertionError(
                    f"{question.dialect}, {options}: {text}\nduck: {question.duck}\n{error}"
                ) from error

    def ask_documents(self, answer: Callable[[str, str, str], dict[str, Any]]) -> None:
        """Compare what JSON and text indexes find in JSON columns with the documents themselves. Raises
        AssertionError.
        """
        rng, null_handling = self._history.rng, self._null_handling
        for column in self._history.read_columns():
            if column.type != "JSON":
                continue
            number, letter = rng.randrange(9), rng.choice("xyz")
            conditions = {f"JSON_MATCH({column.name}, '\"$.k\" = {number}')": f'"k":{number},'}
            if "text" in self._history.indexes[column.name]:
                conditions[f"TEXT_MATCH({column.name}, '{letter}')"] = f'"{letter}"'
            cells = [
                cell if null_handling or cell is not None else column.default
                for cell in self._history.read_cells(column)
            ]
            for condition, part in conditions.items():
                text = f"SELECT COUNT(*) FROM {self._history.name} WHERE {condition}"
                found = answer("sql", text, f"enableNullHandling={str(null_handling).lower()}")
                expected = sum(part in cell for cell in cells if cell is not None)
                assert not found["exceptions"] and found["resultTable"]["rows"] == [[expected]], (
                    text,
                    null_handling,
                    expected,
                    found["exceptions"],
                    found["resultTable"],
                )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _possible(column: RandomColumn) -> list[str]:
    """The indexes that a column of this type can have, in one storage or the other."""
    kinds = ["inverted", "range", "bloom"]
    if column.type in ("STRING", "JSON"):
        kinds.append("text")
    if column.type == "JSON":
        kinds.append("json")
    return kinds


def _random_value(rng: random.Random, data_type: str) -> Any:
    if data_type == "JSON":
        return json.dumps(
            {"k": rng.randrange(9), "tags": [rng.choice("xyz") for _ in range(rng.randint(0, 3))]},
            separators=(",", ":"),
        )
    return random_value(rng, data_type)


def _as_json(data_type: str, value: Any) -> Any:
    """A default as a schema has it."""
    return value.hex() if data_type == "BYTES" else str(value) if data_type == "BIG_DECIMAL" else value
