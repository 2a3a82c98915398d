"""Proves what the query log keeps, shows and writes: masked and cut texts, slow queries apart, files that rotate and
that only their owner reads, and records that are dropped and counted where the writer cannot keep up.
"""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinotpy.broker.query_log import BATCH_MAX, QueryLog, QueryRecord, TextRules
from pinotpy.broker.rotating_file import RotatingFile
from pinotpy.config.settings import BrokerSettings, load_settings
from pinotpy.pql.ast import Dialect

TOKEN = "pt_0123456789abcdef_" + "x" * 43


def record(text: str = "SELECT 1", took_ms: float = 1.0) -> QueryRecord:
    return QueryRecord(
        5, "b_1", "ann", Dialect.SQL, text, ("t",), took_ms, 1, 10, "OK", None, 1, 1, 2, 0, 1, 1, 1, 3, 9, 0, 3, 0.5
    )


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("rules", "text", "shown"),
    [
        (TextRules(), "SELECT a FROM t WHERE b = 'Bob'", "SELECT a FROM t WHERE b = 'Bob'"),
        (TextRules(masks=True), "SELECT a FROM t WHERE b = 'Bob'", "SELECT a FROM t WHERE b = ?"),
        (TextRules(), f"SELECT '{TOKEN}', password = 'secret1' FROM t", "SELECT '***', password = '***' FROM t"),
        (TextRules(length=20), "SELECT a FROM t WHERE b = 1", "SELECT a FROM t WH …"),
        (TextRules(), "SELECT '\ud800'", "SELECT '?'"),
    ],
)
def test_how_texts_are_shown(rules: TextRules, text: str, shown: str) -> None:
    assert rules.shown(text, Dialect.SQL) == shown


def test_a_long_text_is_masked_as_far_as_it_is_kept() -> None:
    log = QueryLog(rules=TextRules(length=100_000, masks=True))
    kept = log.kept(f"SELECT a FROM t WHERE b = '{'x' * 100_000}'")
    assert log.rules.shown(kept, Dialect.SQL) == "SELECT a FROM t WHERE b = …"


def test_the_last_queries_are_kept_and_no_more() -> None:
    log = QueryLog(recent_max=2)
    for text in ("one", "two", "three"):
        log.add(record(text))
    assert [one.text for one in log.recent()] == ["two", "three"]


def test_the_file_has_every_query_and_another_one_the_slow(tmp_path: Path) -> None:
    overrides = {"query_log_file": tmp_path / "logs" / "queries.jsonl", "query_log_slow_ms": 100}
    log = QueryLog.of(load_settings(BrokerSettings, overrides=overrides, environment={}), lambda count: None)
    log.start()
    for took_ms in (1.0, 250.0, 2.0):
        log.add(record(f"SELECT {took_ms}", took_ms))
    log.stop()
    every, slow = (lines_of(tmp_path / "logs" / name) for name in ("queries.jsonl", "queries-slow.jsonl"))
    assert [(line["took_ms"], line["is_slow"]) for line in every] == [(1.0, False), (250.0, True), (2.0, False)]
    assert slow == [every[1]] and slow[0]["query"] == "SELECT 250.0" and slow[0]["user_name"] == "ann"
    assert stat.S_IMODE((tmp_path / "logs" / "queries.jsonl").stat().st_mode) == 0o600


def test_a_file_goes_on_after_a_restart_and_rotates_at_its_size(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    for start in (0, 50):
        file = RotatingFile(path, 1_000, 3)
        file.open()
        for number in range(start, start + 50):
            file.write([b'{"n": %d}\n' % number, b"%s\n" % (b'"' + b"x" * 40 + b'"')])
        file.close()
    names = sorted(one.name for one in tmp_path.iterdir())
    assert names == ["q.jsonl", "q.jsonl.1", "q.jsonl.2"]
    assert all(one.stat().st_size <= 1_000 for one in tmp_path.iterdir())
    kept = [line["n"] for name in reversed(names) for line in lines_of(tmp_path / name) if isinstance(line, dict)]
    assert kept == list(range(100 - len(kept), 100)) and len(kept) > 30


def test_a_line_longer_than_a_file_has_one_for_itself(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "q", 100, 2)
    file.open()
    file.write([b"a\n", b"x" * 300 + b"\n", b"b\n"])
    file.close()
    assert ((tmp_path / "q").read_text(), len((tmp_path / "q.1").read_text())) == ("b\n", 301)


class _StuckFile(RotatingFile):
    """A disk that is full until it is not."""

    is_full = True

    def write(self, lines: Any) -> None:
        if self.is_full and lines:
            raise OSError(28, "No space left on device")
        super().write(lines)


def test_what_cannot_be_written_is_counted_and_the_file_says_so_afterwards(
    tmp_path: Path, eventually: Callable[..., Any]
) -> None:
    counts: list[int] = []
    file, slow = _StuckFile(tmp_path / "q", 10_000, 2), RotatingFile(tmp_path / "s", 10_000, 2)
    log = QueryLog(file=file, slow_file=slow, on_drop=counts.append)
    log.start()
    log.add(record("lost"))
    eventually(lambda: counts == [1])
    file.is_full = False
    log.add(record("SELECT 2"))
    log.stop()
    told, line = lines_of(tmp_path / "q")
    assert (told, line["query"]) == ({"dropped": 1}, "SELECT 2")


class _SlowFile(RotatingFile):
    """A disk that hangs until it is told to go on."""

    goes_on = threading.Event()

    def write(self, lines: Any) -> None:
        self.goes_on.wait(60)
        super().write(lines)


def test_queries_never_wait_for_a_disk_that_hangs_and_every_record_is_written_or_counted(tmp_path: Path) -> None:
    counts: list[int] = []
    file, slow = _SlowFile(tmp_path / "q", 10 << 20, 2), RotatingFile(tmp_path / "s", 10_000, 2)
    log = QueryLog(file=file, slow_file=slow, on_drop=counts.append, waiting_max=2)
    log.start()
    for _ in range(2_000):
        log.add(record())
    assert sum(counts) >= 2_000 - BATCH_MAX - 2 and len(log.recent()) == 1_000
    file.goes_on.set()
    log.stop()
    lines = lines_of(tmp_path / "q")
    assert sum("query" in line for line in lines) + sum(counts) == 2_000
    assert sum(line.get("dropped", 0) for line in lines) == sum(counts)
