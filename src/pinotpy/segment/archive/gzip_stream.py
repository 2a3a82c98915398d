"""gzip on several threads: one ordinary gzip member, its blocks compressed independently (as pigz does it).

Equal bytes give equal output with any number of threads: the blocks are cut by size alone. A block does not know the
one before it, which costs a window of 32 KiB every BLOCK_BYTES: nothing that could be measured. A block that hardly
shrinks (packed ids, doubles) is stored as it is: unpacking it would take as long as unpacking any other, at every
server and every controller, for next to nothing.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, BinaryIO, Final

BLOCK_BYTES: Final = 1 << 20
# A block that compression leaves with more of its bytes than this is stored.
STORED_FROM_SHARE: Final = 0.9
_STORED_MAX_BYTES: Final = 0xFFFF  # of one stored block of deflate
# Deflate, no name, no time, no system.
_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


class GzipStream:
    """A file to write to; what is written goes compressed to `out`. Complete only after `close`."""

    def __init__(self, out: BinaryIO, level: int, threads: int) -> None:
        self._out = out
        self._level = level
        self._depth = threads + 1
        self._pool = ThreadPoolExecutor(threads, "gzip")
        self._waiting: deque[Future[bytes]] = deque()
        self._pending = bytearray()
        self._crc = 0
        self._size = 0
        out.write(_HEADER)

    def write(self, piece: Any) -> None:
        """Append bytes, given as any buffer."""
        view = memoryview(piece).cast("B")
        self._crc, self._size = zlib.crc32(view, self._crc), self._size + len(view)
        self._pending += view
        while len(self._pending) > BLOCK_BYTES:
            self._submit(bytes(self._pending[:BLOCK_BYTES]), last=False)
            del self._pending[:BLOCK_BYTES]

    def close(self) -> None:
        """Write what is left and the trailer; `out` stays open."""
        self._submit(bytes(self._pending), last=True)
        while self._waiting:
            self._out.write(self._waiting.popleft().result())
        self._out.write(struct.pack("<II", self._crc, self._size & 0xFFFFFFFF))

    def __enter__(self) -> GzipStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def _submit(self, block: bytes, *, last: bool) -> None:
        self._waiting.append(self._pool.submit(_compress, block, self._level, last))
        if len(self._waiting) > self._depth:
            self._out.write(self._waiting.popleft().result())


def _compress(block: bytes, level: int, last: bool) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    # A full flush ends at a byte and refers to nothing before: the next block's output can follow.
    packed = deflate.compress(block) + deflate.flush(zlib.Z_FINISH if last else zlib.Z_FULL_FLUSH)
    return _stored(block, last) if len(packed) > STORED_FROM_SHARE * len(block) and block else packed


def _stored(block: bytes, last: bool) -> bytes:
    """Deflate's own form of bytes that are not compressed; it begins and ends at a byte."""
    pieces: list[bytes] = []
    for start in range(0, len(block), _STORED_MAX_BYTES):
        piece = block[start : start + _STORED_MAX_BYTES]
        is_end = last and start + len(piece) == len(block)
        pieces += (struct.pack("<BHH", is_end, len(piece), len(piece) ^ 0xFFFF), piece)
    return b"".join(pieces)
