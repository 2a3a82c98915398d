"""Rows are sorted as the builder orders values, and dealt to groups by the very functions that brokers prune by.

Oracles: Python's own sort with the stored default for null; `partition_of`, one value at a time; numpy's calendar.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError, UserError
from pinotpy.ingest.row_groups import row_groups
from pinotpy.ingest.row_order import sort_rows
from pinotpy.ingest.time_buckets import Bucket
from pinotpy.segment.partition import partition_of, partition_text

SCHEMA = Schema.from_json(
    {
        "schemaName": "orders",
        "dimensionFieldSpecs": [
            {"name": "customer", "dataType": "LONG"},
            {"name": "city", "dataType": "STRING"},
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
        ],
        "metricFieldSpecs": [{"name": "price", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
)
CITIES = ["Zürich", "Bern", None, "", "Ångström", "bern", "東京", "a" * 40]


def batches(num_batches: int = 3, rows: int = 500, seed: int = 7) -> list[pa.RecordBatch]:
    random = np.random.default_rng(seed)
    made = []
    for _ in range(num_batches):
        city = pa.array([CITIES[i] for i in random.integers(0, len(CITIES), rows)], pa.string())
        made.append(
            pa.record_batch(
                {
                    "customer": pa.array(random.integers(-50, 50, rows), pa.int64()),
                    # Batches differ in how they hold texts, as batches of files do.
                    "city": city.dictionary_encode() if len(made) % 2 else city,
                    "tags": pa.array(
                        [["x", "y"][: int(n)] for n in random.integers(0, 3, rows)], pa.list_(pa.string())
                    ),
                    "price": pa.array(
                        random.choice([1.5, -2.0, float("nan"), 0.0, -0.0], rows), pa.float64(), from_pandas=False
                    ),
                    "day": pa.array(random.integers(16_000, 16_100, rows), pa.int32(), mask=random.random(rows) < 0.05),
                }
            )
        )
    return made


def rows_of(found: list[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in found for row in batch.to_pylist()]


def config(function: str = "Murmur", column: str = "city") -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": "orders_OFFLINE",
            "tableType": "OFFLINE",
            "segmentsConfig": {"timeColumnName": "day", "replication": "1"},
            "tableIndexConfig": {
                "segmentPartitionConfig": {
                    "columnPartitionMap": {column: {"functionName": function, "numPartitions": 7}}
                }
            },
            "tenants": {},
            "metadata": {},
        }
    )


def test_rows_are_sorted_by_stored_values_and_ties_keep_their_places() -> None:
    expected = sorted(rows_of(batches()), key=lambda row: b"null" if row["city"] is None else row["city"].encode())
    assert str(rows_of(sort_rows(batches(), SCHEMA, ["city"]))) == str(expected)


def test_several_sort_columns_and_null_as_its_default() -> None:
    def price(row: dict[str, object]) -> float:
        return 0.0 if row["price"] != row["price"] else float(row["price"])  # type: ignore[arg-type]  # NaN is stored as null, and null as 0

    expected = sorted(rows_of(batches()), key=lambda row: (price(row), row["customer"]))
    assert str(rows_of(sort_rows(batches(), SCHEMA, ["price", "customer"]))) == str(expected)


def test_sorting_wants_a_single_valued_column() -> None:
    for name in ("tags", "nothing"):
        with pytest.raises(UserError, match=name):
            sort_rows(batches(), SCHEMA, [name])


@pytest.mark.parametrize("function", ["Modulo", "Murmur", "HashCode", "ByteArray"])
def test_groups_are_the_partitions_of_the_builders_functions(function: str) -> None:
    column = "customer" if function == "Modulo" else "city"
    groups = row_groups(SCHEMA, config(function, column), partitioned=True, bucket=None)
    spec = SCHEMA.field_specs[column]
    for batch in batches():
        split = list(groups.split(batch))
        assert [key for key, _ in split] == sorted({key for key, _ in split})
        assert sum(part.num_rows for _, part in split) == batch.num_rows
        for key, part in split:
            for value in part.column(column).to_pylist():
                stored = (
                    spec.default_in_segments if value is None else value.encode() if isinstance(value, str) else value
                )
                text = partition_text(stored, spec.data_type)
                assert text is not None
                assert key == f"partition-{partition_of(function, 7, text):05d}"


def test_rows_keep_their_order_within_partition_and_month_and_those_without_time_come_last() -> None:
    groups = row_groups(SCHEMA, config(), partitioned=True, bucket=Bucket.MONTH)
    (batch,) = batches(1)
    expected: dict[str, list[object]] = {}
    for row in batch.to_pylist():
        partition = partition_of("Murmur", 7, "null" if row["city"] is None else row["city"])
        month = "no-time" if row["day"] is None else str(np.datetime64(row["day"], "D").astype("datetime64[M]"))
        expected.setdefault(f"partition-{partition:05d}/{month}", []).append(row)
    assert {key: str(part.to_pylist()) for key, part in groups.split(batch)} == {
        key: str(rows) for key, rows in sorted(expected.items())
    }


def test_what_cannot_be_grouped_is_said() -> None:
    with pytest.raises(UserError, match="columnPartitionMap"):
        row_groups(SCHEMA, None, partitioned=True, bucket=None)
    with pytest.raises(UserError, match="time column"):
        row_groups(SCHEMA, None, partitioned=False, bucket=Bucket.DAY)
    groups = row_groups(SCHEMA, config("Modulo"), partitioned=True, bucket=None)
    with pytest.raises(DataError, match="Modulo"):
        list(groups.split(batches(1)[0]))
