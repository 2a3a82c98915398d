"""Proves that what several threads compress is one ordinary gzip member, with the same bytes for any number of
threads.
"""

from __future__ import annotations

import gzip
import io
import random
import zlib

import pytest

from pinotpy.segment.archive.gzip_stream import BLOCK_BYTES, GzipStream
from pinotpy.segment.archive.inflate import gunzip


def _packed(pieces: list[bytes], threads: int) -> bytes:
    out = io.BytesIO()
    with GzipStream(out, 1, threads) as stream:
        for piece in pieces:
            stream.write(piece)
    return out.getvalue()


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES + 17])
def test_the_stream_is_one_member_that_anybody_unpacks(size: int) -> None:
    content = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
    packed = _packed([content], 3)
    assert gzip.decompress(packed) == content
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    assert inflate.decompress(packed) + inflate.flush() == content
    assert inflate.eof and not inflate.unused_data


def test_bytes_depend_neither_on_threads_nor_on_the_pieces_written() -> None:
    content = random.Random(7).randbytes(3 * BLOCK_BYTES // 2) * 2
    pieces = [content[at : at + 70_001] for at in range(0, len(content), 70_001)]
    assert len({_packed([content], 1), _packed([content], 4), _packed(pieces, 2)}) == 1


def test_a_failed_write_leaves_no_thread_and_no_trailer() -> None:
    out = io.BytesIO()
    with pytest.raises(KeyError), GzipStream(out, 1, 2) as stream:
        stream.write(bytes(4 * BLOCK_BYTES))
        raise KeyError("of the writer")
    with pytest.raises(EOFError):
        gzip.decompress(out.getvalue())


@pytest.mark.parametrize("size", [1, 65_535, 65_536, BLOCK_BYTES, 2 * BLOCK_BYTES, 2 * BLOCK_BYTES + 65_536])
def test_blocks_that_hardly_shrink_are_stored_as_they_are(size: int) -> None:
    content = random.Random(size).randbytes(size)
    packed = _packed([content], 2)
    assert len(packed) <= size + 5 * (size // 65_535 + 3) + 18
    # A stored block says so in its first three bits; the first one has up to 65,535 bytes.
    assert packed[10] & 0b110 == 0 and content[: min(size, 65_535)] in packed
    assert gzip.decompress(packed) == content
    inflate = gunzip()
    plain = inflate.decompress(packed, size + 1)
    assert plain == content and inflate.eof and not inflate.unused_data


def test_blocks_that_shrink_by_more_than_a_tenth_are_compressed() -> None:
    longs = bytearray(random.Random(7).randbytes(BLOCK_BYTES))
    longs[6::8] = longs[7::8] = bytes(BLOCK_BYTES // 8)
    packed = _packed([bytes(longs)], 1)
    assert len(packed) < 0.9 * len(longs) and gzip.decompress(packed) == longs
