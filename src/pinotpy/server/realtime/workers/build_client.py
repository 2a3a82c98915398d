"""Builds segments in processes that are forked for it."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from pinotpy.errors import DataError, RemoteError
from pinotpy.failpoints import FailPoint, reach
from pinotpy.server.realtime.ingest_worker import BuiltSegment, PartitionSpec
from pinotpy.server.realtime.workers.fork_server import ForkedProcess, ForkServer
from pinotpy.server.realtime.workers.shared_chunks import SharedChunk

log = logging.getLogger(__name__)

BUILD_TIMEOUT_S: Final = 1_800.0
_TRIES: Final = 3


def build_in_process(
    fork_server: ForkServer,
    spec: PartitionSpec,
    offset_dtype: np.dtype[Any],
    chunks: Sequence[SharedChunk],
    rows: tuple[int, int],
    folder: Path,
    name: str,
    creation_time_ms: int,
) -> BuiltSegment:
    """Build `folder/<name>`; returns when it is there.

    Raises RemoteError with the reason why it could not be built.
    """
    ended: list[str] = []
    call = ("build", spec, offset_dtype, rows, folder, name, creation_time_ms)
    for attempt in range(_TRIES):
        if attempt:
            shutil.rmtree(folder, ignore_errors=True)  # what a process that ended left behind is in the way
        try:
            process = fork_server.fork("build")
        except OSError as error:
            ended.append(str(error))
            continue
        answer = None
        try:
            process.channel.limit_waits(BUILD_TIMEOUT_S)
            for place, descriptor in chunks:
                process.channel.send(pickle.dumps(("chunk", place)), descriptor)
            process.channel.send(pickle.dumps(call))
            reach(FailPoint.BUILDING)
            answer = _answer(process)
        except TimeoutError:
            raise RemoteError(f"segment '{name}' was not built in {BUILD_TIMEOUT_S:.0f} s") from None
        except (OSError, DataError) as error:
            ended.append(str(error))
        finally:
            status = process.end()
        if answer is None:
            ended.append(f"its process ended with status {status}")
            log.warning("segment is built again name=%s reason=%s", name, ended[-1])
        elif answer.pop("kind") == "built":
            return BuiltSegment(**{**answer, "directory": Path(answer["directory"])})
        else:
            raise RemoteError(answer["reason"])
    raise RemoteError(f"segment '{name}' could not be built in {_TRIES} tries: {'; '.join(ended)}")


def _answer(process: ForkedProcess) -> dict[str, Any] | None:
    while (received := process.channel.receive()) is not None:
        message: dict[str, Any] = json.loads(received[0])
        if message["kind"] != "log":
            return message
        logging.getLogger(message["name"]).log(message["level"], "%s", message["message"])
    return None
