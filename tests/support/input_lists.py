"""Lists of input files for tests, as jobs write them beside the archives."""

from __future__ import annotations

from pathlib import Path

from pinotpy.fs.uris import file_uri
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.input_list import INPUT_LIST_SUFFIX, InputList, SegmentInput


def list_of(*files: Path, rows: int = 3) -> InputList:
    """The list of a segment that has `rows` rows of each file, all that it has."""
    found = []
    for file in files:
        data = file.read_bytes()
        found.append(SegmentInput(file_uri(file), len(data), f"crc32c:{crc32c(data):08x}", rows, rows))
    return InputList.of(found)


def write_list(archive: Path, inputs: InputList) -> Path:
    """Put a list beside an archive, or beside a segment's folder."""
    place = archive.with_name(archive.name.removesuffix(".tar.gz") + INPUT_LIST_SUFFIX)
    place.write_bytes(inputs.to_bytes())
    return place
