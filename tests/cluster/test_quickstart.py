"""Proves on the real thing: `pinotpy quickstart --exit` answers its twelve questions with the numbers that DuckDB finds
in the same CSV file, prints both measurements and for scripts one line of addresses, and leaves neither process nor
port nor folder; Ctrl-C while loading, or a terminal that goes while the daemons start, stops everything; and even
SIGKILL leaves no daemon behind, because each is tied to its parent. (Ctrl-C while waiting: see test_readme.py.)
"""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from live_cluster import wait_until
from quickstart_process import QuickstartProcess

from pinotpy.cli.sample_queries import SAMPLES
from pinotpy.ingest.flights import flights_file

pytestmark = pytest.mark.cluster

# Question → for each result table: all its rows in DuckDB's words, best first, and how many are shown. The last column
# is what rows are ranked by.
_BY = "SELECT {0}, {1} FROM flights {2} GROUP BY ALL ORDER BY {1} DESC"
EXPECTED: dict[str, list[tuple[str, int]]] = {
    "How many flights left New York in 2013?": [("SELECT COUNT(*) FROM flights", 1)],
    "How late did they leave and arrive?": [
        ("SELECT AVG(dep_delay), MAX(dep_delay), AVG(arr_delay), MAX(arr_delay) FROM flights", 1)
    ],
    "Which airlines fly most?": [(_BY.format("carrier", "COUNT(*)", ""), 5)],
    "Where do they fly, and how far in all?": [(_BY.format("origin, dest, COUNT(*)", "SUM(distance)", ""), 5)],
    "Which airports have the longest waits in summer?": [
        (_BY.format("origin", "AVG(dep_delay)", "WHERE month IN (6, 7, 8)"), 3)
    ],
    "How many planes does each airline use?": [(_BY.format("carrier", "COUNT(DISTINCT tailnum)", ""), 5)],
    "The five latest departures of Christmas Eve": [
        (
            "SELECT carrier, flight, dest, dep_delay FROM flights WHERE month = 12 AND day = 24 ORDER BY dep_delay "
            "DESC NULLS LAST",
            5,
        )
    ],
    "Routes with more than 10,000 flights": [
        ("SELECT origin, dest, COUNT(*) c FROM flights GROUP BY 1, 2 HAVING c > 10000 ORDER BY c DESC", 10)
    ],
    "Flights to the two San Francisco Bay airports on JetBlue or Virgin": [
        (_BY.format("dest, carrier", "COUNT(*)", "WHERE dest IN ('SFO', 'OAK') AND carrier IN ('B6', 'VX')"), 10)
    ],
    "Which planes with a tail number ending in JB flew most?": [
        (_BY.format("tailnum", "COUNT(*)", "WHERE tailnum LIKE '%JB'"), 3)
    ],
    "Delays by month": [
        (
            "SELECT month, COUNT(*), AVG(arr_delay) late FROM flights WHERE arr_delay > 0 GROUP BY month ORDER BY "
            "late DESC",
            4,
        )
    ],
    "The spread of distances by airport, in PQL: a list for each aggregation": [
        (_BY.format("origin", "MAX(distance) - MIN(distance)", ""), 3),
        (_BY.format("origin", "MIN(distance)", "").removesuffix("DESC"), 3),
        (_BY.format("origin", "MAX(distance)", ""), 3),
    ],
}


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    csv = tmp_path_factory.mktemp("flights") / "flights.csv"
    with flights_file().open() as source:
        csv.write_bytes(source.read())
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE flights AS SELECT * FROM read_csv('{csv}', nullstr = 'NA', header = true, sample_size = -1)"
    )
    yield connection
    connection.close()


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


def test_every_sample_has_an_expectation() -> None:
    assert [sample.question for sample in SAMPLES] == list(EXPECTED)


def test_twelve_questions_are_answered_as_duckdb_answers_them_and_nothing_is_left(
    flights: duckdb.DuckDBPyConnection, scratch: Path
) -> None:
    began = time.monotonic()
    run = QuickstartProcess(scratch, "--exit", "--json")
    try:
        status = run.wait()
        print(f"quickstart --exit took {time.monotonic() - began:.1f} s")
        assert status == 0, run.output
        run.assert_nothing_is_left()
    finally:
        run.close()
    assert not list(scratch.iterdir()), "the folder of the run"
    (told,) = [json.loads(line) for line in run.lines if line.startswith("{")]
    assert told["controllerUrl"].endswith(f":{run.ports['controller']}") and told["brokerUrl"].endswith(
        f":{run.ports['broker']}"
    ), told
    assert set(told) == {"controllerUrl", "brokerUrl", "zkAddress", "clusterName", "logs"}
    assert re.search(r"first full answer: \d+\.\d s", run.output), run.output
    assert re.search(
        r"memory of the idle daemons: \d+ MiB \(zookeeper \d+ \+ controller \d+ \+ broker \d+ \+ server-0 \d+\)",
        run.output,
    ), run.output
    sections = re.split(rf"^\d+ of {len(SAMPLES)}: ", run.output, flags=re.MULTILINE)[1:]
    assert len(sections) == len(SAMPLES)
    for sample, section in zip(SAMPLES, sections, strict=True):
        assert section.startswith(f"{sample.question}\n{sample.text}\n"), section
        shown = tables_in(section)
        assert len(shown) == len(EXPECTED[sample.question]), section
        for rows, (oracle, count_max) in zip(shown, EXPECTED[sample.question], strict=True):
            every = [[str(value) for value in row] for row in flights.execute(oracle).fetchall()]
            best = every[:count_max]
            assert len(rows) == len(best), section
            # Ties may be shown in any order: the ranks must agree, and each row must be true.
            for row, wanted in zip(rows, best, strict=True):
                assert are_equal(row[-1:], wanted[-1:]), (row, wanted, sample.question)
                assert any(are_equal(row, true) for true in every), (row, sample.question)
            assert len({tuple(row) for row in rows}) == len(rows)


def test_an_interrupt_while_loading_stops_everything(scratch: Path) -> None:
    run = QuickstartProcess(scratch)
    try:
        run.wait_for("✓ creating schema and table flights")
        run.process.send_signal(signal.SIGINT)
        assert run.wait(60) == 130, run.output
        run.assert_nothing_is_left()
    finally:
        run.close()
    assert "interrupted" in run.output and "all daemons stopped" in run.output
    assert "Traceback" not in run.output
    assert not list(scratch.iterdir()), "the folder of the run"


def test_a_terminal_that_goes_while_the_daemons_start_stops_everything(scratch: Path) -> None:
    run = QuickstartProcess(scratch)
    try:
        run.wait_for("in a cluster on this machine")
        wait_until(lambda: len(run.pids()) >= 6, 60, "the daemons, some of them before they have handlers of their own")
        run.process.send_signal(signal.SIGHUP)
        assert run.wait(60) == 130, run.output
        run.assert_nothing_is_left()
    finally:
        run.close()
    assert "interrupted" in run.output and "all daemons stopped" in run.output and "Traceback" not in run.output
    assert not list(scratch.iterdir()), "the folder of the run"


def test_a_killed_quickstart_leaves_no_daemon_behind(scratch: Path) -> None:
    run = QuickstartProcess(scratch)
    try:
        run.wait_for("✓ starting ZooKeeper, controller, broker and 2 servers")
        assert len(run.pids()) >= 6, "the quickstart, ZooKeeper, and four daemons"
        run.process.kill()
        assert run.wait(60) == -signal.SIGKILL
        run.assert_nothing_is_left(within_s=60.0)
    finally:
        run.close()


def test_a_port_that_is_taken_is_told_in_one_sentence(scratch: Path) -> None:
    first = QuickstartProcess(scratch)
    try:
        # Not sooner: it starts its daemons a second time on the loaded data, and has no port between.
        first.wait_for("Ctrl-C stops everything")
        port = first.ports["controller"]
        second = QuickstartProcess(scratch / "second", "--controller-port", str(port))
        try:
            assert second.wait() == 1, second.output
            assert re.search(
                rf"^pinotpy: controller ended with status 1: cannot start: .*{port}", second.output, re.MULTILINE
            ), second.output
            assert "Traceback" not in second.output and "kept in" in second.output
            assert second.pids() == []
        finally:
            second.close()
    finally:
        first.close()


def tables_in(section: str) -> list[list[list[str]]]:
    """Rows of each printed table: they stand between the line under its heading and the next line that is none of its
    rows.
    """
    found: list[list[list[str]]] = []
    lines = section.splitlines()
    for number, line in enumerate(lines):
        if line and not set(line.strip()) - set("━╇"):
            width = line.count("╇") + 1
            rows = []
            for row in lines[number + 1 :]:
                cells = [cell.strip() for cell in row.split("│")]
                if len(cells) != width or not row.strip() or "docs scanned" in row:
                    break
                rows.append(cells)
            found.append(rows)
    return found


def are_equal(shown: list[str], expected: list[str]) -> bool:
    """Numbers to the five decimals that PQL prints, text exactly."""
    return len(shown) == len(expected) and all(
        a == b or (is_number(a) and is_number(b) and abs(float(a) - float(b)) <= 1e-5)
        for a, b in zip(shown, expected, strict=True)
    )


def is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", text) is not None
