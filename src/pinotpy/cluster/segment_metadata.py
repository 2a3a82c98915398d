"""The segment's record in the property store (PROPERTYSTORE/SEGMENTS/<table>/<segment>).

Reads the keys of 0.6 and of 1.5 (`segment.offline.download.url` / `segment.download.url` …). Writes the new form, and
beside it the old name, table and type keys, which older readers need and newer ones ignore. Not the segment's own
metadata file: that is `segment.metadata.SegmentMetadata`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from pinotpy.cluster.records import ZNRecord

_LONG_MIN = -9223372036854775808  # 0.6's "never refreshed"
INPUTS_SHOWN_MAX = 20
# Of a segment that was refreshed to a later time (`extra`): until when its rows were in the version that some replica
# may still serve, as `end_time_ms`; empty if that did not say it.
SERVED_END = "segment.served.end.time"
# Of a segment whose content was replaced (`extra`): CRC of the one before, and when that was. Replicas serve either for
# a while, and say which (ExternalView.contents).
REPLACED = "segment.replaced"
# Among unknown fields (`extra`) it is a text that is no JSON object.
PARTITIONS = "segment.partition.metadata"
INPUT_CHARACTERS_MAX = 16_384  # of the names in one record: it is read by all brokers and servers


@dataclass(frozen=True, slots=True)
class InputsRecord:
    """What a record tells of the segment's list of input files: SHA-256 of the list, the number of files, the names of
    the first ones.
    """

    sha256: str
    num_files: int
    uris: tuple[str, ...] = ()

    @staticmethod
    def of(sha256: str, uris: Sequence[str]) -> InputsRecord:
        """Of all names the first ones, as many as a record takes."""
        shown = uris[:INPUTS_SHOWN_MAX]
        while sum(map(len, shown)) > INPUT_CHARACTERS_MAX:
            shown = shown[:-1]
        return InputsRecord(sha256, len(uris), tuple(shown))


@dataclass(frozen=True, slots=True)
class SegmentZkMetadata:
    """One segment as the cluster knows it. Times are ms since the epoch, None = unknown or never; sizes are bytes.

    `start_time_ms`/`end_time_ms` are inclusive bounds of the time column, `start_time_raw`/`end_time_raw` the same in
    the column's own unit or format. `crypter` names what encrypted the archive, "" if nothing did. `partition_metadata`
    is Pinot's `{"columnPartitionMap": …}`. `column_ranges`: the text that `column_ranges.read_ranges` reads, "" if the
    record has none; only who prunes by it reads it. `inputs`: None, if the segment came without a list of its input
    files. `extra` keeps unknown fields.
    """

    segment_name: str
    table_name_with_type: str
    crc: int
    total_docs: int
    creation_time_ms: int
    download_url: str = ""
    push_time_ms: int | None = None
    refresh_time_ms: int | None = None
    size_bytes: int | None = None
    crypter: str = ""
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    start_time_raw: str = ""
    end_time_raw: str = ""
    index_version: str = "v3"
    data_crc: int | None = None
    partition_metadata: dict[str, Any] | None = None
    column_ranges: str = ""
    custom_map: dict[str, str] = field(default_factory=dict)
    inputs: InputsRecord | None = None
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def served_end_time_ms(self) -> int | None:
        """Until when the rows are in every version that replicas may serve."""
        served = self.extra.get(SERVED_END)
        return self.end_time_ms if served is None else int(served) if served.lstrip("-").isdigit() else None

    @property
    def content_id(self) -> str:
        """What servers call the content that is described, of a segment whose content was replaced: no two contents of
        a name have the same. Empty if there has been only one. A record without ranges that was refreshed is of a
        release that does not say whether its content was replaced.
        """
        replaced = self.extra.get(REPLACED, "")
        if not replaced and (self.refresh_time_ms is None or self.column_ranges):
            return ""
        return f"{self.crc} for {replaced or self.refresh_time_ms}"

    def to_record(self) -> ZNRecord:
        simple = {
            **self.extra,
            "segment.name": self.segment_name,
            "segment.table.name": self.table_name_with_type,
            "segment.type": "REALTIME" if self.table_name_with_type.endswith("_REALTIME") else "OFFLINE",
            "segment.crc": str(self.crc),
            "segment.creation.time": str(self.creation_time_ms),
            "segment.index.version": self.index_version,
            "segment.total.docs": str(self.total_docs),
        }
        optional = {
            "segment.data.crc": self.data_crc,
            "segment.download.url": self.download_url or None,
            "segment.push.time": self.push_time_ms,
            "segment.refresh.time": self.refresh_time_ms,
            "segment.size.in.bytes": self.size_bytes,
            "segment.crypter": self.crypter or None,
            "segment.start.time": self.start_time_ms,
            "segment.end.time": self.end_time_ms,
            "segment.start.time.raw": self.start_time_raw or None,
            "segment.end.time.raw": self.end_time_raw or None,
            "segment.time.unit": None if self.end_time_ms is None else "MILLISECONDS",
            "segment.inputs.sha256": None if self.inputs is None else self.inputs.sha256,
            "segment.inputs.count": None if self.inputs is None else self.inputs.num_files,
            "segment.column.ranges": self.column_ranges or None,
            PARTITIONS: None if self.partition_metadata is None else orjson.dumps(self.partition_metadata).decode(),
        }
        simple |= {key: str(value) for key, value in optional.items() if value is not None}
        lists = {} if self.inputs is None else {"segment.inputs": [*self.inputs.uris]}
        return ZNRecord(
            self.segment_name, simple, {"custom.map": dict(self.custom_map)} if self.custom_map else {}, lists
        )

    @staticmethod
    def from_record(record: ZNRecord, table_name_with_type: str) -> SegmentZkMetadata:
        simple = dict(record.simple_fields)
        simple.pop("segment.name", None)
        simple.pop("segment.table.name", None)
        simple.pop("segment.type", None)
        kind = "realtime" if table_name_with_type.endswith("_REALTIME") else "offline"

        def take(key: str, *older: str) -> str:
            values = [simple.pop(name, "") for name in (key, *older)]
            return next((value for value in values if value and value != "null"), "")

        unit_ms = _UNIT_MS.get(take("segment.time.unit").upper(), 1)
        partition_text = take(PARTITIONS)
        partition_metadata = _document(partition_text)
        if partition_text and partition_metadata is None:
            simple[PARTITIONS] = partition_text
        inputs_sha256, num_inputs = take("segment.inputs.sha256"), _number(take("segment.inputs.count"))
        return SegmentZkMetadata(
            segment_name=record.id,
            table_name_with_type=table_name_with_type,
            crc=_number(take("segment.crc")) or 0,
            total_docs=_number(take("segment.total.docs")) or 0,
            creation_time_ms=_number(take("segment.creation.time")) or 0,
            download_url=take("segment.download.url", f"segment.{kind}.download.url"),
            push_time_ms=_number(take("segment.push.time", f"segment.{kind}.push.time")),
            refresh_time_ms=_number(take("segment.refresh.time", f"segment.{kind}.refresh.time")),
            size_bytes=_number(take("segment.size.in.bytes")),
            crypter=take("segment.crypter"),
            start_time_ms=_scaled(take("segment.start.time"), unit_ms),
            end_time_ms=_scaled(take("segment.end.time"), unit_ms),
            start_time_raw=take("segment.start.time.raw"),
            end_time_raw=take("segment.end.time.raw"),
            index_version=take("segment.index.version") or "v3",
            data_crc=_number(take("segment.data.crc")),
            partition_metadata=partition_metadata,
            column_ranges=simple.pop("segment.column.ranges", ""),
            custom_map=dict(record.map_fields.get("custom.map", {})),
            inputs=InputsRecord(inputs_sha256, num_inputs or 0, tuple(record.list_fields.get("segment.inputs", ())))
            if inputs_sha256
            else None,
            extra=simple,
        )


_UNIT_MS = {
    "MILLISECONDS": 1,
    "SECONDS": 1000,
    "MINUTES": 60_000,
    "HOURS": 3_600_000,
    "DAYS": 86_400_000,
}


def _number(text: str) -> int | None:
    """None for absent, unreadable and the reference's "none" values -1 and Long.MIN_VALUE."""
    try:
        value = int(text)
    except ValueError:
        return None
    return None if value in (-1, _LONG_MIN) else value


def _scaled(text: str, unit_ms: int) -> int | None:
    value = _number(text)
    return None if value is None else value * unit_ms


def _document(text: str) -> dict[str, Any] | None:
    try:
        document = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None
