"""Proves that the reference's Java client and JDBC driver, taken from Maven Central as they are, find brokers in every
way they know (ZooKeeper's external view, a controller, a list), read every type, prepare statements, and raise our
errors. The oracle is what was uploaded (trips_table.py) and DuckDB. Skips where there is no JDK 17 with Maven.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from live_cluster import LiveCluster
from trips_table import NUM_TRIPS, TRIPS

PROJECT = Path(__file__).parent / "java"
BUILD_TIMEOUT_S = 540  # the first build downloads about 150 MB into Maven's own cache, ~/.m2
ASK_TIMEOUT_S = 90
TYPES = {
    "at": "TIMESTAMP",
    "atMillis": "LONG",
    "atSeconds": "LONG",
    "city": "STRING",
    "day": "STRING",
    "details": "JSON",
    "distance": "LONG",
    "fare": "DOUBLE",
    "marks": "INT_ARRAY",
    "order": "INT",
    "paid": "BOOLEAN",
    "payload": "BYTES",
    "price": "BIG_DECIMAL",
    "share": "FLOAT",
    "tags": "STRING_ARRAY",
    "tripId": "INT",
}


def missing_tools() -> str:
    """What the Java clients need and this machine lacks, or ''."""
    absent = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if absent:
        return f"no {', '.join(absent)} here: the Java clients need a JDK of version 17 or later and Maven"
    version = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True)
    found = re.search(r"javac (\d+)", version.stdout + version.stderr)
    return (
        ""
        if found and int(found[1]) >= 17
        else f"the Java clients need JDK 17 or later, found {version.stdout.strip()}"
    )


MISSING = missing_tools()
pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The compiled project and its dependencies; built outside of the checkout."""
    folder = tmp_path_factory.mktemp("java") / "project"
    shutil.copytree(PROJECT, folder)
    command = ["mvn", "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]
    built = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-1000:]
    return f"{folder / 'target' / 'classes'}:{(folder / 'classpath').read_text()}"


def asked(class_path: str, main: str, *args: str) -> dict[str, Any]:
    """What the program printed, by name."""
    run = subprocess.run(
        ["java", "-cp", class_path, f"clients.{main}", *args],
        capture_output=True,
        text=True,
        timeout=ASK_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"name"')]
    return {line["name"]: line["found"] for line in lines}


@pytest.fixture(scope="module", params=["zookeeper", "controller", "brokers"])
def found(request: pytest.FixtureRequest, class_path: str, trips_cluster: LiveCluster) -> dict[str, Any]:
    addresses = {
        "zookeeper": f"{trips_cluster.zk_address}/TestCluster",
        "controller": trips_cluster.controller_url.removeprefix("http://"),
        "brokers": trips_cluster.broker_url.removeprefix("http://"),
    }
    return asked(class_path, "JavaClient", request.param, addresses[request.param])


def java_text(name: str, value: Any) -> str:
    """A value of trips_table.py as getString shows it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case bytes():
            return value.hex()
        case datetime():
            millis = value.strftime("%f")[:3].rstrip("0") or "0"
            return f"{value:%Y-%m-%d %H:%M:%S}.{millis}"
        case list():
            return json.dumps(value, separators=(",", ":"))
    return format(value.normalize(), "f") if name == "price" else str(value)


def test_every_value_of_every_type_is_read(found: dict[str, Any]) -> None:
    assert found["columns"] == [list(entry) for entry in TYPES.items()]
    assert found["count"] == [[str(NUM_TRIPS)]] and found["named table"] == NUM_TRIPS and found["no rows"] == []
    assert found["all"] == [[java_text(name, row[name]) for name in TYPES] for row in TRIPS]
    row = TRIPS[7]
    assert found["numbers"] == [7, row["distance"], row["fare"], row["share"], row["atMillis"]]
    assert found["async"] == 0.0


def test_groups_are_those_of_duckdb(found: dict[str, Any]) -> None:
    rows = pa.table({name: [row[name] for row in TRIPS] for name in ("order", "distance")})
    expected = (
        duckdb.from_arrow(rows)
        .query("t", 'SELECT "order", SUM(distance), COUNT(*) FROM t GROUP BY 1 ORDER BY 1')
        .fetchall()
    )
    assert [(int(key), float(total), int(count)) for key, total, _, count in found["groups"]] == [
        (key, float(total), count) for key, total, count in expected
    ]


def test_prepared_statements_count_what_they_say(found: dict[str, Any]) -> None:
    def holds(row: dict[str, Any], city: str) -> bool:
        is_cheap = row["fare"] is not None and row["fare"] < 200.5
        return row["city"] == city and row["tripId"] < 200 and is_cheap and row["share"] <= 0.75

    expected = [sum(holds(row, city) for row in TRIPS) for city in ("Oslo", "O'Hare", 'say "hi"', "Größe 🙂")]
    assert all(expected) and found["prepared"] == expected


def test_statistics_and_errors_come_through(found: dict[str, Any]) -> None:
    counters = {
        "totalDocs": NUM_TRIPS,
        "numDocsScanned": 100,
        "numServersQueried": 1,
        "numServersResponded": 1,
        "numSegmentsQueried": 2,
    }
    assert found["statistics"] == {**counters, "groupsLimit": False, "tookSomeTime": True}
    for query, code, words in (
        ("SELEC 1", 150, "line 1, column 1"),
        ("SELECT nosuch FROM trips", 710, "'nosuch'"),
        ("SELECT COUNT(*) FROM no_such_table", 190, "TableDoesNotExistError"),
    ):
        message = found[f"error of {query}"]
        assert f'"errorCode":{code}' in message and words in message


@pytest.mark.parametrize("way", ["brokers", "controller", "tenant"])
def test_jdbc_reads_rows_tables_and_errors(class_path: str, trips_cluster: LiveCluster, way: str) -> None:
    options = {
        "brokers": f"?brokers={trips_cluster.broker_url.removeprefix('http://')}",
        "controller": "",
        "tenant": "?tenant=DefaultTenant",
    }
    found = asked(
        class_path, "JdbcClient", f"jdbc:pinot://{trips_cluster.controller_url.removeprefix('http://')}{options[way]}"
    )
    names = ("tripId", "city", "distance", "fare", "share", "paid", "at")
    assert found["columns"] == [[name, TYPES[name]] for name in names]
    # The driver cuts fractions of seconds off, whoever answers.
    assert found["rows"] == [
        [
            row["tripId"],
            row["city"],
            row["distance"],
            row["fare"] or 0.0,
            row["share"],
            row["paid"],
            f"{row['at']:%Y-%m-%d %H:%M:%S}.0",
        ]
        for row in TRIPS
    ]
    assert found["prepared"] == sum(row["city"] == "O'Hare" for row in TRIPS[:100])
    assert found["tables"] == ["trips"]
    assert "nosuch" in found["error"]
