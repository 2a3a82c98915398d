"""Where chunks of consuming segments lie: on the heap, or in anonymous files that other processes can map.

An anonymous file (memfd_create) has no name, needs no /dev/shm (64 MB in a container) and goes with its last map or
descriptor, however the processes end. Pages that nobody wrote to take no memory.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import DataError


class ChunkMemory(Protocol):
    """Gives blocks of memory. A block is freed with the last array that refers to it."""

    def allocate(self, size_bytes: int, name: str) -> NDArray[np.uint8]:
        """Zeroed bytes, shape (size_bytes,), beginning at a multiple of 64. `name` is for tools that show maps.

        Raises MemoryError or OSError if the system has no more.
        """
        ...


class HeapMemory:
    """Blocks of this process alone."""

    def allocate(self, size_bytes: int, name: str) -> NDArray[np.uint8]:
        space = np.zeros(size_bytes + 64, np.uint8)
        begin = -space.ctypes.data % 64
        return space[begin : begin + size_bytes]


class SharedMemory:
    """Blocks in anonymous files; their size is sealed, so that no process can cut them under another one's reads.

    Args:
        on_block: called with each block's descriptor, which is closed afterwards: to send it to another process.
    """

    def __init__(self, on_block: Callable[[int], None] = lambda descriptor: None) -> None:
        self._on_block = on_block

    def allocate(self, size_bytes: int, name: str) -> NDArray[np.uint8]:
        descriptor = os.memfd_create(f"pinotpy-{name}"[:200], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, size_bytes)
            seal_size(descriptor)
            block = map_block(descriptor, size_bytes)
            self._on_block(descriptor)
            return block
        finally:
            os.close(descriptor)


class GivenMemory:
    """A block that is there already."""

    def __init__(self, block: NDArray[np.uint8]) -> None:
        self._block = block

    def allocate(self, size_bytes: int, name: str) -> NDArray[np.uint8]:
        if len(self._block) != size_bytes:
            raise DataError(f"the block of '{name}' has {len(self._block)} bytes, expected {size_bytes}")
        return self._block


def seal_size(descriptor: int) -> None:
    """Nobody can make the file of `descriptor` shorter or longer from now on."""
    import fcntl

    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)


def map_block(descriptor: int, size_bytes: int) -> NDArray[np.uint8]:
    """The bytes of an anonymous file; the descriptor may be closed afterwards."""
    return np.frombuffer(mmap.mmap(descriptor, size_bytes), np.uint8)
