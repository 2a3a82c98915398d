"""Records that are JSON objects (Pinot: JSONMessageDecoder)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pinotpy.config.schema import Schema
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError
from pinotpy.ingest import json_text
from pinotpy.ingest.decoders.ledger import SAMPLE_CHARACTERS_MAX
from pinotpy.ingest.decoders.piped_decoder import PipedDecoder
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.ingest.readers.json_format import JsonParser, batch_of_records, is_row
from pinotpy.ingest.readers.spec import FileFields, InputBatch, Reject


def make(stream: StreamConfig, schema: Schema, table_config: TableConfig) -> PipedDecoder:
    """The decoder of a table."""
    pipeline = RowPipeline(schema, table_config, reject_share_max=1.0)
    return PipedDecoder(pipeline, _Objects(pipeline))


class _Objects:
    """Implements Parse: one object a payload."""

    def __init__(self, pipeline: RowPipeline) -> None:
        self._columns = pipeline.reader_columns
        self._exact = any(column.data_type is DataType.BIG_DECIMAL for column in self._columns)
        self._parser = JsonParser(self._exact)

    def __call__(self, payloads: Sequence[bytes], numbers: Sequence[int], reject: Reject) -> InputBatch:
        rows: list[dict[str, Any]] = []
        kept: list[int] = []
        loads = self._parser.loads
        for payload, number in zip(payloads, numbers, strict=True):
            try:
                value = loads(payload)
            except (ValueError, RecursionError) as error:
                reason = str(error)[:200] or "nested too deeply"
                reject(number, "", f"no JSON: {_without_place(reason)}", _shown(payload))
                continue
            may_be_deep = payload.count(b"{") + payload.count(b"[") > json_text.DEPTH_MAX
            if is_row(value, number, may_be_deep, reject):
                rows.append(value)
                kept.append(number)
        if not self._columns:
            raise DecodeError("the schema has no columns")
        return batch_of_records(rows, kept, self._columns, self._exact, reject, FileFields(set(), declared=False))


def _without_place(reason: str) -> str:
    """The cause without line and column, so that equal causes are counted together."""
    return reason.partition(": line ")[0].lower()


def _shown(payload: bytes) -> str:
    return payload[: 4 * SAMPLE_CHARACTERS_MAX].decode("utf-8", "replace")
