"""Proves hashes and encodings against hashlib, and MurmurHash2 against recorded answers and the function that
partitions rows.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.segment.partition import murmur2

BYTES, STRING = DataType.BYTES, DataType.STRING
DATA = [b"", b"a", b"123", "日本語".encode(), bytes(range(256))]


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("md5", "md5"), ("sha", "sha1"), ("sha224", "sha224"), ("sha256", "sha256"), ("sha512", "sha512")],
)
def test_digests(call: Any, name: str, algorithm: str) -> None:
    assert call(name, (BYTES, DATA)) == [hashlib.new(algorithm, data).hexdigest() for data in DATA]


def test_md5_as_bytes(call: Any) -> None:
    assert call("md5_raw", (BYTES, DATA)) == [hashlib.md5(data).digest() for data in DATA]


def test_murmur_hash_is_kafkas(call: Any) -> None:
    assert call("murmurHash2", (BYTES, [b"123", "日本語".encode(), b"-4.5"])) == [
        -267702483,
        1431860170,
        1309573849,
    ]  # recorded
    assert call("murmurHash2UTF8", (STRING, ["123", "日本語", "-4.5"])) == [-267702483, 1431860170, 1309573849]
    assert [value % 2**32 for value in call("murmurHash2", (BYTES, DATA))] == [murmur2(data) for data in DATA]


def test_checksums_are_java_ints(call: Any) -> None:
    assert call("crc32", (BYTES, [b"123456789"])) == [0xCBF43926 - 2**32]  # the check value of CRC-32
    assert call("adler32", (BYTES, [b"Wikipedia"])) == [0x11E60398]


def test_encodings_come_back(call: Any) -> None:
    assert call("fromBase64", (STRING, call("toBase64", (BYTES, DATA)))) == DATA
    assert call("hexToBytes", (STRING, call("bytesToHex", (BYTES, DATA)))) == DATA
    texts = ["a b&c=d/é", "~*-._", "😀"]
    assert call("decodeUrl", (STRING, call("encodeUrl", (STRING, texts)))) == texts
    assert call("encodeUrl", (STRING, texts[:2])) == ["a+b%26c%3Dd%2F%C3%A9", "%7E*-._"]  # java.net.URLEncoder


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fromBase64", "a"),
        ("fromBase64", "é==="),
        ("hexToBytes", "abc"),
        ("hexToBytes", "zz"),
        ("hexToBytes", "a b c d"),
        ("decodeUrl", "%ff"),
    ],
)
def test_text_that_is_no_such_encoding_is_refused(call: Any, name: str, text: str) -> None:
    with pytest.raises(QueryExecutionError):
        call(name, (STRING, [text]))
