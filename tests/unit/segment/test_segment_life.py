"""Proves what surrounds the bytes: equal input gives equal bytes, the time range is read by the column's format, a
segment closes only when nobody holds it, kernels find in `meta` what Python finds in the views, caches keep to their
budget.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import AlreadyExistsError, DataError, InvalidConfigError, UnknownColumnError, UserError
from pinotpy.kernels.runtime import abi
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.column import ImmutableColumn
from pinotpy.segment.decoded_cache import DecodedCache
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.metadata_reader import read_metadata
from pinotpy.segment.virtual import virtual_column

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "a", "dataType": "STRING"},
            {"name": "m", "dataType": "INT", "singleValueField": False},
            {"name": "z", "dataType": "LONG"},
        ],
        "metricFieldSpecs": [{"name": "d", "dataType": "DOUBLE", "defaultNullValue": "NaN"}],
    }
)


def config(**parts: Any) -> TableConfig:
    document = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {"nullHandlingEnabled": True},
    }
    return TableConfig.from_json(document | parts)


def rows(count: int = 1000) -> pa.Table:
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "a": pa.array([None if i % 11 == 0 else f"v{i % 37}" for i in range(count)]),
            "m": pa.array([[int(v) for v in rng.integers(0, 9, i % 4)] for i in range(count)], pa.list_(pa.int32())),
            "z": pa.array(rng.integers(0, 1000, count)),
            "d": pa.array([None if i % 7 == 0 else float(i) for i in range(count)]),
        }
    )


CONFIG = config(
    tableIndexConfig={
        "nullHandlingEnabled": True,
        "noDictionaryConfig": {"z": "ZSTANDARD"},
        "invertedIndexColumns": ["a", "m"],
    }
)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_equal_rows_give_equal_bytes_however_they_are_cut_and_wherever_they_go(tmp_path: Path) -> None:
    table = rows()
    first = build_segment(SCHEMA, CONFIG, table.to_batches(), tmp_path / "1", "s")
    second = build_segment(SCHEMA, CONFIG, iter(table.to_batches(max_chunksize=77)), tmp_path / "elsewhere" / "2", "s")
    assert first == second
    assert files(tmp_path / "1" / "s") == files(tmp_path / "elsewhere" / "2" / "s")
    assert first.crc_text.isdigit() and first.crc != 0
    # The time of creation is recorded, and is no part of what the segment is.
    third = build_segment(SCHEMA, CONFIG, table.to_batches(), tmp_path / "3", "s", creation_time_ms=1_700_000_000_000)
    assert third.crc == first.crc and third.creation_time_ms == 1_700_000_000_000
    assert files(tmp_path / "3" / "s")["columns"] == files(tmp_path / "1" / "s")["columns"]
    # Other rows, another name: another segment.
    assert build_segment(SCHEMA, CONFIG, table.slice(1).to_batches(), tmp_path / "4", "s").crc != first.crc
    assert build_segment(SCHEMA, CONFIG, table.to_batches(), tmp_path / "5", "other").crc != first.crc


def test_metadata_reads_back_equal(tmp_path: Path) -> None:
    built = build_segment(
        SCHEMA, CONFIG, rows().to_batches(), tmp_path, "s", raw_table_name="flights", creation_time_ms=5
    )
    assert read_metadata((tmp_path / "s" / "metadata").read_bytes(), "metadata") == built
    assert built.table_name == "flights" and built.num_docs == 1000
    assert (tmp_path / "s" / "columns").stat().st_size == built.size_bytes


def test_a_default_of_nan_becomes_the_default_of_the_type(tmp_path: Path) -> None:
    build_segment(SCHEMA, None, rows().to_batches(), tmp_path, "s")
    with load_segment(tmp_path / "s") as segment:
        assert segment.column("d").default_null == 0.0 == segment.column("d").min_value


def test_what_cannot_be_built_is_refused_with_the_column_and_leaves_nothing(tmp_path: Path) -> None:
    def batch(**columns: Any) -> list[pa.RecordBatch]:
        return [pa.record_batch(columns)]

    with pytest.raises(DataError, match="does not have"):
        build_segment(SCHEMA, None, batch(b=[1]), tmp_path, "s")
    with pytest.raises(DataError, match="column 'm' is multi-valued"):
        build_segment(SCHEMA, None, batch(m=[1]), tmp_path, "s")
    with pytest.raises(DataError, match="column 'z' is single-valued"):
        build_segment(SCHEMA, None, batch(z=[[1]]), tmp_path, "s")
    with pytest.raises(DataError, match="column 'a' cannot be stored as STRING"):
        build_segment(SCHEMA, None, batch(a=[1]), tmp_path, "s")
    with pytest.raises(DataError, match="column 'm' cannot be stored as INT"):
        build_segment(SCHEMA, None, batch(m=[[2**40]]), tmp_path, "s")
    with pytest.raises(InvalidConfigError, match=r"noDictionaryColumns: found 'q'"):
        build_segment(
            SCHEMA,
            config(tableIndexConfig={"nullHandlingEnabled": True, "noDictionaryColumns": ["q"]}),
            batch(z=[1]),
            tmp_path,
            "s",
        )
    with pytest.raises(UserError, match="cannot be a segment name"):
        build_segment(SCHEMA, None, batch(z=[1]), tmp_path, "../s")
    assert os.listdir(tmp_path) == []
    build_segment(SCHEMA, None, batch(z=[1]), tmp_path, "s")
    with pytest.raises(AlreadyExistsError):
        build_segment(SCHEMA, None, batch(z=[1]), tmp_path, "s")
    assert os.listdir(tmp_path) == ["s"]


DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("data_type", "time_format", "values", "expected"),
    [
        ("INT", "1:DAYS:EPOCH", [15706, 15704, None], (15704 * DAY_MS, 15706 * DAY_MS, "15704", "15706")),
        ("LONG", "15:MINUTES:EPOCH", [4, 8], (3_600_000, 7_200_000, "4", "8")),
        ("LONG", "EPOCH|SECONDS", [10, -10], (-10_000, 10_000, "-10", "10")),
        ("TIMESTAMP", "TIMESTAMP", [1_357_000_000_123, 5], (5, 1_357_000_000_123, "5", "1357000000123")),
        (
            "STRING",
            "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd",
            ["2013-01-02", None, "2013-01-01"],
            (15706 * DAY_MS, 15707 * DAY_MS, "2013-01-01", "2013-01-02"),
        ),
        (
            "STRING",
            "SIMPLE_DATE_FORMAT|yyyyMMdd",
            ["20130101"],
            (15706 * DAY_MS, 15706 * DAY_MS, "20130101", "20130101"),
        ),
        (
            "INT",
            "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd",
            [20130102, 20130101],
            (15706 * DAY_MS, 15707 * DAY_MS, "20130101", "20130102"),
        ),
        ("STRING", "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd", ["no date"], None),
        ("INT", "1:DAYS:EPOCH", [None], None),
        ("INT", "1:DAYS:EPOCH", [], None),
    ],
)
@pytest.mark.parametrize("raw", [False, True], ids=["dictionary", "raw"])
def test_the_time_range_is_that_of_the_rows_that_have_a_time(
    data_type: str, time_format: str, values: list[Any], expected: tuple[Any, ...] | None, raw: bool, tmp_path: Path
) -> None:
    spec = {"name": "ts", "dataType": data_type, "format": time_format, "granularity": "1:DAYS"}
    schema = Schema.from_json({"schemaName": "t", "dateTimeFieldSpecs": [spec]})
    table_config = config(
        segmentsConfig={"replication": "1", "timeColumnName": "ts"},
        tableIndexConfig={"nullHandlingEnabled": True, "noDictionaryColumns": ["ts"] if raw else []},
    )
    batch = pa.record_batch({"ts": pa.array(values, schema.field_specs["ts"].data_type.arrow)})
    found = build_segment(schema, table_config, [batch], tmp_path, "s").time_range
    assert (None if found is None else (found.start_ms, found.end_ms, found.start_raw, found.end_raw)) == expected


def test_a_segment_closes_when_its_last_holder_lets_go(tmp_path: Path) -> None:
    build_segment(SCHEMA, None, rows().to_batches(), tmp_path, "s")
    segment = load_segment(tmp_path / "s")
    column = segment.column("a")
    assert segment.acquire() and segment.acquire()
    assert not segment.close()
    assert not segment.acquire(), "a closing segment takes no new holders"
    segment.release()
    assert segment.column("z").num_docs == 1000, "a holder may still read"
    closed = threading.Event()
    waiter = threading.Thread(target=lambda: closed.set() if segment.close(timeout_s=60) else None)
    waiter.start()
    segment.release()
    waiter.join(60)
    assert closed.is_set() and segment.close()
    # Views that somebody kept hold the map: old, but never freed memory.
    assert len(column.ids()) == 1000
    with pytest.raises(AssertionError, match="more often"):
        segment.release()


def test_an_unknown_column_is_a_typed_error(tmp_path: Path) -> None:
    build_segment(SCHEMA, None, [], tmp_path, "s")
    with load_segment(tmp_path / "s") as segment:
        assert (
            segment.has_column("a") and not segment.has_column("b") and segment.columns() == tuple(SCHEMA.field_specs)
        )
        with pytest.raises(UnknownColumnError, match="no column 'b' in segment 's' of table 't'"):
            segment.column("b")


def at(address: int, dtype: Any, count: int) -> np.ndarray[Any, Any]:
    """What a kernel sees at an address."""
    size = np.dtype(dtype).itemsize * count
    return np.frombuffer((ctypes.c_char * size).from_address(int(address)), dtype).copy()


def test_the_meta_words_lead_kernels_to_the_same_bytes(tmp_path: Path) -> None:
    table_config = config(
        tableIndexConfig={
            "nullHandlingEnabled": True,
            "noDictionaryColumns": ["z"],
            "invertedIndexColumns": ["a", "m"],
        },
        fieldConfigList=[{"name": "m", "properties": {"dictIdEncoding": "FIXED_BIT"}}],
    )
    build_segment(SCHEMA, table_config, rows().sort_by("d").to_batches(), tmp_path, "s")
    with load_segment(tmp_path / "s") as segment:
        for name in segment.columns():
            column = segment.column(name)
            meta = column.meta
            assert meta.shape == (abi.META_WORDS,) and meta.dtype == np.int64
            assert (meta[abi.M_NUM_DOCS], meta[abi.M_NUM_VALUES], meta[abi.M_CARDINALITY]) == (
                1000,
                column.num_values,
                column.cardinality,
            )
            addresses = [word for index, word in enumerate(meta) if index in ADDRESS_WORDS and word]
            assert all(word % 64 == 0 for word in addresses)
            check_meta(column)


ADDRESS_WORDS = {
    abi.M_DATA, abi.M_DICTIONARY, abi.M_DICTIONARY_OFFSETS, abi.M_MV_OFFSETS, abi.M_NULLS, abi.M_RAW_OFFSETS,
    abi.M_SORTED_STARTS,
    abi.M_INVERTED_OFFSETS, abi.M_INVERTED_DOCS, abi.M_BITMAPS, abi.M_BITMAP_OFFSETS,
}  # fmt: skip


def check_meta(column: ImmutableColumn) -> None:
    meta, card = column.meta, column.cardinality
    if column.dictionary is None:
        assert meta[abi.M_ENCODING] == abi.ENC_RAW and meta[abi.M_STORED] == abi.T_LONG
        np.testing.assert_array_equal(at(meta[abi.M_DATA], np.int64, column.num_values), column.raw_values())
        return
    if meta[abi.M_ENCODING] == abi.ENC_DICT:
        np.testing.assert_array_equal(at(meta[abi.M_DATA], f"u{meta[abi.M_WIDTH]}", column.num_values), column.ids())
    else:
        assert (meta[abi.M_ENCODING], meta[abi.M_WIDTH]) == (abi.ENC_PACKED, (card - 1).bit_length())
    if meta[abi.M_STORED] == abi.T_VAR:
        offsets = at(meta[abi.M_DICTIONARY_OFFSETS], np.int32, card + 1)
        data = at(meta[abi.M_DICTIONARY], np.uint8, offsets[-1]).tobytes()
        assert [data[offsets[i] : offsets[i + 1]] for i in range(card)] == column.dictionary.arrow().to_pylist()
    else:
        np.testing.assert_array_equal(
            at(meta[abi.M_DICTIONARY], column.data_type.stored.numpy, card), column.dictionary.values()
        )
    if not column.single_value:
        np.testing.assert_array_equal(at(meta[abi.M_MV_OFFSETS], np.uint32, 1001), column.offsets())
    if column.has_nulls:
        np.testing.assert_array_equal(at(meta[abi.M_NULLS], np.uint8, 125), column.null_bitmap())
    assert bool(meta[abi.M_SORTED]) == bool(meta[abi.M_SORTED_STARTS]) == column.is_sorted
    if column.has_inverted_index:
        offsets = at(meta[abi.M_INVERTED_OFFSETS], np.uint32, card + 1)
        if meta[abi.M_BITMAPS]:
            begins = at(meta[abi.M_BITMAP_OFFSETS], np.int64, card + 1)
            data = at(meta[abi.M_BITMAPS], np.uint8, int(begins[-1])).tobytes()
            for dict_id in range(card):
                assert (
                    list(BitMap.deserialize(data[begins[dict_id] : begins[dict_id + 1]]))
                    == column.inverted_docs(dict_id).tolist()
                )
                assert len(column.inverted_docs(dict_id)) == offsets[dict_id + 1] - offsets[dict_id]
            return
        docs = at(meta[abi.M_INVERTED_DOCS], np.int32, int(offsets[-1]))
        for dict_id in range(card):
            np.testing.assert_array_equal(docs[offsets[dict_id] : offsets[dict_id + 1]], column.inverted_docs(dict_id))


def test_a_compressed_column_gives_kernels_no_address_and_is_decoded_once(tmp_path: Path) -> None:
    build_segment(SCHEMA, CONFIG, rows().to_batches(), tmp_path, "s")
    with load_segment(tmp_path / "s") as segment:
        column = segment.column("z")
        assert (column.meta[abi.M_ENCODING], column.meta[abi.M_DATA]) == (abi.ENC_RAW, 0)
        first, second = column.raw_values(), column.raw_values()
        assert isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
        assert first.ctypes.data == second.ctypes.data and not first.flags.writeable
        assert first.tolist() == rows().column("z").to_pylist()


def test_the_decoded_cache_keeps_to_its_budget_and_forgets_the_oldest() -> None:
    cache = DecodedCache(budget_bytes=250)
    made: list[str] = []

    def decode(name: str, size: int = 100) -> np.ndarray[Any, np.dtype[np.uint8]]:
        made.append(name)
        return np.full(size, len(made), np.uint8)

    for name in ("a", "b", "a", "c", "a", "b"):  # c pushes out b, the least recently used
        cache.get((1, name), lambda name=name: decode(name))  # type: ignore[misc]
        assert cache.used_bytes <= 250
    assert made == ["a", "b", "c", "b"]
    assert len(cache.get((1, "huge"), lambda: decode("huge", 300))) == 300
    assert cache.used_bytes == 200, "what is larger than the budget is not kept"
    cache.get((2, "a"), lambda: decode("other"))
    cache.forget(1)
    assert cache.used_bytes == 100
    cache.set_budget(0)
    assert cache.used_bytes == 0


def test_virtual_columns_look_like_stored_ones(tmp_path: Path) -> None:
    build_segment(SCHEMA, None, rows(50).to_batches(), tmp_path, "s1")
    with load_segment(tmp_path / "s1") as segment:
        doc_id = virtual_column("$docId", segment, "host-1")
        assert (
            np.asarray(doc_id.raw_values()).tolist()
            == at(doc_id.meta[abi.M_DATA], np.int32, 50).tolist()
            == list(range(50))
        )
        assert (doc_id.min_value, doc_id.max_value, doc_id.is_sorted, doc_id.cardinality) == (0, 49, True, -1)
        for name, text in (("$segmentName", b"s1"), ("$hostName", b"host-1")):
            column = virtual_column(name, segment, "host-1")
            assert column.dictionary is not None and column.dictionary.arrow().to_pylist() == [text]
            assert column.dictionary.index_of(text) == 0 and column.ids().tolist() == [0] * 50
            assert at(column.meta[abi.M_DICTIONARY], np.uint8, len(text)).tobytes() == text
            assert at(column.meta[abi.M_SORTED_STARTS], np.uint32, 2).tolist() == [0, 50]
        with pytest.raises(UnknownColumnError, match=r"\$docId"):
            virtual_column("$docid", segment, "h")


def test_a_file_cut_under_an_open_segment_is_found_by_the_scrub_and_not_by_a_signal(tmp_path: Path) -> None:
    """Reliability V2: touching a page that the file no longer has would kill the process."""
    script = f"""
import os, sys
from pathlib import Path
from pinotpy.errors import SegmentCorruptError
from pinotpy.segment.immutable import load_segment, scrub
path = Path({str(tmp_path)!r}) / "s"
segment = load_segment(path)
os.chmod(path / "columns", 0o644)
os.truncate(path / "columns", 100)
try:
    scrub(segment)
except SegmentCorruptError as error:
    print("found:", error)
"""
    build_segment(SCHEMA, None, rows().to_batches(), tmp_path, "s")
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "found: columns file has a wrong size" in done.stdout


def test_warming_leaves_nothing_to_compile() -> None:
    """In a process of its own, where no other test has called a kernel."""
    script = """
import pyarrow as pa
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.kernels.codec import bit_packing, posting_builder
from pinotpy.kernels.text import ordered_bytes
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment
from pinotpy.segment.warm import warm_segment_kernels

def known():
    return {
        (m.__name__, n): len(k.signatures)
        for m in (bit_packing, ordered_bytes, posting_builder)
        for n, k in vars(m).items()
        if hasattr(k, "signatures")
    }

warm_segment_kernels()
warmed = known()
assert sum(warmed.values()) >= 8, warmed
types = {"a": "STRING", "z": "LONG", "m": "STRING", "wide": "INT", "sorted": "LONG"}
fields = [{"name": n, "dataType": t, "singleValueField": n != "m"} for n, t in types.items()]
schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": fields})
config = TableConfig.from_json({
    "tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {}, "metadata": {},
    "tableIndexConfig": {"nullHandlingEnabled": True, "invertedIndexColumns": ["a", "m", "wide"]},
    "fieldConfigList": [{"name": "z", "properties": {"dictIdEncoding": "FIXED_BIT"}}],
})
directory = MemoryDirectory()
n = 70000
rows = {
    "a": [str(i * 7 % 11) for i in range(n)],
    "z": [i * 7 % 90 for i in range(n)],
    "m": [[str(i * 7 % 300), "x"] for i in range(n)],
    "wide": pa.array([-i for i in range(n)], pa.int32()),
    "sorted": list(range(n)),
}
build_segment_into(directory, schema, config, [pa.record_batch(rows)], "s")
with open_segment(directory) as segment:
    assert segment.column("a").dictionary.index_of(b"3") >= 0 and len(segment.column("z").ids()) == n
assert known() == warmed, set(known().items()) - set(warmed.items())
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
