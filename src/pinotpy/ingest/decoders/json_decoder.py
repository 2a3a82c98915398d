"""Records that are JSON objects (Pinot: JSONMessageDecoder).

A kernel reads objects of plain values; the others, and everything that is no object, is parsed one by one as files are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.config.schema import Schema
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidConfigError
from pinotpy.ingest import json_text
from pinotpy.ingest.decoders.ledger import SAMPLE_CHARACTERS_MAX
from pinotpy.ingest.decoders.piped_decoder import PipedDecoder, stream_pipeline
from pinotpy.ingest.decoders.plain_objects import PlainObjects
from pinotpy.ingest.decoders.properties import unknown_properties
from pinotpy.ingest.missing_columns import OTHER_FIELDS_MAX
from pinotpy.ingest.readers.json_format import JsonParser, batch_of_records, is_row
from pinotpy.ingest.readers.spec import FileFields, InputBatch, ReaderColumn, Reject


def make(stream: StreamConfig, schema: Schema, table_config: TableConfig) -> PipedDecoder:
    """The decoder of a table. Raises InvalidConfigError: the table gives it properties, of which it has none."""
    if faults := unknown_properties(stream, ()):
        raise InvalidConfigError("the JSON decoder has no properties:", tuple(faults))
    pipeline = stream_pipeline(schema, table_config)
    if not pipeline.reader_columns:
        raise InvalidConfigError("the schema has no columns")
    parse = JsonObjects(pipeline.reader_columns, PlainObjects(pipeline.reader_columns))
    return PipedDecoder(pipeline, parse, _fields_of)


def _fields_of(payload: bytes) -> tuple[str, ...]:
    """The keys of one object, some of them where it has many."""
    try:
        value = JsonParser(False).loads(payload)
    except (ValueError, RecursionError):
        return ()
    return (
        tuple(key[:SAMPLE_CHARACTERS_MAX] for key in list(value)[:OTHER_FIELDS_MAX]) if isinstance(value, dict) else ()
    )


class ObjectReader(Protocol):
    """Reads some of the payloads, and names the others (PlainObjects)."""

    def read(self, payloads: pa.Array, numbers: Int64Array) -> tuple[InputBatch, Int64Array]: ...


class JsonObjects:
    """Implements Parse: one object a payload.

    Args:
        plain: what it leaves out is parsed here, one by one.
    """

    def __init__(self, columns: Sequence[ReaderColumn], plain: ObjectReader) -> None:
        self._columns = columns
        self._plain = plain
        self._exact = any(column.data_type is DataType.BIG_DECIMAL for column in self._columns)
        self._parser = JsonParser(self._exact)

    def __call__(self, payloads: pa.Array, numbers: Int64Array, reject: Reject) -> list[InputBatch]:
        plain, left_out = self._plain.read(payloads, numbers)
        batches = [plain] if plain.batch.num_rows else []
        if len(left_out):
            batches.append(self._parsed(payloads.take(pa.array(left_out)).to_pylist(), left_out, reject))
        return batches

    def _parsed(self, payloads: list[bytes], numbers: Int64Array, reject: Reject) -> InputBatch:
        rows: list[dict[str, Any]] = []
        kept: list[int] = []
        loads = self._parser.loads
        for payload, number in zip(payloads, (numbers + 1).tolist(), strict=True):
            try:
                value = loads(payload)
            except (ValueError, RecursionError) as error:
                reason = str(error)[:200] or "nested too deeply"
                reject(number, "", f"no JSON: {_without_place(reason)}", _shown(payload))
                continue
            may_be_deep = json_text.may_be_deep(payload)
            if is_row(value, number, may_be_deep, reject):
                rows.append(value)
                kept.append(number)
        return batch_of_records(rows, kept, self._columns, self._exact, reject, FileFields(set(), declared=False))


def _without_place(reason: str) -> str:
    """The cause without line and column, so that equal causes are counted together."""
    return reason.partition(": line ")[0].lower()


def _shown(payload: bytes) -> str:
    return payload[: 4 * SAMPLE_CHARACTERS_MAX].decode("utf-8", "replace")
