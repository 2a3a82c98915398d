"""The list of a segment's input files: bytes that read back equal, and everything else refused by name."""

from __future__ import annotations

import hashlib

import orjson
import pytest

from pinotpy.errors import SegmentCorruptError
from pinotpy.segment.input_list import InputList, SegmentInput

ONE = SegmentInput("file:///data/a.csv", 1024, "crc32c:0a1b2c3d", 17)
TWO = SegmentInput("s3://bucket/b.csv", -1, "", 0)


def test_a_list_reads_back_equal_and_in_order_of_uris() -> None:
    listed = InputList.of([TWO, ONE])
    assert listed.files == (ONE, TWO)
    assert InputList.from_bytes(listed.to_bytes(), "x") == listed
    assert listed.digest == hashlib.sha256(InputList.of([ONE, TWO]).to_bytes()).hexdigest()


def test_the_bytes_are_as_documented() -> None:
    document = orjson.loads(InputList.of([ONE]).to_bytes())
    assert document == {
        "version": 1,
        "files": [{"uri": "file:///data/a.csv", "sizeInBytes": 1024, "checksum": "crc32c:0a1b2c3d", "rows": 17}],
    }


def test_content_is_known_with_a_checksum_only() -> None:
    assert ONE.content == (1024, "crc32c:0a1b2c3d")
    assert TWO.content is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 2, "files": []}',
        b'{"version": 1, "files": {}, "x": 1',
        b'{"version": 1, "files": [{"uri": "a"}]}',
        b'{"version": 1, "files": [{"uri": 1, "sizeInBytes": 1, "checksum": "", "rows": 1}]}',
        b'{"version": 1, "files": [{"uri": "a", "sizeInBytes": 1, "checksum": "", "rows": -1}]}',
        b'{"version": 1, "files": [{"uri": "b", "sizeInBytes": 1, "checksum": "", "rows": 1}, {"uri": "a", '
        b'"sizeInBytes": 1, "checksum": "", "rows": 1}]}',
        b'{"version": 1, "files": [{"uri": "a", "sizeInBytes": 1, "checksum": "", "rows": 1}, {"uri": "a", '
        b'"sizeInBytes": 1, "checksum": "", "rows": 1}]}',
    ],
)
def test_anything_else_is_refused_with_the_file_s_name(data: bytes) -> None:
    with pytest.raises(SegmentCorruptError, match=r"x\.inputs\.json"):
        InputList.from_bytes(data, "x.inputs.json")
