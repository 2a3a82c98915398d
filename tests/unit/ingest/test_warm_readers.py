"""Proves that `pinotpy warmup` leaves nothing to compile for a first job: reading files adds no signature to the
kernels of the readers.
"""

from __future__ import annotations

import io
from decimal import Decimal

import fastavro
from tests.support.read_back import read_back

from pinotpy.ingest.readers.spec import FileFormat
from pinotpy.ingest.warm import warm_reader_kernels
from pinotpy.kernels.ingest import avro_records, csv_dialects


def test_reading_compiles_nothing_that_warming_did_not() -> None:
    warm_reader_kernels()
    kernels = (csv_dialects.rewrite, avro_records.decode, avro_records.gather_bytes, avro_records.gather_numbers)
    compiled = [list(kernel.signatures) for kernel in kernels]
    assert all(compiled)
    read_back(
        b"\xef\xbb\xbfa;b\n'1';x\n2;'y'z\n",
        {"a": "INT", "b": "STRING"},
        FileFormat.CSV,
        {"delimiter": ";", "quoteCharacter": "'"},
    )
    read_back(
        b"a,b\n1 , \\n\n#\n",
        {"a": "INT", "b": "STRING"},
        FileFormat.CSV,
        {"escapeCharacter": "\\", "commentMarker": "#", "ignoreSurroundingSpaces": True},
    )
    types = [
        ["null", "string"], {"type": "map", "values": ["long", "double"]},
        {"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"},
        {"type": "fixed", "name": "d", "size": 20, "logicalType": "decimal", "precision": 45},
        {"type": "array", "items": "boolean"},
    ]  # fmt: skip
    out = io.BytesIO()
    schema = fastavro.parse_schema(
        {"type": "record", "name": "top", "fields": [{"name": f"c{n}", "type": kind} for n, kind in enumerate(types)]}
    )
    fastavro.writer(
        out,
        schema,
        [{"c0": "x", "c1": {"a": 1, "b": 0.5}, "c2": bytes(16), "c3": Decimal(7), "c4": [True]}] * 1000,
        codec="deflate",
    )
    read_back(
        out.getvalue(),
        {"c0": "STRING", "c1": "JSON", "c2": "STRING", "c3": "BIG_DECIMAL", "c4": "INT[]"},
        FileFormat.AVRO,
    )
    assert [list(kernel.signatures) for kernel in kernels] == compiled
