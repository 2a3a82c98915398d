"""Proves that a built segment gives back what went in: every type × single/multi × dictionary, fixed-bit, raw, each
codec × nulls, random data by seed, against plain Python lists; and that dictionaries, indexes and metadata agree with
numpy.
"""

from __future__ import annotations

import math
import random
import string
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import DataError
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.column import ImmutableColumn
from pinotpy.segment.immutable import ImmutableSegment, load_segment
from pinotpy.segment.index.inverted import AS_BITMAPS, AS_LISTS

TYPES = [data_type for data_type in DataType if data_type is not DataType.MAP]
WAYS = ["dictionary", "packed", "raw", "LZ4", "ZSTANDARD", "SNAPPY", "DELTA"]


def random_value(rng: random.Random, data_type: DataType) -> Any:
    match data_type:
        case DataType.INT:
            return rng.choice(
                [0, 1, -1, 2**31 - 1, -(2**31), rng.randrange(-1000, 1000), rng.randrange(-(2**31), 2**31)]
            )
        case DataType.LONG | DataType.TIMESTAMP:
            return rng.choice(
                [0, 2**63 - 1, -(2**63), 2**53 + 1, rng.randrange(-50, 50), rng.randrange(-(2**63), 2**63)]
            )
        case DataType.FLOAT:
            return struct.unpack(
                "<f",
                struct.pack("<f", rng.choice([0.0, -0.0, math.inf, -math.inf, math.nan, rng.uniform(-9, 9), 1e-45])),
            )[0]
        case DataType.DOUBLE:
            return rng.choice(
                [0.0, -0.0, math.inf, -math.inf, math.nan, rng.uniform(-9, 9), 5e-324, 1.7976931348623157e308]
            )
        case DataType.BOOLEAN:
            return rng.random() < 0.5
        case DataType.BIG_DECIMAL:
            return encode_decimal(Decimal(rng.randrange(-(10**6), 10**6)).scaleb(rng.randrange(-9, 9)))
        case DataType.BYTES:
            return rng.choice([b"", b"\x00", b"\xff\x00", rng.randbytes(rng.randrange(9))])
        case _:
            return rng.choice(
                [
                    "",
                    "null",
                    "a",
                    "é",
                    "z\x00",
                    "\U0001f600",
                    "日本",
                    "".join(rng.choices(string.ascii_letters, k=rng.randrange(12))),
                ]
            )


def kept(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def plain(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value  # −0.0 becomes 0.0


def expected_row(value: Any, single_value: bool) -> Any:
    """What the rules of ingestion make of an input row; None = null."""
    if single_value:
        return plain(value) if kept(value) else None
    return [plain(element) for element in value or [] if kept(element)] or None


def table_config(way: str, **indexing: Any) -> TableConfig:
    field: dict[str, Any] = {"name": "c"}
    if way == "packed":
        field["properties"] = {"dictIdEncoding": "FIXED_BIT"}
    elif way != "dictionary":
        field |= {"encodingType": "RAW"} | ({} if way == "raw" else {"compressionCodec": way})
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {"nullHandlingEnabled": True, **indexing},
            "fieldConfigList": [field],
        }
    )


def schema_of(data_type: DataType, single_value: bool) -> Schema:
    return Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": "c", "dataType": data_type.value, "singleValueField": single_value}],
        }
    )


def batches_of(rows: list[Any], data_type: DataType, single_value: bool, sizes: list[int]) -> list[pa.RecordBatch]:
    arrow_type = data_type.arrow if single_value else pa.list_(data_type.arrow)
    batches, start = [], 0
    for size in sizes:
        batches.append(pa.record_batch({"c": pa.array(rows[start : start + size], arrow_type)}))
        start += size
    assert start == len(rows)
    return batches


def stored_form(value: Any, data_type: DataType) -> Any:
    if data_type is DataType.BOOLEAN:
        return int(value)
    return value.encode() if isinstance(value, str) else value


def column_values(column: ImmutableColumn) -> list[Any]:
    """All values, flat, in stored form, through the reading interface that queries use."""
    if column.dictionary is None:
        raw = column.raw_values()
        return raw.tolist() if isinstance(raw, np.ndarray) else raw.to_pylist()
    return [column.dictionary.value(int(dict_id)) for dict_id in column.ids()]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("single_value", [True, False], ids=["single", "multi"])
@pytest.mark.parametrize("data_type", TYPES)
def test_rows_come_back_as_they_went_in(data_type: DataType, single_value: bool, way: str, tmp_path: Path) -> None:
    for seed in range(3):
        rng = random.Random(f"{data_type}{single_value}{way}{seed}")
        null_share = [0.0, 0.3, 1.0][seed]
        rows: list[Any] = []
        for _ in range(rng.randrange(1, 300)):
            if rng.random() < null_share:
                rows.append(None)
            elif single_value:
                rows.append(random_value(rng, data_type))
            else:
                rows.append(
                    [None if rng.random() < 0.1 else random_value(rng, data_type) for _ in range(rng.randrange(5))]
                )
        cut = rng.randrange(len(rows) + 1)
        schema = schema_of(data_type, single_value)
        build_segment(
            schema,
            table_config(way),
            batches_of(rows, data_type, single_value, [cut, 0, len(rows) - cut]),
            tmp_path,
            f"s{seed}",
            creation_time_ms=seed,
        )
        with load_segment(tmp_path / f"s{seed}") as segment:
            check_rows(segment, rows, data_type, single_value)


def check_rows(segment: ImmutableSegment, rows: list[Any], data_type: DataType, single_value: bool) -> None:
    column = segment.column("c")
    expected = [expected_row(row, single_value) for row in rows]
    # Arrow and back.
    assert pa.Table.from_batches(segment.to_batches(batch_docs=37)).column("c").to_pylist() == expected
    # Nulls are recorded, and the default stands in their place.
    assert column.null_mask().tolist() == [row is None for row in expected]
    assert column.has_nulls == any(row is None for row in expected)
    stored = [
        [column.default_null]
        if row is None
        else [stored_form(v, data_type) for v in (row if not single_value else [row])]
        for row in expected
    ]
    flat = [value for row in stored for value in row]
    assert column_values(column) == flat
    assert column.num_values == len(flat) and column.num_docs == segment.num_docs == len(rows)
    if not single_value:
        assert column.offsets().tolist() == np.cumsum([0, *(len(row) for row in stored)]).tolist()
    assert column.max_values_per_doc == max(len(row) for row in stored)
    assert (column.min_value, column.max_value) == (min(flat), max(flat))
    if column.dictionary is not None:
        distinct = sorted(set(flat))
        assert column.cardinality == column.dictionary.cardinality == len(distinct)
        assert column.dictionary.arrow().to_pylist() == distinct
        assert column.is_sorted == (single_value and flat == sorted(flat))


@pytest.mark.parametrize("data_type", [DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.STRING])
def test_a_dictionary_finds_bounds_like_a_sorted_list(data_type: DataType, tmp_path: Path) -> None:
    import bisect

    rng = random.Random(f"bounds {data_type}")
    rows = [random_value(rng, data_type) for _ in range(400)]
    build_segment(schema_of(data_type, True), None, batches_of(rows, data_type, True, [400]), tmp_path, "s")
    with load_segment(tmp_path / "s") as segment:
        dictionary = segment.column("c").dictionary
        assert dictionary is not None
        ordered = dictionary.arrow().to_pylist()
        probes: list[Any] = [
            stored_form(plain(v), data_type) for v in [random_value(rng, data_type) for _ in range(300)] if kept(v)
        ] + ordered
        if data_type is not DataType.STRING:
            # Values of other types: beyond the range, between two integers, beyond a double's 53 bits, beyond a float's
            # 24.
            probes += [
                2**64,
                -(2**70),
                0.5,
                -0.5,
                2**53 + 1,
                2**53 - 1,
                16777217,
                0.1,
                math.inf,
                -math.inf,
                1e300,
                2.0**63,
            ]
        for probe in probes:
            assert dictionary.lower_bound(probe) == bisect.bisect_left(ordered, probe), probe
            assert dictionary.upper_bound(probe) == bisect.bisect_right(ordered, probe), probe
            assert dictionary.index_of(probe) == (ordered.index(probe) if probe in ordered else -1), probe


@pytest.mark.parametrize("single_value", [True, False], ids=["single", "multi"])
@pytest.mark.parametrize("way", ["dictionary", "packed"])
@pytest.mark.parametrize(("values", "form"), [(50, AS_BITMAPS), (4000, AS_LISTS)], ids=["bitmaps", "lists"])
def test_the_inverted_index_has_each_doc_of_a_value_once(
    way: str, single_value: bool, values: int, form: tuple[str, ...], tmp_path: Path
) -> None:
    rng = random.Random(f"inverted {way} {single_value}")
    rows: list[Any] = [
        rng.randrange(values) if single_value else [rng.randrange(values) for _ in range(rng.randrange(6))]
        for _ in range(9000)
    ]
    config = table_config(way, invertedIndexColumns=["c"])
    build_segment(
        schema_of(DataType.INT, single_value),
        config,
        batches_of(rows, DataType.INT, single_value, [5000, 4000]),
        tmp_path,
        "s",
    )
    with load_segment(tmp_path / "s") as segment:
        column = segment.column("c")
        assert column.has_inverted_index and column.dictionary is not None
        assert {entry.kind for entry in column.metadata.buffers} >= set(form)
        for dict_id in range(0, column.cardinality, 1 + column.cardinality // 50):
            value = column.dictionary.value(dict_id)
            stored = [[row] if single_value else row or [column.default_null] for row in rows]
            assert column.inverted_docs(dict_id).tolist() == [doc for doc, row in enumerate(stored) if value in row]


def test_a_sorted_column_has_doc_ranges_and_needs_no_inverted_index(tmp_path: Path) -> None:
    rows = sorted(random.Random(5).choices(range(100), k=5000))
    build_segment(
        schema_of(DataType.INT, True),
        table_config("dictionary", invertedIndexColumns=["c"]),
        batches_of(rows, DataType.INT, True, [5000]),
        tmp_path,
        "s",
    )
    with load_segment(tmp_path / "s") as segment:
        column = segment.column("c")
        assert column.is_sorted and not column.has_inverted_index
        starts = column.sorted_starts()
        for dict_id, value in enumerate(sorted(set(rows))):
            assert (starts[dict_id], starts[dict_id + 1]) == (rows.index(value), rows.index(value) + rows.count(value))


@pytest.mark.parametrize("rows", [[7] * 10, [None] * 10], ids=["one value", "all null"])
def test_a_column_with_one_value_counts_as_sorted(rows: list[Any], tmp_path: Path) -> None:
    build_segment(schema_of(DataType.INT, True), None, batches_of(rows, DataType.INT, True, [10]), tmp_path, "s")
    with load_segment(tmp_path / "s") as segment:
        assert segment.column("c").is_sorted and segment.column("c").cardinality == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("single_value", [True, False], ids=["single", "multi"])
def test_a_segment_without_rows_can_be_built_and_read(way: str, single_value: bool, tmp_path: Path) -> None:
    for data_type in (DataType.INT, DataType.STRING):
        name = f"s{data_type.value}"
        build_segment(schema_of(data_type, single_value), table_config(way), [], tmp_path, name)
        with load_segment(tmp_path / name) as segment:
            column = segment.column("c")
            assert segment.num_docs == column.num_values == 0
            assert column_values(column) == [] and (column.min_value, column.max_value) == (None, None)


@pytest.mark.parametrize("single_value", [True, False], ids=["single", "multi"])
def test_strings_that_come_as_arrow_dictionaries_give_the_same_segment(single_value: bool, tmp_path: Path) -> None:
    """Dictionaries of other makers repeat values, hold unused ones and nulls; batches bring different ones."""
    first = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, None, 3, 0], pa.int8()), pa.array(["b", "a", "b", None, "unused"])
    )
    second = pa.DictionaryArray.from_arrays(pa.array([1, 1, 0], pa.int8()), pa.array(["zz", "a"]))
    texts: list[Any] = ["b", "a", "b", None, None, "b", "a", "a", "zz"]
    if single_value:
        batches = [pa.record_batch({"c": array}) for array in (first, second)]
        as_text = [pa.record_batch({"c": pa.array(texts)})]
    else:
        batches = [
            pa.record_batch({"c": pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), array)})
            for array in (first, second)
        ]
        as_text = [pa.record_batch({"c": pa.array([[text] for text in texts])})]
    schema = schema_of(DataType.STRING, single_value)
    crcs = [
        build_segment(schema, None, given, tmp_path / str(i), "s").crc for i, given in enumerate((batches, as_text))
    ]
    assert crcs[0] == crcs[1]
    with load_segment(tmp_path / "0" / "s") as segment:
        assert segment.column("c").dictionary.arrow().to_pylist() == [b"a", b"b", b"null", b"zz"]  # type: ignore[union-attr]


def test_a_missing_column_is_null_and_a_slice_is_read_from_its_offset(tmp_path: Path) -> None:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}, {"name": "b", "dataType": "LONG"}],
        }
    )
    batch = pa.record_batch({"a": pa.array([f"v{i}" for i in range(100)])})
    for way, name in ((None, "dictionary"), ("a", "raw")):
        config = None if way is None else table_config("dictionary").model_copy(update={"field_configs": ()})
        if config is not None:
            config = config.model_copy(
                update={"indexing": config.indexing.model_copy(update={"no_dictionary_columns": ("a", "b")})}
            )
        build_segment(schema, config, [batch.slice(10, 20), batch.slice(95)], tmp_path, name)
        with load_segment(tmp_path / name) as segment:
            table = pa.Table.from_batches(segment.to_batches())
            assert table.column("a").to_pylist() == [f"v{i}" for i in [*range(10, 30), *range(95, 100)]]
            assert table.column("b").to_pylist() == [None] * 25
            assert segment.column("b").min_value == -(2**63)


def test_large_values_leave_min_and_max_of_strings_unknown(tmp_path: Path) -> None:
    build_segment(
        schema_of(DataType.STRING, True), None, batches_of(["a", "z" * 300], DataType.STRING, True, [2]), tmp_path, "s"
    )
    with load_segment(tmp_path / "s") as segment:
        assert (segment.column("c").min_value, segment.column("c").max_value) == (b"a", None)


def test_the_bytes_do_not_depend_on_the_threads_and_a_bad_column_leaves_nothing(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(9)]
    schema = Schema.from_json(
        {"schemaName": "t", "dimensionFieldSpecs": [{"name": name, "dataType": "LONG"} for name in names]}
    )
    rng = np.random.default_rng(5)
    batch = pa.record_batch({name: pa.array(rng.integers(0, 10**i, 5000)) for i, name in enumerate(names, 1)})
    for threads in (1, 2, 7):
        build_segment(schema, None, [batch], tmp_path / str(threads), "s", threads=threads)
    assert len({(tmp_path / str(threads) / "s" / "columns").read_bytes() for threads in (1, 2, 7)}) == 1
    bad = batch.set_column(3, "c3", pa.array(["no number"] * batch.num_rows))
    with pytest.raises(DataError, match="'c3' cannot be stored as LONG"):
        build_segment(schema, None, [bad], tmp_path / "bad", "s", threads=2)
    assert list((tmp_path / "bad").iterdir()) == []
