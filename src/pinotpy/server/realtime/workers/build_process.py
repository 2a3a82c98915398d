"""A process that builds one segment of rows in shared memory, and ends: reading goes on meanwhile, with an interpreter
and processor of its own, and what a build took goes back to the system.
"""

from __future__ import annotations

import os
import pickle
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from pinotpy.errors import PinotError
from pinotpy.memory.c_library import give_large_blocks_back
from pinotpy.server.realtime.ingest_worker import PartitionSpec
from pinotpy.server.realtime.segment_build import build_of_chunks
from pinotpy.server.realtime.workers.channel import Channel, send_json
from pinotpy.server.realtime.workers.shared_chunks import SharedChunk, mapped_chunks

# Rows and queries are waited for, a segment that ended is not.
_NICENESS: Final = 5


def run(channel: Channel) -> None:
    """Take `("chunk", place)` with its descriptor for each chunk, then `("build", arguments of _build)`."""
    os.nice(_NICENESS)
    give_large_blocks_back()
    chunks: list[SharedChunk] = []
    while (received := channel.receive()) is not None:
        content, descriptor = received
        name, *arguments = pickle.loads(content)  # noqa: S301 (of the process that started this one)
        if name == "chunk":
            assert descriptor is not None
            chunks.append((arguments[0], descriptor))
        else:
            threading.Thread(target=_leave_with, args=(channel,), daemon=True).start()
            _build(channel, chunks, *arguments)
            return


def _leave_with(channel: Channel) -> None:
    """With its server, in the middle of whatever it does."""
    with suppress(OSError):
        channel.receive()
    os._exit(1)


def _build(
    channel: Channel,
    shared: list[SharedChunk],
    spec: PartitionSpec,
    offset_dtype: np.dtype[Any],
    rows: tuple[int, int],
    folder: Path,
    name: str,
    creation_time_ms: int,
) -> None:
    try:
        chunks = mapped_chunks(spec, offset_dtype, shared)
        built = build_of_chunks(spec, chunks, rows, folder, name, creation_time_ms)
    except Exception as error:
        reason = error.message if isinstance(error, PinotError) else f"{type(error).__name__}: {error}"
        send_json(channel, kind="failed", reason=reason)
    else:
        send_json(channel, kind="built", **{**asdict(built), "directory": str(built.directory)})
