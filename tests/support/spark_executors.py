"""What jobs ask of a Spark session, done in this process: tasks one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa


class Executors:
    """What a push asks of a Spark session, done here; `before` is called before the first share."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.before, self.num_shares = before, 0
        self._run: Callable[..., Any] = lambda batches: iter(())

    def range(self, start: int, end: int, step: int, partitions: int) -> Executors:
        assert (start, step, partitions) == (0, 1, end)
        self.num_shares = end
        return self

    def mapInArrow(self, run: Callable[..., Any], ddl: str) -> Executors:
        self._run = run
        return self

    def collect(self) -> list[dict[str, str]]:
        self.before()
        shares = [pa.RecordBatch.from_pydict({"id": [number]}) for number in range(self.num_shares)]
        return [row for share in shares for batch in self._run(iter([share])) for row in batch.to_pylist()]
