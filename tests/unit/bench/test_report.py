"""Proves that docs/performance.md and its chart say what the kept results say, and that medians, ratios and means are
those of the times.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from bench import report, spark
from bench.chart import chart
from bench.measure import measure, summed_up
from bench.peers import Peer
from bench.suites import Query, Suite

QUERIES = (
    Query("fast", lambda rng: {"n": rng.random()}, "SELECT {n}", None),
    Query("slow", lambda rng: {"n": rng.random()}, "SELECT {n}", None),
    Query("left", lambda rng: {"n": rng.random()}, "SELECT {n}", None),
)


class _Clocked:
    """Takes a fixed time for each query, and answers with the text it was asked."""

    def __init__(self, engine: str, times_ms: dict[str, float]) -> None:
        self.engine, self._times_ms = engine, times_ms
        self.asked: list[str] = []

    def ask_text(self, text: str, *, pql: bool = False, options: str = "") -> tuple[float, dict[str, Any]]:
        self.asked.append(text)
        return self._times_ms[QUERIES[(len(self.asked) - 1) % 3].name], {"resultTable": {"rows": [[text]]}}

    def ask(
        self, suite: Suite, query: Query, parameters: dict[str, Any], *, trial: bool = False
    ) -> tuple[float, list[list[Any]]]:
        return self._times_ms[query.name], [[query.sql.format(**parameters)]]

    def pages_read(self) -> int:
        return 0

    def close(self) -> None: ...


def _measured() -> dict[str, Any]:
    suite = Suite("own", "requests", QUERIES, {"slow": 80.0}, left_out=("left",))
    ours = _Clocked("pinotpy", {"fast": 1.0, "slow": 20.0, "left": 9.0})
    peers: list[Any] = [
        _Clocked("duckdb_varchar", {"fast": 4.0, "slow": 30.0, "left": 1.0}),
        _Clocked("duckdb_enum", {"fast": 8.0, "slow": 10.0, "left": 1.0}),
        _Clocked("chdb", {"fast": 9.0, "slow": 40.0, "left": 1.0}),
    ]
    return summed_up(suite, [measure(suite, ours, peers, 3)])


def test_ratios_are_of_medians_and_the_better_variant_counts() -> None:
    result = _measured()
    fast, slow, left = result["queries"]
    assert fast["ratio"] == {"duckdb": 4.0, "chdb": 9.0} and not fast["is_over_5_ms"]
    assert slow["ratio"] == {"duckdb": 0.5, "chdb": 2.0} and slow["best_peer"] == "duckdb" and slow["is_over_5_ms"]
    assert len(left["times_ms"]["pinotpy"]) == 3
    assert result["geometric_mean"] == {
        "duckdb": round(math.sqrt(4.0 * 0.5), 3),
        "chdb": round(math.sqrt(9.0 * 2.0), 3),
    }
    assert result["over_5_ms_below_0.7"] == {"slow": 0.5}
    assert result["geometric_mean_pinot_elsewhere"] == 4.0


def test_warmed_engines_answer_with_other_literals_before_each_timed_query() -> None:
    suite = Suite("own", "requests", QUERIES[:1], {})
    times: list[tuple[str, str]] = []

    class Recording(_Clocked):
        def ask_text(self, text: str, *, pql: bool = False, options: str = "") -> tuple[float, dict[str, Any]]:
            times.append((self.engine, text))
            return float(len(times)), {"resultTable": {"rows": [[text]]}}

        def ask(
            self, suite: Suite, query: Query, parameters: dict[str, Any], *, trial: bool = False
        ) -> tuple[float, list[list[Any]]]:
            took_ms, answer = self.ask_text(query.sql.format(**parameters))
            return took_ms, answer["resultTable"]["rows"]

    peers: list[Any] = [Recording("chdb", {})]
    found = measure(suite, Recording("pinotpy", {}), peers, 3, warmed=True)
    engines = [engine for engine, _ in times]
    assert len(times) == (2 + 3) * 2 * 2 and engines[::2] == engines[1::2]
    assert all(untimed != timed for (_, untimed), (_, timed) in zip(times[::2], times[1::2], strict=True))
    taken = {(engine, number + 1) for number, (engine, _) in enumerate(times) if number % 2 and number >= 8}
    assert taken == {(engine, round(time)) for engine, each in found["fast"].items() for time in each}


def test_a_peer_is_compared_with_what_we_took_in_its_own_run() -> None:
    suite = Suite("own", "requests", QUERIES, {})
    duckdb: list[Any] = [_Clocked("duckdb_enum", {"fast": 4.0, "slow": 30.0, "left": 1.0})]
    chdb: list[Any] = [_Clocked("chdb", {"fast": 1.0, "slow": 40.0, "left": 1.0})]
    runs = [
        measure(suite, _Clocked("pinotpy", {"fast": 1.0, "slow": 20.0, "left": 9.0}), duckdb, 3),
        measure(suite, _Clocked("pinotpy", {"fast": 2.0, "slow": 10.0, "left": 9.0}), chdb, 3),
    ]
    fast, slow, _ = summed_up(suite, runs)["queries"]
    assert fast["ratio"] == {"duckdb": 4.0, "chdb": 0.5} and fast["best_peer"] == "chdb"
    assert slow["ratio"] == {"duckdb": 1.5, "chdb": 4.0} and slow["best_peer"] == "duckdb" and slow["is_over_5_ms"]
    assert (
        fast["median_ms"] == {"pinotpy": 1.5, "duckdb_enum": 4.0, "chdb": 1.0} and len(fast["times_ms"]["pinotpy"]) == 6
    )


def _result() -> dict[str, Any]:
    suite = _measured()
    return {
        "commit": "0123456789ab", "machine": {"cpu": "A & B", "cores": 2, "python": "3.11"}, "versions": {"numpy": "2"},
        "load_before": 0.1, "load_after": 0.2,
        "rows": 10_000_000, "repetitions": 3, "path": "HTTP to answer", "suites": {"own": suite},
        "geometric_mean": suite["geometric_mean"],
    }  # fmt: skip


def test_the_page_has_means_losses_and_every_query() -> None:
    text = report.page(report.PAGE.read_text(), {"10m": _result()})
    suite_name = "of the suite own alone, 10 M rows, our segments mapped files (`loadMode` MMAP)"
    assert (
        f"| {suite_name}: geometric mean of peer's time over ours | duckdb ≥ 3×, chdb ≥ 3×, polars ≥ 1.5× | duckdb "
        "1.41×, chdb 4.24× |" in text
    )
    assert f"| {suite_name}: queries over 5 ms slower than 0.7× the best peer | 0 | 2 of 3 |" in text
    assert "| 10m | own | slow | 0.50× duckdb | not explained yet |" in text
    assert "| fast | 1.00 | 4.00 | 8.00 | 9.00 | 4.00× duckdb | 0.0 |" in text
    assert report.page(text, {"10m": _result()}) == text


def test_the_page_says_what_warmed_engines_took() -> None:
    result = {**_result(), "geometric_mean": None, "suites": {"selective_warmed": _result()["suites"]["own"]}}
    text = report.page(report.PAGE.read_text(), {"50m-warmed": result})
    assert (
        "| … every engine asked once right before (`--warmed`) | ≥ 10× | 1.4× in the mean: fast 4.0×, slow 0.5×, left "
        "0.1× |" in text
    )
    assert text.count("| fast | 1.00 | 4.00 | 8.00 | 9.00 | 4.00× duckdb | 0.0 |") == 1


def test_the_page_says_what_frames_and_dialects_cost() -> None:
    frames = {"rows": 1_000_000, "median_ms": {"arrow_to_pandas": 640.0, "json_to_pandas": 9_100.0}}
    dialects = {"count": {"median_ms": {"sql": 0.5, "pql": 0.4}}, "selection": {"median_ms": {"sql": 0.9, "pql": 1.0}}}
    text = report.page(
        report.PAGE.read_text(),
        {
            "others": {
                **_result(),
                "geometric_mean": None,
                "suites": {"frames": {"frames": frames, "dialects": dialects}},
            }
        },
    )
    assert "| 1 M rows × 5 columns over HTTP into a data frame | ≤ 1 s | 0.64 s; as JSON 9.1 s |" in text
    assert "| the same question in SQL over PQL | ≤ 1 | count 1.25, selection 0.90 |" in text


def test_the_page_says_what_spark_and_pushes_cost() -> None:
    def job(rows_per_second: int, driver_mib: int) -> dict[str, Any]:
        peaks = {"driver": driver_mib << 20, "jvm": 400 << 20, "worker": 600 << 20}
        return {"job_s": 2.0, "command_s": 3.0, "rows_per_second": rows_per_second, "segments": 4, "peak_bytes": peaks}

    spark = {
        **{name: job(700_000, 198) for name in ("local[2]", "one core", "local[2] by partition")},
        "alone": {**job(1_000_000, 150), "peak_bytes": {"driver": 150 << 20}},
        "few rows": {"rows": 1_000_000, **job(1, 197)},
        "many rows": {"rows": 50_000_000, **job(1, 199)},
    }
    spark |= {"rows": 20_000_000, "columns": 12, "ratio_to_builder": 0.7, "two_cores_over_one": 1.9}
    way = {
        "mb_per_s": 147.4,
        "share_of_disk": 0.21,
        "controller_cpu_s": 35.4,
        "client_cpu_s": 3.7,
        "controller_memory": {"peak_mib": 245.3, "growth_mib": -0.1},
    }
    push = {
        "segments": 200,
        "bytes_of_one": 20_000_000,
        "disk_mb_per_s": 705.1,
        "tar_2": way,
        "metadata_4": {**way, "mb_per_s": 1138.6},
    }
    empty = "<!-- bench: summary -->\n<!-- /bench -->\n<!-- bench: pipeline -->\n<!-- /bench -->"
    text = report.page(empty, {"pipeline": {"suites": {"spark": spark, "push": push}}})
    assert "| Spark's driver with 1, 20, 50 M rows | flat | 197, 198, 199 MiB |" in text
    assert (
        "| ≥ 0.6; ≤ 1.5 GB | 0.70; 600 MiB |" in text and "tar 147 MB/s, metadata 1139 MB/s; the disk 705 MB/s" in text
    )
    assert (
        "| alone | 20 M | 2.0 | 1.00 M | 4 | 150 | – | – |" in text
        and "| tar_2 | 147 | 21% | 35.4 | 3.7 | 245 | -0.1 |" in text
    )


def test_the_chart_is_xml_with_a_mark_for_every_peer_of_every_query() -> None:
    drawn = ET.fromstring(chart(_result()))
    marks = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert sorted(mark for mark in marks if mark and "×" in mark) == sorted(
        [
            "fast: DuckDB 4.00×",
            "fast: chdb 9.00×",
            "slow: DuckDB 0.50×",
            "slow: chdb 2.00×",
            "left: DuckDB 0.11×",
            "left: chdb 0.11×",
        ]
    )
    assert "prefers-color-scheme: dark" in "".join(drawn.itertext())


def test_the_page_and_the_chart_are_those_of_the_kept_results() -> None:
    results = report.read_results()
    assert report.page(report.PAGE.read_text(), results) == report.PAGE.read_text(), "run python -m bench.report"
    if "10m" in results:
        assert chart(results["10m"]) == report.CHART.read_text()


def test_a_peer_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"chdb is not installed: pip install -e '\.\[bench\]'"):
        Peer("chdb", "ads", 10, tmp_path)


def test_spark_and_the_builder_alone_took_turns_and_the_middle_round_counts() -> None:
    rounds = [{"job_s": seconds, "peak_bytes": {"jvm": 10 * seconds}} for seconds in (9.0, 4.0, 6.0)]
    middle = spark._median(rounds)
    assert middle == {"job_s": 6.0, "peak_bytes": {"jvm": 90.0}}
    kept = report.read_results()["pipeline"]
    suite = {
        **kept["suites"]["spark"],
        "rounds": [{"alone": {"job_s": 6.0}, "local[2]": {"job_s": 8.0}}] * 3,
        "warmup_s": 28.4,
        "warmup_bytes": 196_000_000,
    }
    text = report._pipeline({"pipeline": {**kept, "suites": {"spark": suite}}})
    assert "took turns 3 times" in text and "0.75, 0.75, 0.75" in text and "28 s, 196 MB" in text
    del suite["rounds"]
    assert "took turns" not in report._pipeline({"pipeline": {**kept, "suites": {"spark": suite}}})
