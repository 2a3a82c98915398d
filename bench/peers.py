"""Peers to compare with: DuckDB, chdb and polars from PyPI (the extra `bench`), each in a process of its own
(bench.peer_engines).
"""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from bench.suites import Query, Suite
from bench.suites.query import Parameters

ENGINES: Final = ("duckdb_enum", "duckdb_varchar", "chdb", "polars")
LOAD_TIMEOUT_S: Final = 1_800.0
ANSWER_TIMEOUT_S: Final = 600.0


class Peer:
    """One engine with one table, in a process that ends with this one."""

    def __init__(self, engine: str, table: str, rows: int, data_dir: Path) -> None:
        require(engine.partition("_")[0])
        self.engine = engine
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.peer_engines", engine, table, str(rows), str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "POLARS_MAX_THREADS": "2"},
        )
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self.facts: dict[str, Any] = self._line(LOAD_TIMEOUT_S)

    def ask(
        self, suite: Suite, query: Query, parameters: Parameters, *, trial: bool = False
    ) -> tuple[float, list[list[Any]]]:
        """Milliseconds inside of the engine, and rows. SystemExit if it fails."""
        assert self._process.stdin is not None
        print(
            json.dumps({"suite": suite.name, "query": query.name, "parameters": parameters, "trial": trial}),
            file=self._process.stdin,
            flush=True,
        )
        answer = self._line(ANSWER_TIMEOUT_S)
        if "error" in answer:
            raise SystemExit(f"{query.name}: {self.engine} failed: {answer['error']}")
        return answer["ms"], answer["rows"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    def _line(self, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        # One answer a request: nothing is left in the buffer that select does not see.
        if not self._selector.select(timeout_s):
            self._process.kill()
            raise SystemExit(f"{self.engine} gave no answer within {timeout_s} s")
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.engine} ended with status {self._process.wait(10)}; its last words are above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def can_answer(engine: str, query: Query) -> bool:
    return engine != "polars" or query.polars is not None


def require(module: str) -> None:
    """SystemExit that says what to install if a peer is not there."""
    if importlib.util.find_spec(module) is None:
        raise SystemExit(f"{module} is not installed: pip install -e '.[bench]', or leave it out with --peers")
