"""Proves that `load` brings files of a user into a cluster that runs, from looking into them to the first answer: a CSV
with a German spelling, packed JSON lines and Parquet, a file of a web server beside one of another format; that loading
again adds rows; that what does not fit is named before anything is sent; that a wrong guess is mended by the flag that
the output names; and that its segments can be deleted and brought back.
"""

from __future__ import annotations

import gzip
import http.server
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from live_cluster import LiveCluster
from pyarrow import orc

pytestmark = pytest.mark.cluster

CSV = (
    "Nr.;Ort;Preis (€);Datum;bezahlt\n"
    "001;Köln;1.234,50;31.12.2020;ja\n"
    "002;Bonn;2,25;01.02.2021;nein\n"
    "003;;NULL;02.02.2021;ja\n"
)


class Loader:
    """`pinotpy` as a process against a cluster."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster

    def run(self, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pinotpy", *arguments, "--controller-url", self.cluster.controller_url]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        assert ended.returncode == status, ended.stdout + ended.stderr
        return ended

    def load(self, *arguments: str) -> Any:
        return json.loads(self.run("load", *arguments, "--json").stdout)

    def rows(self, query: str) -> list[list[Any]]:
        rows: list[list[Any]] = self.cluster.query(query, dialect="sql")["resultTable"]["rows"]
        return rows


def _two_loads_at_once_make_one_table(loader: Loader, folder: Path) -> None:
    files = []
    for number in range(2):
        file = folder / f"half-{number}.csv"
        file.write_text(f"id,name\n{number},a\n{number + 10},b\n")
        files.append(str(file))
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda file: loader.load(file, "--table", "halves"), files))
    assert sorted(one["created"] for one in both) == [False, True]
    assert loader.rows("SELECT id FROM halves ORDER BY id") == [[0], [1], [10], [11]]


def test_files_become_tables_that_answer(tmp_path: Path) -> None:
    cluster = LiveCluster(tmp_path / "cluster", num_servers=1)
    try:
        loader = Loader(cluster)
        _a_csv_is_loaded_and_loaded_again(loader, tmp_path)
        _two_loads_at_once_make_one_table(loader, tmp_path)
        _a_wrong_guess_is_mended_by_the_flag_that_is_named(loader, tmp_path)
        _json_lines_and_parquet_equal_what_duckdb_reads(loader, tmp_path)
        _a_packed_file_of_a_web_server_is_one_of_several(loader, tmp_path)
        _segments_go_and_come_back(loader)
    finally:
        cluster.close()


def _a_csv_is_loaded_and_loaded_again(loader: Loader, tmp_path: Path) -> None:
    first = tmp_path / "kunden.csv"
    first.write_text(CSV)
    said = loader.run("load", str(first)).stdout
    assert "table kunden created, and 3 rows are loaded" in said
    assert "SELECT COUNT(*) AS num_rows FROM kunden" in said and "pinotpy sql --broker-url" in said
    query = "SELECT Nr, Ort, Preis, bezahlt, ToDateTime(Datum, 'yyyy-MM-dd') FROM kunden ORDER BY Nr"
    assert loader.rows(f"SET enableNullHandling = true; {query}") == [
        ["001", "Köln", 1234.5, True, "2020-12-31"],
        ["002", "Bonn", 2.25, False, "2021-02-01"],
        ["003", None, None, True, "2021-02-02"],
    ]
    # The same content is not added twice, unless that is asked for.
    assert loader.load(str(first))["replacedSegments"]
    assert loader.rows("SELECT COUNT(*) FROM kunden") == [[3]]
    assert loader.load(str(first), "--again")["answer"]["resultTable"]["rows"] == [[6]]
    # Another file adds its rows, in its own spelling.
    other = tmp_path / "more.csv"
    other.write_text("Nr.,Ort,Preis (€),Datum,bezahlt,neu\n004,Ulm,7.5,2021-03-01,true,x\n")
    added = loader.load(str(other), "--table", "kunden")
    assert added["created"] is False and added["answer"]["resultTable"]["rows"] == [[7]]
    assert "fields that no column of the table takes: 'neu'" in added["files"][0]["notes"]
    assert loader.rows("SELECT Preis FROM kunden WHERE Nr = '004'") == [[7.5]]
    # What does not fit says so, and sends nothing.
    other.write_text("Nr.,Ort,Preis (€),Datum,bezahlt\n005,Ulm,cheap,2021-03-01,true\n")
    refused = loader.run("load", str(other), "--table", "kunden", status=1).stderr
    assert "column 'Preis': the file has STRING, the table DOUBLE; --type Preis=DOUBLE" in refused
    other.write_text("x,y\n1,2\n")
    assert "none of the columns of table 'kunden'" in loader.run(
        "load", str(other), "--table", "kunden", status=1
    ).stderr  # fmt: skip
    assert loader.rows("SELECT COUNT(*) FROM kunden") == [[7]]


def _a_wrong_guess_is_mended_by_the_flag_that_is_named(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "trips.csv"
    path.write_text("id,at\n1,03/04/2021\n2,05/06/2021\n")
    guessed = loader.load(str(path))
    (column,) = [column for column in guessed["files"][0]["columns"] if column["name"] == "at"]
    assert column["confidence"] == 0.5 and guessed["files"][0]["rows"][0]["at"].startswith("2021-03-04")
    flag = column["flag"].split()
    assert flag == ["--date-order", "dmy"]
    mended = loader.load(str(path), "--table", "trips_mended", *flag)
    assert mended["files"][0]["rows"][0]["at"].startswith("2021-04-03")
    assert loader.rows("SELECT ToDateTime(at, 'yyyy-MM-dd') FROM trips_mended ORDER BY id") == [
        ["2021-04-03"],
        ["2021-06-05"],
    ]


def _json_lines_and_parquet_equal_what_duckdb_reads(loader: Loader, tmp_path: Path) -> None:
    records = [
        {"id": number, "city": ["Köln", "Bonn", None][number % 3], "price": number / 4, "flag": number % 2 == 0}
        for number in range(1, 2001)
    ]
    lines, columns = tmp_path / "lines.jsonl.gz", tmp_path / "columns.parquet"
    lines.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))
    pq.write_table(pa.Table.from_pylist(records), columns)
    query = "SELECT city, COUNT(*), SUM(price), MAX(id) FROM {} WHERE flag GROUP BY city ORDER BY city NULLS LAST"
    for path, reader in ((lines, "read_json_auto"), (columns, "read_parquet")):
        table = path.name.split(".")[0]
        loaded = loader.load(str(path))
        assert loaded["created"] is True and loaded["answer"]["resultTable"]["rows"] == [[2000]]
        expected = duckdb.sql(query.format(f"{reader}('{path}')")).fetchall()
        assert loader.rows("SET enableNullHandling = true; " + query.format(table)) == [list(row) for row in expected]


def _a_packed_file_of_a_web_server_is_one_of_several(loader: Loader, tmp_path: Path) -> None:
    """Formats and places may differ: their rows are one table, with types that hold them all."""
    folder = tmp_path / "served"
    folder.mkdir()
    text = "id;price;at\n" + "".join(f"{number};{number},25;0{number % 9 + 1}.02.2024\n" for number in range(1000))
    (folder / "text.csv.zst").write_bytes(pa.compress(text.encode(), codec="zstd", asbytes=True))
    orc.write_table(
        pa.table({"id": [3_000_000_000], "price": [0.5], "at": pa.array([19_783], pa.date32())}), tmp_path / "t.orc"
    )
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/text.csv.zst"
        loaded = loader.load(url, str(tmp_path / "t.orc"), "--table", "several")
        server.shutdown()
    assert loaded["answer"]["resultTable"]["rows"] == [[1001]]
    assert set(loaded["tookMs"]) == {"sniff", "read", "build", "push", "queryable"}
    assert loader.rows("SELECT MAX(id), SUM(price) FROM several") == [
        [3_000_000_000, sum(number + 0.25 for number in range(1000)) + 0.5]
    ]
    assert loader.rows("SELECT ToDateTime(at, 'yyyy-MM-dd') FROM several WHERE id = 3000000000") == [["2024-03-01"]]


def _segments_go_and_come_back(loader: Loader) -> None:
    """The commands that look after tables, with servers that tell sizes, drop segments and load them again."""
    asked = ("sql", "SELECT COUNT(*) AS n, SUM(Preis) AS s FROM kunden", "--format", "csv")
    broker = ("--broker-url", loader.cluster.broker_url)
    before = loader.run(*asked, *broker).stdout
    servers = [each for each in json.loads(loader.run("show-instances", "--json").stdout) if each["role"] == "server"]
    assert servers[0]["segments"] > 0 and servers[0]["bytes"] > 0 and servers[0]["segmentsOfUnknownSize"] == 0
    assert servers[0]["aliveSinceMs"] and servers[0]["version"]
    sizes = json.loads(loader.run("show-table", "kunden", "--json").stdout)["sizes"]
    assert sizes["reportedSizeInBytes"] > 0 and sizes["offlineSegments"]["missingSegments"] == 0
    assert "add --yes" in loader.run("delete-segments", "kunden", "--all", status=1).stderr
    assert "restore-segments brings them back" in loader.run("delete-segments", "kunden", "--all", "--yes").stdout
    # At once: it waits until servers have dropped what was deleted, and until they serve again.
    assert "restored and served" in loader.run("restore-segments", "kunden", "--all").stdout
    assert loader.run(*asked, *broker).stdout == before
