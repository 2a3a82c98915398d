"""One node for all jobs of a kind, as Pinot keeps them (PROPERTYSTORE/CONTROLLER_JOBS/<kind>, job id → texts).

The newest JOBS_KEPT_MAX are kept, each for AGE_MAX_MS, and fewer where their texts are long: a node may have a
megabyte.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore
from pinotpy.errors import NodeExistsError, NoNodeError, StaleVersionError

JOBS_KEPT_MAX: Final = 100
JOBS_CHARS_MAX: Final = 512 << 10
AGE_MAX_MS: Final = 7 * 86_400_000
SUBMITTED_MS: Final = "submissionTimeMs"
_ATTEMPTS_MAX: Final = 12
_PAUSE_S_MAX: Final = 0.05

Jobs = dict[str, dict[str, str]]


class JobNode:
    """Reads and changes the node. Safe to use from several threads and controllers: every write names the version it
    read.
    """

    def __init__(self, store: ClusterStore, path: str, pause: Callable[[float], None] = time.sleep) -> None:
        self._store, self._path, self._pause = store, path, pause
        self._kind = path.rpartition("/")[2]

    def all(self, now_ms: int) -> Jobs:
        """Job id → texts, oldest first; those whose time is up are left out."""
        return _sorted(self._read()[0], now_ms)

    def change(self, change: Callable[[Jobs], Jobs], now_ms: int) -> None:
        """Write what `change` makes of the jobs. Doing it twice must do it once: an outcome may be unknown.

        Raises: ConnectionLostError; StaleVersionError after _ATTEMPTS_MAX writes of others in between.
        """
        for attempt in range(1, _ATTEMPTS_MAX + 1):
            jobs, version = self._read()
            data = ZNRecord(self._kind, {}, _newest(_sorted(change(jobs), now_ms))).to_bytes()
            try:
                if version is None:
                    self._store.create(self._path, data, make_parents=True)
                else:
                    self._store.set(self._path, data, version)
            except (StaleVersionError, NodeExistsError, NoNodeError):
                if attempt < _ATTEMPTS_MAX:
                    self._pause(random.uniform(0, _PAUSE_S_MAX))
                continue
            return
        raise StaleVersionError(
            f"the record of jobs {self._kind} was changed by others {_ATTEMPTS_MAX} times in a row: try again"
        )

    def _read(self) -> tuple[Jobs, int | None]:
        try:
            data, stat = self._store.get(self._path)
        except NoNodeError:
            return {}, None
        return (ZNRecord.from_bytes(data, self._path).map_fields if data else {}), stat.version


def number_of(text: str) -> int:
    """Numbers that cannot be read are 0: such a record is too old to be kept."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def _submitted_ms(fields: dict[str, str]) -> int:
    return number_of(fields.get(SUBMITTED_MS, ""))


def _sorted(jobs: Jobs, now_ms: int) -> Jobs:
    ordered = sorted(jobs.items(), key=lambda job: (_submitted_ms(job[1]), job[0]))
    return {job_id: fields for job_id, fields in ordered if now_ms - _submitted_ms(fields) <= AGE_MAX_MS}


def _newest(jobs: Jobs) -> Jobs:
    kept: list[str] = []
    num_chars = 0
    for job_id in list(reversed(jobs))[:JOBS_KEPT_MAX]:
        num_chars += sum(map(len, jobs[job_id].values()))
        if kept and num_chars > JOBS_CHARS_MAX:
            break
        kept.append(job_id)
    return {job_id: jobs[job_id] for job_id in reversed(kept)}
