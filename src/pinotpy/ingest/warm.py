"""Run the kernels of readers and decoders once, so that no first job and no first batch of a stream waits for a
compiler (3 to 10 s each, without cache).
"""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.ingest.decoders.plain_objects import PlainObjects
from pinotpy.ingest.readers.catalog import reader_for
from pinotpy.ingest.readers.spec import FileFormat, InputFile, ReaderColumn

_SYNC: Final = bytes(16)


def warm_reader_kernels() -> None:
    """Read a CSV and an Avro file of one row from memory, and a record of a stream."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0}
    fields = [{"name": "a", "type": "string"}, {"name": "b", "type": decimal}]
    schema = json.dumps({"type": "record", "name": "warm", "fields": fields}).encode()
    # A map of one entry, whose end is a map of none; then a block of one record.
    header = b"Obj\x01\x02" + _sized(b"avro.schema") + _sized(schema) + b"\x00" + _SYNC
    record = _sized(b"x") + _sized(b"\x07")
    files = {FileFormat.CSV: b'a,b\n"1",2\n', FileFormat.AVRO: header + b"\x02" + _sized(record) + _SYNC}
    columns = [ReaderColumn("a", DataType.STRING), ReaderColumn("b", DataType.BIG_DECIMAL)]
    for file_format, content in files.items():
        file = InputFile(Path(f"warm.{file_format}"), partial(io.BytesIO, content), len(content))
        for _ in reader_for(file_format)(file, columns, {}, lambda *_, **__: None, lambda *_: None):
            pass
    PlainObjects(columns[:1]).read(pa.array([b'{"a":"x"}'], pa.binary()), np.zeros(1, np.int64))


def _sized(content: bytes) -> bytes:
    """Avro's bytes: the length as a zigzag number, then they."""
    number, length = 2 * len(content), b""
    while number >= 0x80:
        length += bytes([number & 0x7F | 0x80])
        number >>= 7
    return length + bytes([number]) + content
