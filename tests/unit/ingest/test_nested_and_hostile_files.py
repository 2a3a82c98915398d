"""Proves that Parquet, ORC and JSON of every type reach storage form as DuckDB has them, and that damaged files end
with a cause.
"""

from __future__ import annotations

import base64
import bz2
import datetime as dt
import gzip
import io
import json
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyarrow.parquet import encryption

from pinotpy.config.schema import Schema
from pinotpy.decimals import encode_decimal
from pinotpy.errors import DecodeError
from pinotpy.ingest.json_text import dumps
from pinotpy.ingest.json_writing import json_texts
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile


def ingested(
    content: bytes, specs: dict[str, str], file_format: FileFormat, **more: Any
) -> tuple[list[dict[str, Any]], RowLedger]:
    dimensions = [
        {"name": name, "dataType": kind.removesuffix("[]"), "singleValueField": not kind.endswith("[]")}
        for name, kind in specs.items()
    ]
    pipeline = RowPipeline(Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": dimensions}), **more)
    ledger = RowLedger("a")
    file = InputFile(Path(f"a.{file_format}"), lambda: io.BytesIO(content), len(content))
    return [row for batch in read_rows(file, file_format, pipeline, ledger) for row in batch.to_pylist()], ledger


def packed(table: pa.Table, file_format: FileFormat, **more: Any) -> bytes:
    out = io.BytesIO()
    if file_format is FileFormat.ORC:
        orc.write_table(table, out)
    else:
        pq.write_table(table, out, **more)
    return out.getvalue()


AT = dt.datetime(2021, 2, 3, 4, 5, 6, 789_000, tzinfo=dt.UTC).replace(tzinfo=None)
MILLIS = 1_612_325_106_789
TABLE = pa.table(
    {
        "rec": pa.array([{"a": 1, "b": {"c": 'x"y\n\u00e9\x01'}}, None, {"a": None, "b": None}]),
        "items": pa.array([[{"k": 1.5}], [], None]),
        "m": pa.array([[("b", 1), ("a", None)], [], None], pa.map_(pa.string(), pa.int64())),
        "price": pa.array([Decimal("1.50"), None, Decimal("-12345678901234567890.12")], pa.decimal128(22, 2)),
        "at": pa.array([AT, None, AT], pa.timestamp("ns")),
        "day": pa.array([AT.date(), None, AT.date()], pa.date32()),
        "small": pa.array([1, None, -128], pa.int8()),
        "large": pa.array([1, None, 2**63 - 1], pa.uint64()),
        "list": pa.array([[1, None, 2], [], None], pa.list_(pa.int32())),
        "text": pa.array(["x", None, "y"], pa.string()).dictionary_encode(),
        "bin": pa.array([b"\x00\xff", None, b""], pa.binary()),
    }
)
SPECS = {
    "rec": "JSON", "items": "JSON", "m": "JSON", "price": "BIG_DECIMAL", "at": "TIMESTAMP", "day": "STRING",
    "small": "INT", "large": "LONG", "list": "INT[]",
    "text": "STRING", "bin": "BYTES",
}  # fmt: skip


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
def test_nested_and_odd_types_of_column_files(file_format: FileFormat) -> None:
    table = TABLE
    if file_format is FileFormat.ORC:  # which has neither unsigned numbers nor dictionaries of its own
        table = table.set_column(7, "large", table["large"].cast(pa.int64())).set_column(
            9, "text", table["text"].cast(pa.string())
        )
    rows, _ = ingested(packed(table, file_format), SPECS, file_format)
    assert rows == [
        {
            "rec": '{"a":1,"b":{"c":"x\\"y\\n\u00e9\\u0001"}}', "items": '[{"k":1.5}]', "m": '{"b":1,"a":null}',
            "price": encode_decimal(Decimal("1.5")),
            "at": MILLIS, "day": "2021-02-03", "small": 1, "large": 1, "list": [1, 2], "text": "x", "bin": b"\x00\xff",
        },
        dict.fromkeys(SPECS) | {"items": "[]", "m": "{}"},
        {
            "rec": '{"a":null,"b":null}', "items": None, "m": None,
            "price": encode_decimal(Decimal("-12345678901234567890.12")),
            "at": MILLIS, "day": "2021-02-03", "small": -128, "large": 2**63 - 1, "list": None, "text": "y", "bin": b"",
        },
    ]  # fmt: skip


def test_int96_times_and_uuids_of_parquet() -> None:
    table = pa.table({"at": pa.array([AT], pa.timestamp("ns")), "id": pa.array([uuid.UUID(int=5).bytes], pa.uuid())})
    rows, _ = ingested(
        packed(table, FileFormat.PARQUET, use_deprecated_int96_timestamps=True),
        {"at": "TIMESTAMP", "id": "STRING"},
        FileFormat.PARQUET,
    )
    assert rows == [{"at": MILLIS, "id": "00000000-0000-0000-0000-000000000005"}]
    assert ingested(packed(table, FileFormat.PARQUET), {"id": "BYTES"}, FileFormat.PARQUET)[0] == [
        {"id": uuid.UUID(int=5).bytes}
    ]


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
def test_only_wanted_columns_are_read(file_format: FileFormat) -> None:
    """Bytes of another column may be damaged, and are not even asked for."""
    noise = random.Random(1)
    table = pa.table({"a": list(range(20_000)), "b": [noise.randbytes(100) for _ in range(20_000)]})
    content = packed(table, file_format)
    asked = 0

    class Counting(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            nonlocal asked
            found = super().read(size)
            asked += len(found)
            return found

    pipeline = RowPipeline(
        Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "LONG"}]})
    )
    file = InputFile(Path("a"), lambda: Counting(content), len(content))
    assert sum(batch.num_rows for batch in read_rows(file, file_format, pipeline, RowLedger("a"))) == 20_000
    assert asked < len(content) // 3


def test_orc_batches_are_cut() -> None:
    content = packed(pa.table({"a": list(range(150_000))}), FileFormat.ORC)
    pipeline = RowPipeline(
        Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "LONG"}]})
    )
    batches = list(
        read_rows(
            InputFile(Path("a.orc"), lambda: io.BytesIO(content), len(content)),
            FileFormat.ORC,
            pipeline,
            RowLedger("a"),
        )
    )
    assert max(batch.num_rows for batch in batches) == 1 << 16
    assert [value for batch in batches for value in batch.column("a").to_pylist()] == list(range(150_000))


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
def test_duckdb_has_the_same_numbers_and_texts(tmp_path: Path, file_format: FileFormat) -> None:
    table = pa.table(
        {
            "n": [i * 37 % 1001 for i in range(70_000)],
            "s": [f"k{i % 97}" if i % 7 else None for i in range(70_000)],
            "d": [i / 3 for i in range(70_000)],
        }
    )
    rows, _ = ingested(packed(table, file_format), {"n": "LONG", "s": "STRING", "d": "DOUBLE"}, file_format)
    pq.write_table(table, tmp_path / "a.parquet")
    assert [tuple(row.values()) for row in rows] == duckdb.sql(
        f"SELECT n, s, d FROM '{tmp_path / 'a.parquet'}'"
    ).fetchall()


# --- damage -----------------------------------------------------------------------------------------------------------


class _Vault(encryption.KmsClient):  # type: ignore[misc]
    def wrap_key(self, key: bytes, master: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, master: str) -> bytes:
        return base64.b64decode(wrapped)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_an_encrypted_parquet_file_is_called_so(tmp_path: Path, plaintext_footer: bool) -> None:
    factory = encryption.CryptoFactory(lambda _: _Vault())
    config = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["a"]}, plaintext_footer=plaintext_footer
    )
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    table = pa.table({"a": [1, 2, 3]})
    with pq.ParquetWriter(tmp_path / "a.parquet", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(DecodeError, match="it is encrypted, and keys are not supported"):
        ingested((tmp_path / "a.parquet").read_bytes(), {"a": "INT"}, FileFormat.PARQUET)


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
def test_cut_column_files_are_named(file_format: FileFormat) -> None:
    content = packed(TABLE.select(["rec", "day", "list"]), file_format)
    for size in (0, 3, 4, 10, len(content) // 2, len(content) - 1):
        with pytest.raises(DecodeError, match=r"'a\.(parquet|orc)'"):
            ingested(content[:size], SPECS, file_format)


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
@pytest.mark.parametrize("nested", [False, True])
def test_text_that_is_not_utf8_is_a_rejected_row(file_format: FileFormat, nested: bool) -> None:
    texts = pa.array(["ok", "b-d", None, "ok"] * 3)
    table = pa.table({"s": pa.StructArray.from_arrays([texts], names=["x"]) if nested else texts, "n": list(range(12))})
    content = packed(
        table, file_format, **({"compression": "none"} if file_format is FileFormat.PARQUET else {})
    ).replace(b"b-d", b"b\xffd")
    rows, ledger = ingested(content, {"s": "JSON" if nested else "STRING", "n": "INT"}, file_format, reject_share_max=1)
    assert [row["n"] for row in rows] == [n for n in range(12) if n % 4 != 1]
    assert [(reject.row, reject.column, reject.cause) for reject in ledger.rejects] == [
        (n, "s", "not UTF-8") for n in (2, 6, 10)
    ]


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
def test_random_damage_of_column_files_ends_with_a_cause_or_other_values(file_format: FileFormat) -> None:
    noise = random.Random(5)
    base = packed(pa.concat_tables([TABLE.select(["rec", "day", "list", "price"])] * 50), file_format)
    for _ in range(150):
        damaged = bytearray(base)
        for _ in range(noise.randint(1, 8)):
            damaged[noise.randrange(len(damaged))] = noise.randrange(256)
        try:
            ingested(bytes(damaged), SPECS, file_format, reject_share_max=1)
        except DecodeError as error:
            assert f"a.{file_format}" in str(error)


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
def test_columns_of_one_name_are_refused(file_format: FileFormat) -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DecodeError, match="stand more than once"):
        ingested(packed(table, file_format), {"a": "INT"}, file_format)


@pytest.mark.parametrize(
    "wrap", [gzip.compress, bz2.compress, lambda content: pa.compress(content, codec="zstd", asbytes=True)]
)
@pytest.mark.parametrize("file_format", [FileFormat.CSV, FileFormat.JSON, FileFormat.TSV])
def test_compressed_files_by_an_opener(wrap: Any, file_format: FileFormat) -> None:
    plain = b'{"a": 1}\n{"a": 2}\n' if file_format is FileFormat.JSON else b"a\n1\n2\n"
    # Several members one after the other are one file, as tools write them.
    for content in (wrap(plain), wrap(plain[:9]) + wrap(plain[9:])):
        assert ingested(content, {"a": "INT"}, file_format)[0] == [{"a": 1}, {"a": 2}]
    long = wrap(plain[:9] * 5000)
    with pytest.raises(DecodeError, match=r"damaged compressed file|cannot be read"):
        ingested(long[: len(long) // 2], {"a": "INT"}, file_format)


def test_a_column_file_that_is_compressed_from_outside_is_refused_with_what_to_do() -> None:
    content = gzip.compress(packed(pa.table({"a": [1]}), FileFormat.PARQUET))
    with pytest.raises(DecodeError, match="unpack it first"):
        ingested(content, {"a": "INT"}, FileFormat.PARQUET)


# --- JSON texts of whole arrays against those of single values --------------------------------------------------------


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_arrays_are_written_as_their_values_are(data: st.DataObject) -> None:
    def values(depth: int) -> st.SearchStrategy[Any]:
        kind = data.draw(
            st.sampled_from(["int", "float", "text", "bool", "list", "record"] if depth < 3 else ["int", "text"])
        )
        match kind:
            case "list":
                return st.none() | st.lists(values(depth + 1), max_size=3)
            case "record":
                below = [values(depth + 1) for _ in range(data.draw(st.integers(1, 3)))]
                return st.none() | st.fixed_dictionaries({f'f"{n}': one for n, one in enumerate(below)})
        leaves: dict[str, st.SearchStrategy[Any]] = {
            "int": st.integers(-(2**62), 2**62),
            "float": st.floats(allow_nan=False, allow_infinity=False),
            "text": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
            "bool": st.booleans(),
        }
        return st.none() | leaves[kind]

    rows = data.draw(st.lists(values(0), min_size=1, max_size=6))
    array = pa.array(rows)
    start = data.draw(st.integers(0, len(rows)))
    # By value: fields of a struct have one order, those of these records each their own.
    for part, expected in ((array, rows), (array.slice(start), rows[start:])):
        assert [json.loads(text or "null") for text in json_texts(part).to_pylist()] == [
            json.loads(dumps(row)) for row in expected
        ]
    if not any(isinstance(row, dict | list) for row in rows):
        assert json_texts(array).to_pylist() == [None if row is None else dumps(row) for row in rows]


def test_texts_without_nulls_leave_keys_out() -> None:
    array = pa.array([{"a": None, "b": {"c": None, "d": 1}}, {"a": 1, "b": None}, {"a": None, "b": None}])
    assert json_texts(array, omit_nulls=True).to_pylist() == ['{"b":{"d":1}}', '{"a":1}', "{}"]


def test_a_map_with_a_key_twice_and_one_with_nan() -> None:
    kind = pa.map_(pa.string(), pa.float64())
    table = pa.table({"m": pa.array([[("a", 1.0), ("a", 2.0)], [("b", float("nan"))], [("c", 3.0)]], kind)})
    rows, ledger = ingested(packed(table, FileFormat.PARQUET), {"m": "JSON"}, FileFormat.PARQUET, reject_share_max=1)
    assert [json.loads(row["m"]) for row in rows] == [{"a": 2.0}, {"c": 3.0}]
    assert [(reject.row, reject.column) for reject in ledger.rejects] == [(2, "m")]


def test_numbers_in_text_columns_do_not_depend_on_their_neighbours() -> None:
    content = b'{"s": 1, "m": [1, "x"]}\n{"s": 2.5, "m": [2, 3.0]}\n{"s": 1e10}\n{"s": true}\n{"s": "t"}'
    rows, _ = ingested(content, {"s": "STRING", "m": "STRING[]"}, FileFormat.JSON)
    assert [row["s"] for row in rows] == ["1", "2.5", "1.0E10", "true", "t"]
    assert [row["m"] for row in rows[:2]] == [["1", "x"], ["2", "3.0"]]
