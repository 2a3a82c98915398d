"""Every format in every packing becomes the same table, and it is the one that DuckDB reads of the plain file.

Proved by writing one set of records as CSV, TSV, JSON lines, a JSON array, Parquet, Avro and ORC, plain and packed by
gzip, bzip2 and Zstandard, building each as `load` does it, and reading its segment back.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from sniffed_files import built

from pinotpy.errors import DataError

START = datetime(2024, 2, 27, 22, 30, tzinfo=UTC)
RECORDS: list[dict[str, Any]] = [
    {
        "id": number,
        "large": 3_000_000_000 + number if number % 7 else None,
        "price": number / 8 - 3,
        "city": [None, "Köln", 'say "hi", twice', "O'Neil; Bonn", "東京"][number % 5],
        "ok": number % 3 == 0 if number % 11 else None,
        "at": START + timedelta(minutes=37 * number),
    }
    for number in range(600)
]
TYPES = {"id": "INT", "large": "LONG", "price": "DOUBLE", "city": "STRING", "ok": "BOOLEAN", "at": "TIMESTAMP"}
TABLE = pa.table(
    {name: pa.array([record[name] for record in RECORDS], kind) for name, kind in (
        ("id", pa.int32()), ("large", pa.int64()), ("price", pa.float64()), ("city", pa.string()), ("ok", pa.bool_()),
        ("at", pa.timestamp("ms")),
    )}
)  # fmt: skip
AVRO = {
    "type": "record", "name": "r", "fields": [
        {"name": "id", "type": "int"}, {"name": "large", "type": ["null", "long"]}, {"name": "price", "type": "double"},
        {"name": "city", "type": ["null", "string"]}, {"name": "ok", "type": ["null", "boolean"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip
JSON_RECORDS = [record | {"at": record["at"].strftime("%Y-%m-%dT%H:%M:%SZ")} for record in RECORDS]


def _csv(delimiter: str) -> bytes:
    stream = io.BytesIO()
    times = TABLE.set_column(5, "at", TABLE["at"].cast(pa.timestamp("s")))
    pacsv.write_csv(times, stream, pacsv.WriteOptions(delimiter=delimiter))
    return stream.getvalue()


def _avro(codec: str = "null") -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(AVRO), RECORDS, codec=codec)
    return stream.getvalue()


def _columnar(write: Callable[[pa.Table, Any], Any]) -> bytes:
    stream = io.BytesIO()
    write(TABLE, stream)
    return stream.getvalue()


CONTENTS: dict[str, Callable[[], bytes]] = {
    "csv": lambda: _csv(","),
    "tsv": lambda: _csv("\t"),
    "jsonl": lambda: "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in JSON_RECORDS).encode(),
    "json": lambda: json.dumps(JSON_RECORDS, ensure_ascii=False).encode(),
    "parquet": lambda: _columnar(lambda table, stream: pq.write_table(table, stream, row_group_size=250)),
    "avro": _avro,
    "orc": lambda: _columnar(orc.write_table),
}
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda content: content,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}
# Columnar formats are packed within, and read from their end.
PACKED_WITHIN = ("parquet", "orc")


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("name", [name for name in CONTENTS if name not in PACKED_WITHIN])
def test_text_and_avro_in_every_packing_are_the_records(tmp_path: Path, name: str, packing: str) -> None:
    file = built(tmp_path, PACKINGS[packing](CONTENTS[name]()), ".".join(filter(None, ("t", name, packing))))
    assert (file.types, file.rows) == (TYPES, RECORDS)
    told = {guess.subject: guess.value for guess in file.reading.sniffed.guesses}
    assert told["format"] == {"jsonl": "json"}.get(name, name)
    assert told.get("compression") == {"": None, "gz": "gzip", "bz2": "bzip2", "zst": "zstd"}[packing]


@pytest.mark.parametrize("name", PACKED_WITHIN)
def test_columnar_files_are_the_records(tmp_path: Path, name: str) -> None:
    file = built(tmp_path, CONTENTS[name](), f"t.{name}")
    assert (file.types, file.rows) == (TYPES, RECORDS)
    with pytest.raises(DataError, match="unpack it first"):
        built(tmp_path, gzip.compress(CONTENTS[name]()), f"packed.{name}.gz")


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("csv", "read_csv('{}')"),
        ("tsv", "read_csv('{}')"),
        ("jsonl", "read_json('{}')"),
        ("json", "read_json('{}')"),
        ("parquet", "read_parquet('{}')"),
    ],
)
def test_the_records_are_what_duckdb_reads(tmp_path: Path, name: str, reader: str) -> None:
    path = tmp_path / f"t.{name}"
    path.write_bytes(CONTENTS[name]())
    read = duckdb.sql(f"SELECT * FROM {reader.format(path)}")
    rows = [dict(zip(read.columns, row, strict=True)) for row in read.fetchall()]
    assert [row | {"at": row["at"].replace(tzinfo=UTC)} for row in rows] == RECORDS


@pytest.mark.parametrize("codec", ["deflate", "bzip2"])
def test_avro_packed_within(tmp_path: Path, codec: str) -> None:
    assert built(tmp_path, _avro(codec), "t.avro").rows == RECORDS


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_files_that_declare_columns_and_have_no_row(tmp_path: Path, name: str) -> None:
    stream = io.BytesIO()
    if name == "avro":
        fastavro.writer(stream, fastavro.parse_schema(AVRO), [])
    else:
        (pq if name == "parquet" else orc).write_table(TABLE.slice(0, 0), stream)
    file = built(tmp_path, stream.getvalue(), f"t.{name}")
    assert list(file.types) == list(TYPES) and file.rows == []
    if name != "avro":
        assert file.types == TYPES | {"id": "INT", "large": "LONG"}


@pytest.mark.parametrize("packing", ["gz", "bz2", "zst"])
def test_a_packed_file_that_was_cut_is_refused_with_its_cause(tmp_path: Path, packing: str) -> None:
    packed = PACKINGS[packing](CONTENTS["csv"]())
    with pytest.raises(DataError, match="damaged compressed file"):
        built(tmp_path, packed[: len(packed) // 2], f"t.csv.{packing}")


def test_the_first_bytes_count_where_a_name_lies_about_the_packing(tmp_path: Path) -> None:
    assert built(tmp_path, gzip.compress(CONTENTS["csv"]()), "t.csv").rows == RECORDS
    assert built(tmp_path, CONTENTS["csv"](), "t.csv.gz").rows == RECORDS
