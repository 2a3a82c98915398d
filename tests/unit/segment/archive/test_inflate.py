"""Proves that whatever gunzips here reads what zlib reads, piece by piece, and refuses what zlib refuses."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest

from pinotpy.segment.archive.inflate import GZIP_WINDOW_BITS, INFLATE_ERRORS, Inflater, gunzip

CONTENTS = {
    "nothing": b"",
    "text": b"".join(b"row %d, " % (number * number) for number in range(40_000)),
    "zeros": bytes(3 << 20),
    "noise": random.Random(5).randbytes(500_000),
}


def read(stream: Inflater, packed: bytes, piece: int) -> tuple[bytes, bool, bytes]:
    """Everything that a stream gives, whether it ended, and what lay behind its end."""
    found = []
    for start in range(0, len(packed), piece):
        pending = packed[start : start + piece]
        while pending and not stream.eof:
            found.append(stream.decompress(pending, 10_000))
            assert len(found[-1]) <= 10_000
            pending = stream.unconsumed_tail
        if stream.eof:
            return b"".join(found), True, stream.unused_data
    return b"".join(found), False, b""


@pytest.mark.parametrize("level", [0, 1, 6, 9])
@pytest.mark.parametrize("content", CONTENTS)
def test_streams_are_read_in_bounded_pieces(content: str, level: int) -> None:
    packed = gzip.compress(CONTENTS[content], level)
    for piece in (1_000, 70_000, len(packed) + 1):
        assert read(gunzip(), packed, piece)[:2] == (CONTENTS[content], True)


def test_what_lies_behind_a_stream_is_told() -> None:
    assert read(gunzip(), gzip.compress(b"rows") + b"more", 1_000) == (b"rows", True, b"more")


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_refused_as_zlib_refuses_it(seed: int) -> None:
    chosen = random.Random(seed)
    packed = bytearray(gzip.compress(CONTENTS["text"][:60_000], chosen.choice((1, 6))))
    for _ in range(chosen.randint(1, 3)):
        packed[chosen.randrange(len(packed))] ^= 1 << chosen.randrange(8)
    if seed % 3 == 0:
        del packed[chosen.randrange(len(packed)) :]

    def outcome(stream: Inflater) -> object:
        try:
            content, is_final, _ = read(stream, bytes(packed), 5_000)
            return content if is_final else "truncated"
        except INFLATE_ERRORS:
            return "refused"

    ours, expected = outcome(gunzip()), outcome(zlib.decompressobj(GZIP_WINDOW_BITS))
    # A header that promises more to come reads as truncated in one and as refused in the other: both are no segment.
    assert ours == expected or {str(ours), str(expected)} == {"truncated", "refused"}
