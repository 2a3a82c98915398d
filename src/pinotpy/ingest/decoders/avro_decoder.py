"""Records that are Avro's binary encoding of one record, without container or header (Pinot:
SimpleAvroMessageDecoder). The property `schema` is that of the writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pinotpy.config.document import describe, refuse
from pinotpy.config.schema import Schema
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.config.table import TableConfig
from pinotpy.errors import MISSING, DecodeError, Fault
from pinotpy.ingest.decoders.ledger import SAMPLE_CHARACTERS_MAX
from pinotpy.ingest.decoders.piped_decoder import PipedDecoder, parse_of_lists, stream_pipeline
from pinotpy.ingest.decoders.properties import key_of, unknown_properties
from pinotpy.ingest.readers.avro_format import RecordDecoder, sources_of
from pinotpy.ingest.readers.avro_schema import parse_schema
from pinotpy.ingest.readers.spec import InputBatch, ReaderColumn, Reject

_SCHEMA: Final = "schema"
_DAMAGES: Final = (ValueError, RecursionError, MemoryError)


def make(stream: StreamConfig, schema: Schema, table_config: TableConfig) -> PipedDecoder:
    """The decoder of a table."""
    pipeline = stream_pipeline(schema, table_config)
    return PipedDecoder(pipeline, parse_of_lists(_Records(_record_decoder(stream, pipeline.reader_columns))))


def _record_decoder(stream: StreamConfig, columns: Sequence[ReaderColumn]) -> RecordDecoder:
    faults = unknown_properties(stream, (_SCHEMA,))
    text = stream.decoder_properties.get(_SCHEMA)
    decoder = None
    if text is None:
        expected = "the schema that the records were written with, as JSON text"
        faults.append(Fault(key_of(stream, _SCHEMA), MISSING, expected))
    else:
        try:
            decoder = _of_schema(text, columns)
        except (ValueError, RecursionError) as error:
            expected = f"an Avro schema of a record with columns of the table: {str(error)[:200]}"
            faults.append(Fault(key_of(stream, _SCHEMA), describe(text), expected))
    refuse("avro decoder", faults)
    assert decoder is not None
    return decoder


def _of_schema(text: str, columns: Sequence[ReaderColumn]) -> RecordDecoder:
    record = parse_schema(text)
    if record.kind != "record":
        raise ValueError(f"it is of kind {record.kind}")
    sources = sources_of(record, columns)
    if not sources:
        fields = ", ".join(name[:60] for name in record.field_names[:5]) or "none"
        raise ValueError(f"its fields are {fields}, those of the table {', '.join(each.name for each in columns[:5])}")
    return RecordDecoder(record, sources)


class _Records:
    """Implements ParseList: one record a payload."""

    def __init__(self, decoder: RecordDecoder) -> None:
        self._decoder = decoder

    def __call__(self, payloads: Sequence[bytes], numbers: Sequence[int], reject: Reject) -> InputBatch:
        try:
            return InputBatch(self._decoder.records(payloads), np.array(numbers, np.int64))
        except _DAMAGES:
            good = self._good(payloads, numbers, reject)
        try:
            rows = self._decoder.records([payloads[index] for index in good])
        except _DAMAGES as error:
            # Each can be decoded, but not all together: the caller tries again with fewer.
            raise DecodeError(_cause(error)) from error
        return InputBatch(rows, np.array([numbers[index] for index in good], np.int64))

    def _good(self, payloads: Sequence[bytes], numbers: Sequence[int], reject: Reject) -> list[int]:
        """Indexes of the records that can be decoded; the others are rejected."""
        causes = self._decoder.damaged(payloads)
        whole = [index for index in range(len(payloads)) if index not in causes]
        good: list[int] = []
        waiting = [whole]
        while waiting:
            indexes = waiting.pop()
            try:
                self._decoder.records([payloads[index] for index in indexes])
                good += indexes
            except _DAMAGES as error:
                if len(indexes) == 1:
                    causes[indexes[0]] = _cause(error)
                else:
                    # Which one has the damaged values is found by halving; the first half is taken first.
                    middle = len(indexes) // 2
                    waiting += [indexes[middle:], indexes[:middle]]
        for index in sorted(causes):
            cause = f"no Avro record of the schema: {causes[index]}"
            reject(numbers[index], "", cause, payloads[index][: SAMPLE_CHARACTERS_MAX // 2].hex())
        return good


def _cause(error: BaseException) -> str:
    return str(error)[:200] or type(error).__name__
