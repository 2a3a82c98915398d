"""A topic: one SQLite file, with a row for each partition and a row for each record.

Offsets of a partition are whole numbers from 0 on; `next_offset` is the one that the next record gets, also after old
records were deleted.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pinotpy.clock import Clock
from pinotpy.errors import AlreadyExistsError, NotFoundError
from pinotpy.stream.spec import StreamLayer, StreamUnavailableError

_TABLES = """
CREATE TABLE partitions (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE records (
    partition INTEGER NOT NULL, offset INTEGER NOT NULL, time_ms INTEGER NOT NULL, key BLOB, payload BLOB,
    PRIMARY KEY (partition, offset)
) WITHOUT ROWID;
CREATE INDEX records_by_time ON records (partition, time_ms);
"""


def create_topic(path: Path, num_partitions: int) -> None:
    """Make an empty topic. Raises AlreadyExistsError."""
    if path.exists():
        raise AlreadyExistsError(f"there is a topic '{path.name}' already")
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(_TABLES)
    connection.executemany("INSERT INTO partitions VALUES (?, 0)", [(number,) for number in range(num_partitions)])
    connection.commit()
    connection.close()


@contextmanager
def reading(path: Path, timeout_s: float) -> Iterator[sqlite3.Connection]:
    """A connection that sees one state of the topic; waits `timeout_s` for a producer that is writing.

    Raises, as the door asks: NotFoundError if there is no such topic, StreamUnavailableError by layer.
    """
    if not path.is_file():
        raise NotFoundError(f"there is no topic '{path.stem}' in the folder '{path.parent.name}'")
    connection = None
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", timeout=timeout_s, uri=True)
        connection.execute("BEGIN")
        yield connection
    except sqlite3.OperationalError as error:  # busy, or not to be opened
        raise StreamUnavailableError(f"the topic '{path.stem}': {error}", layer=StreamLayer.FETCH) from error
    except sqlite3.DatabaseError as error:
        raise StreamUnavailableError(
            f"the topic '{path.stem}' is no SQLite file, or damaged: {error}",
            layer=StreamLayer.TOPIC,
            is_transient=False,
        ) from error
    finally:
        if connection is not None:
            connection.close()


def end_offset(connection: sqlite3.Connection, partition: int) -> int:
    """The offset that the next record will have. Raises NotFoundError if there is no such partition."""
    found = connection.execute("SELECT next_offset FROM partitions WHERE partition = ?", (partition,)).fetchone()
    if found is None:
        raise NotFoundError(f"the topic has no partition {partition}")
    return int(found[0])


def earliest_offset(connection: sqlite3.Connection, partition: int) -> int:
    """The first record that is still there; the end if there is none."""
    end = end_offset(connection, partition)
    (first,) = connection.execute("SELECT MIN(offset) FROM records WHERE partition = ?", (partition,)).fetchone()
    return end if first is None else int(first)


class SqliteProducer:
    """Appends to a topic; implements StreamProducer. For tests: whatever writes SQLite may be the producer."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._clock = clock
        self._lock = threading.Lock()

    def append(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        # One transaction: a reader sees all of these records or none.
        with self._lock, self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            first, time_ms = end_offset(self._connection, partition), self._clock.now_ms()
            rows = [(partition, first + number, time_ms, *record) for number, record in enumerate(records)]
            self._connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", rows)
            self._connection.execute(
                "UPDATE partitions SET next_offset = ? WHERE partition = ?", (first + len(rows), partition)
            )
            return first + len(rows)

    def close(self) -> None:
        self._connection.close()
