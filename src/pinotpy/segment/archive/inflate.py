"""gunzip in pieces: by ISA-L where its package is installed, else by zlib. This is the one file that knows which.

Both read the same streams and refuse the same ones; ISA-L takes half the time, which is most of what an upload costs a
controller.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any, Final, Protocol

GZIP_WINDOW_BITS: Final = zlib.MAX_WBITS | 16


class Inflater(Protocol):
    """What `zlib.decompressobj` gives."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _found() -> tuple[Callable[[int], Inflater], tuple[type[Exception], ...]]:
    try:
        isal_zlib: Any = importlib.import_module("isal.isal_zlib")
    except ImportError:  # no build of it for this machine
        return zlib.decompressobj, (zlib.error,)
    return isal_zlib.decompressobj, (isal_zlib.error, zlib.error)


_make, INFLATE_ERRORS = _found()


def gunzip() -> Inflater:
    """A new stream; its `decompress` raises one of INFLATE_ERRORS for bytes that are no gzip."""
    return _make(GZIP_WINDOW_BITS)
