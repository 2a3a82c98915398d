"""Rows that a request brings along, as bytes: an Arrow IPC stream of one record batch whose schema holds the table's
schema as JSON, under the key `pinotpy.schema`.

A broker asks about its system tables so: it knows their rows, and servers have the code that reads rows.
"""

from __future__ import annotations

from typing import Final

import orjson
import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.errors import DataError, InvalidConfigError

_SCHEMA_KEY: Final = b"pinotpy.schema"


def encode_given_rows(schema: Schema, batch: pa.RecordBatch) -> bytes:
    """The bytes of `batch`, whose columns are in storage form (`DataType.arrow`, null = no value), with the schema."""
    batch = batch.replace_schema_metadata({_SCHEMA_KEY: orjson.dumps(schema.to_json_dict())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decode_given_rows(content: bytes) -> tuple[Schema, list[pa.RecordBatch]]:
    """The schema and the rows. Raises DataError for bytes that are none."""
    try:
        with pa.ipc.open_stream(content) as reader:
            document = (reader.schema.metadata or {}).get(_SCHEMA_KEY)
            if document is None:
                raise DataError("rows of a request came without the schema of their table")
            batches = list(reader)
        for batch in batches:
            batch.validate(full=True)  # offsets and texts are not trusted
    except (pa.ArrowException, OSError, EOFError) as error:
        raise DataError(f"rows of a request are not an Arrow stream: {error}") from error
    try:
        return Schema.from_json(document, is_stored=True), batches
    except InvalidConfigError as error:
        raise DataError(f"rows of a request have a schema that cannot be read: {error.message}") from error
