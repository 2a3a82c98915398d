"""The peers, each as it is asked in a process of its own: `python -m bench.peer_engines ENGINE TABLE ROWS DATA_DIR`.

Every engine has two threads and its best native format: DuckDB a database file of its own (once with VARCHAR, once with
ENUM columns), chdb a MergeTree in the order of the data, merged to one part, with LowCardinality texts, polars a frame
in memory with Enum columns, whole numbers that are added up in 64 bits. Requests and answers are lines of JSON; the
time is taken inside, from the text to the rows in the engine's own form. Making them JSON is not counted.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from bench.suites import SUITES, Query
from bench.suites.query import Parameters
from bench.tables import TABLES
from bench.tables.table import Table

THREADS = 2
Rows = list[list[Any]]


class Engine(Protocol):
    """One loaded peer. `ask` gives milliseconds and rows; `trial` marks a run that is not timed."""

    size_bytes: int
    version: str

    def ask(self, query: Query, parameters: Parameters, trial: bool) -> tuple[float, Rows]: ...


class DuckDb:
    """DuckDB over a file of its own."""

    def __init__(self, table: Table, files: list[Path], folder: Path, *, enums: bool) -> None:
        import duckdb

        path = folder / f"duckdb-{version('duckdb')}-{'enum' if enums else 'varchar'}.db"
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            with duckdb.connect(str(partial)) as connection:
                connection.execute(f"SET threads = {THREADS}")
                _fill_duckdb(connection, table, files, enums=enums)
            os.replace(partial, path)
        self.version = version("duckdb")
        self.size_bytes = path.stat().st_size
        self._connection = duckdb.connect(str(path), read_only=True)
        self._connection.execute(f"SET threads = {THREADS}")

    def ask(self, query: Query, parameters: Parameters, trial: bool) -> tuple[float, Rows]:
        text = query.sql.format(**parameters)
        start = time.perf_counter()
        answer = self._connection.sql(text).to_arrow_table()
        took_ms = (time.perf_counter() - start) * 1000
        return took_ms, [list(row) for row in zip(*(column.to_pylist() for column in answer.columns), strict=True)]


def _fill_duckdb(connection: Any, table: Table, files: list[Path], *, enums: bool) -> None:
    source = f"read_parquet([{', '.join(repr(str(file)) for file in files)}])"
    types = {name: kind for name, kind, *_ in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    if enums:
        for name, texts in table.few_values.items():
            connection.execute(f"CREATE TYPE {name}_type AS ENUM ({', '.join(repr(text) for text in texts)})")
            types[name] = types[name].replace("VARCHAR", f"{name}_type")
    connection.execute(f"CREATE TABLE {table.name} ({', '.join(f'{name} {kind}' for name, kind in types.items())})")
    connection.execute(f"INSERT INTO {table.name} SELECT * FROM {source}")
    connection.execute("CHECKPOINT")


class Chdb:
    """chdb (ClickHouse in the process) over a MergeTree."""

    def __init__(self, table: Table, files: list[Path], folder: Path) -> None:
        from chdb.session import Session

        path = folder / f"chdb-{version('chdb')}"
        done = path.with_suffix(".done")
        if not done.exists():
            shutil.rmtree(path, ignore_errors=True)
        self._session = Session(str(path))
        self._session.query(f"SET max_threads = {THREADS}")
        self._session.query("SET output_format_json_quote_64bit_integers = 0")
        if not done.exists():
            _fill_chdb(self._session, table, files)
            done.touch()
        self._session.query("USE bench")
        self.version = f"{version('chdb')} (ClickHouse {self._rows('SELECT version()')[0][0]})"
        self.size_bytes = self._rows(
            "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'bench' AND table = "
            f"'{table.name}'"
        )[0][0]

    def ask(self, query: Query, parameters: Parameters, trial: bool) -> tuple[float, Rows]:
        text = (query.chdb or query.sql).format(**parameters)
        start = time.perf_counter()
        answer = self._session.query(text, "JSONCompactEachRow")
        took_ms = (time.perf_counter() - start) * 1000
        return took_ms, [json.loads(line) for line in answer.data().splitlines() if line]

    def _rows(self, text: str) -> Rows:
        return [
            json.loads(line) for line in self._session.query(text, "JSONCompactEachRow").data().splitlines() if line
        ]


def _fill_chdb(session: Any, table: Table, files: list[Path]) -> None:
    import pyarrow.parquet as pq

    plain = {"int32": "Int32", "int64": "Int64", "double": "Float64", "string": "String"}
    columns = []
    for field in pq.read_schema(files[0]):
        is_list = str(field.type).startswith("list")
        kind = plain[str(field.type.value_type if is_list else field.type)]
        if field.name in table.nullable:
            kind = f"Nullable({kind})"
        if field.name in table.few_values:
            kind = f"LowCardinality({kind})"
        columns.append(f"{field.name} {f'Array({kind})' if is_list else kind}")
    session.query("CREATE DATABASE IF NOT EXISTS bench")
    session.query(
        f"CREATE TABLE bench.{table.name} ({', '.join(columns)}) ENGINE = MergeTree ORDER BY "
        f"({', '.join(table.sort_columns)})"
    )
    for file in files:
        session.query(f"INSERT INTO bench.{table.name} SELECT * FROM file('{file}', Parquet)")
    session.query(f"OPTIMIZE TABLE bench.{table.name} FINAL")


class Polars:
    """polars over a frame in memory; each query runs with whichever of its two engines was faster in the trials."""

    def __init__(self, table: Table, files: list[Path]) -> None:
        os.environ["POLARS_MAX_THREADS"] = str(THREADS)
        import polars

        self._pl = polars
        self.version = version("polars")
        kinds = {name: polars.Enum(texts) for name, texts in table.few_values.items()}
        parts = []
        for file in files:
            part = polars.read_parquet(file)
            lists = [name for name in kinds if isinstance(part.schema[name], polars.List)]
            casts: dict[str, Any] = {name: polars.List(kind) if name in lists else kind for name, kind in kinds.items()}
            casts |= dict.fromkeys(table.summed, polars.Int64)
            parts.append(part.cast(casts))
        frame = polars.concat(parts, rechunk=True).with_columns(polars.col(table.sort_columns[0]).set_sorted())
        del parts
        self.size_bytes = int(frame.estimated_size())
        self._frame = frame.lazy()
        self._trials: dict[str, dict[str, float]] = {}

    def ask(self, query: Query, parameters: Parameters, trial: bool) -> tuple[float, Rows]:
        assert query.polars is not None
        trials = self._trials.setdefault(query.name, {})
        engines = ("in-memory", "streaming") if trial else (min(trials, key=trials.__getitem__, default="in-memory"),)
        for engine in engines:
            start = time.perf_counter()
            answer = query.polars(self._pl, self._frame, parameters).collect(engine=engine)
            took_ms = (time.perf_counter() - start) * 1000
            if trial:
                trials[engine] = min(took_ms, trials.get(engine, took_ms))
        return took_ms, [list(row) for row in answer.rows()]


ENGINES: dict[str, Callable[[Table, list[Path], Path], Engine]] = {
    "duckdb_enum": lambda table, files, folder: DuckDb(table, files, folder, enums=True),
    "duckdb_varchar": lambda table, files, folder: DuckDb(table, files, folder, enums=False),
    "chdb": Chdb,
    "polars": lambda table, files, folder: Polars(table, files),
}


def main() -> None:
    # What libraries print goes to stderr; answers alone go to the pipe.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, table_name, rows, data_dir = sys.argv[1:]
    table = TABLES[table_name]
    start = time.perf_counter()
    engine = ENGINES[name](
        table, table.parquet_files(Path(data_dir), int(rows)), table.folder(Path(data_dir), int(rows))
    )
    loaded_s = time.perf_counter() - start
    queries = {(suite.name, query.name): query for suite in SUITES.values() for query in suite.queries}
    print(
        json.dumps({"version": engine.version, "size_bytes": engine.size_bytes, "loaded_s": round(loaded_s, 2)}),
        file=answers,
        flush=True,
    )
    for line in sys.stdin:
        request = json.loads(line)
        try:
            took_ms, found = engine.ask(
                queries[request["suite"], request["query"]], request["parameters"], request["trial"]
            )
            reply: dict[str, Any] = {"ms": took_ms, "rows": found}
        except Exception as error:  # whatever a peer raises is told to the parent, which ends the run
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply, default=float), file=answers, flush=True)


if __name__ == "__main__":
    main()
