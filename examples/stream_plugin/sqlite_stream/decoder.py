"""A decoder: records such as `city=Oslo&price=12.5` become rows, by the names of the schema's columns.

It only has to parse; `PipedDecoder` does the rest: types, transforms, filters, counts of what was no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qsl

from pinotpy.config.schema import Schema
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.config.table import TableConfig
from pinotpy.ingest.decoders.piped_decoder import PipedDecoder, parse_of_lists, stream_pipeline
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.ingest.readers.json_format import batch_of_records
from pinotpy.ingest.readers.spec import FileFields, InputBatch, Reject


def make(stream: StreamConfig, schema: Schema, table_config: TableConfig) -> PipedDecoder:
    """The decoder of a table. `stream.decoder_properties` has what is below `stream.<type>.decoder.prop.`."""
    pipeline = stream_pipeline(schema, table_config)
    separator = stream.decoder_properties.get("separator", "&")
    return PipedDecoder(pipeline, parse_of_lists(_Pairs(pipeline, separator)))


class _Pairs:
    """Implements ParseList: one set of pairs a payload."""

    def __init__(self, pipeline: RowPipeline, separator: str) -> None:
        self._columns, self._separator = pipeline.reader_columns, separator

    def __call__(self, payloads: Sequence[bytes], numbers: Sequence[int], reject: Reject) -> InputBatch:
        rows, kept = [], []
        for payload, number in zip(payloads, numbers, strict=True):
            try:
                pairs = parse_qsl(payload.decode(), strict_parsing=True, separator=self._separator)
            except ValueError:  # also of bytes that are no UTF-8
                reject(number, "", "no key=value pairs", payload.decode("utf-8", "replace"))
                continue
            rows.append(dict(pairs))
            kept.append(number)
        return batch_of_records(rows, kept, self._columns, False, reject, FileFields(set(), declared=False))
