"""Files of given bytes, sniffed and built as `load` does it, and the rows that their segments hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pinotpy.ingest.readers.spec import InputFile
from pinotpy.ingest.sniffing.building import Reading, build_file, new_table
from pinotpy.ingest.sniffing.guess import Wishes
from pinotpy.segment.archive.archive import unpack_segment
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.immutable import open_segment
from pinotpy.segment.to_arrow import column_to_arrow


@dataclass(frozen=True)
class Built:
    """Types by column, rows as the segment has them (times as datetimes in UTC), and how the file was read."""

    types: Mapping[str, str]
    rows: list[dict[str, Any]]
    reading: Reading


def built(folder: Path, content: bytes | str, name: str = "t.csv", reject_share: float = 0.0, **wished: Any) -> Built:
    """Sniff and build a file of this content. Keywords are fields of `Wishes`."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    wishes = Wishes(**wished)
    work_dir = folder / f"work-{name}"
    work_dir.mkdir()
    reading = build_file(
        InputFile(path),
        "t",
        wishes,
        lambda lessons: new_table("t", wishes, lessons),
        work_dir,
        reject_share=reject_share,
    )
    return of_reading(reading, folder / f"unpacked-{name}")


def of_reading(reading: Reading, folder: Path) -> Built:
    """What the segments of a reading hold, unpacked into a folder."""
    types = {column.name: column.type_text for column in reading.sniffed.columns}
    rows = [
        row for number, archive in enumerate(reading.archives) for row in _rows(archive, folder / str(number), types)
    ]
    return Built(types, rows, reading)


def _rows(archive: Path, folder: Path, types: Mapping[str, str]) -> list[dict[str, Any]]:
    unpacked = unpack_segment(archive, folder)
    segment = open_segment(FileDirectory(unpacked))
    try:
        columns = {name: column_to_arrow(segment.column(name)).to_pylist() for name in types}
    finally:
        segment.close()
    for name, kind in types.items():
        if kind == "TIMESTAMP":
            columns[name] = [None if value is None else _time(value) for value in columns[name]]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _time(millis: Any) -> datetime:
    if isinstance(millis, datetime):
        return millis.replace(tzinfo=UTC)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
