"""docs/performance.md from results: `python -m bench.report` rewrites what stands between its markers, and the chart.

Reads `bench/results/quoted-*.json`: `make bench-quoted` writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.chart import chart
from bench.reasons import REASONS
from bench.run import THE_SUITE

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs/performance.md"
CHART: Final = ROOT / "docs/performance.svg"
RESULTS: Final = ROOT / "bench/results"
_FLOOR: Final = 0.7
_LOADED: Final = {
    "HEAP": "our segments in memory (`loadMode` HEAP)",
    "MMAP": "our segments mapped files (`loadMode` MMAP)",
}
Results = dict[str, dict[str, Any]]


def read_results(folder: Path = RESULTS) -> Results:
    """`10m`, `50m`, `others` → result, of those that exist."""
    return {
        path.stem.removeprefix("quoted-"): json.loads(path.read_text())
        for path in sorted(folder.glob("quoted-*.json"), key=lambda path: path.stem)
    }


def page(text: str, results: Results) -> str:
    """The page with every section between markers written anew."""

    def section(match: re.Match[str]) -> str:
        body = SECTIONS[match.group(1)](results)
        return f"<!-- bench: {match.group(1)} -->\n{body}\n<!-- /bench -->"

    return re.sub(r"<!-- bench: ([a-z]+) -->\n.*?<!-- /bench -->", section, text, flags=re.DOTALL)


def _summary(results: Results) -> str:
    rows = []
    for result in results.values():
        mean = result.get("geometric_mean")
        if mean:
            wanted = {"duckdb": 3.0, "chdb": 3.0, "polars": 1.5}
            found = ", ".join(f"{peer} {value:.2f}×" for peer, value in mean.items())
            parts = [part for part in THE_SUITE if part in result["suites"]]
            suite = "suite" if len(parts) == len(THE_SUITE) else f"of the suite {', '.join(parts)} alone"
            suite += f", {result['rows'] / 1e6:g} M rows, {_LOADED[result.get('load_mode', 'MMAP')]}"
            rows.append([f"{suite}: geometric mean of peer's time over ours", _bars(wanted, "{peer} ≥ {bar}×"), found])
            slow = [
                line
                for line in _queries(result)
                if line.get("is_over_5_ms") and line["ratio"][line["best_peer"]] < _FLOOR
            ]
            rows.append(
                [
                    f"{suite}: queries over 5 ms slower than 0.7× the best peer",
                    "0",
                    f"{len(slow)} of {len(_queries(result))}",
                ]
            )
    suites = {name: suite for result in results.values() for name, suite in result["suites"].items()}
    if "study" in suites and "geometric_mean_pinot_elsewhere" in suites["study"]:
        rows.append(
            [
                "study: Apache Pinot's time on another machine over ours",
                "≥ 10×",
                f"{suites['study']['geometric_mean_pinot_elsewhere']:.1f}×",
            ]
        )
    if "selective" in suites:
        each = ", ".join(f"{line['name']} {line['ratio']['duckdb']:.1f}×" for line in suites["selective"]["queries"])
        found = f"{suites['selective']['geometric_mean']['duckdb']:.1f}× in the mean: {each}"
        rows.append([f"selective queries with an index, {_LOADED['HEAP']}, against DuckDB", "≥ 10×", found])
    if "selective_warmed" in suites:
        warmed = suites["selective_warmed"]
        each = ", ".join(f"{line['name']} {line['ratio']['duckdb']:.1f}×" for line in warmed["queries"])
        rows.append(
            [
                "… every engine asked once right before (`--warmed`)",
                "≥ 10×",
                f"{warmed['geometric_mean']['duckdb']:.1f}× in the mean: {each}",
            ]
        )
    if "startree" in suites:
        largest = list(suites["startree"]["by_rows"].values())[-1].values()
        docs, server = (min(query[key] for query in largest) for key in ("docs_ratio", "server_ratio"))
        growth = max(suites["startree"]["growth_of_docs_read"].values())
        rows.append(
            [
                "star-tree: documents read, server time, growth of documents for ten times the rows",
                "≥ 30×, ≥ 10×, ≤ 1.2",
                f"{docs:.0f}×, {server:.1f}×, {growth:.2f}",
            ]
        )
    if "segments" in suites:
        segments = suites["segments"]
        rows.append(
            [
                f"{segments['segments']} segments of which three are needed, over these three alone",
                "≤ 1.3",
                f"{max(q['ratio'] for q in segments['queries'].values()):.2f}",
            ]
        )
    if "build" in suites:
        built = suites["build"]
        times = f"{built['parquet']['median_s']:.2f} s, {built['csv']['median_s']:.2f} s"
        rows.append(["build 1 M rows × 12 columns, Parquet, CSV", "≤ 1.5 s, ≤ 2.5 s", times])
        rows.append(
            [
                "… its peak memory over the segment, Parquet, CSV",
                "≤ 6",
                f"{built['parquet']['peak_over_segment']}, {built['csv']['peak_over_segment']}",
            ]
        )
    if "disk" in suites:
        rows.append(
            [
                "bytes on disk of the suite's tables over DuckDB's file",
                "≤ 1.5",
                f"{suites['disk']['suite_ratio']['duckdb']:.2f}",
            ]
        )
    if "fixed" in suites:
        group = suites["fixed"]["queries"]["group_by"]
        one, eight, many = group["1"], group["8"], group["32"]
        found = (
            f"{eight['queries_per_s']:.0f}/s at 8; p50 {one['p50_ms']:.2f} ms at 1; p99 {eight['p99_ms']:.1f} ms "
            f"at 8, {many['p99_ms']:.1f} ms at 32"
        )
        rows.append(["trivial group-by", "≥ 2,500/s; ≤ 0.8 ms; ≤ 12 ms, ≤ 25 ms", found])
    if "frames" in suites:
        frames, dialects = suites["frames"]["frames"], suites["frames"]["dialects"]
        arrow, plain = (frames["median_ms"][way] / 1000 for way in ("arrow_to_pandas", "json_to_pandas"))
        rows.append(
            [
                f"{frames['rows'] / 1e6:g} M rows × 5 columns over HTTP into a data frame",
                "≤ 1 s",
                f"{arrow:.2f} s; as JSON {plain:.1f} s",
            ]
        )
        over = ", ".join(
            f"{name} {one['median_ms']['sql'] / one['median_ms']['pql']:.2f}" for name, one in dialects.items()
        )
        rows.append(["the same question in SQL over PQL", "≤ 1", over])
    if "spark" in suites:
        spark = suites["spark"]
        number, worker = f"{spark['rows'] / 1e6:g} M rows", spark["local[2]"]["peak_bytes"]["worker"] >> 20
        rows.append(
            [
                f"segments of {number} × 12 columns by Spark local[2] over the builder alone; a Python worker",
                "≥ 0.6; ≤ 1.5 GB",
                f"{spark['ratio_to_builder']:.2f}; {worker} MiB",
            ]
        )
        drivers = [f"{spark[name]['peak_bytes']['driver'] >> 20}" for name in ("few rows", "local[2]", "many rows")]
        sizes = [
            f"{number / 1e6:g}" for number in (spark["few rows"]["rows"], spark["rows"], spark["many rows"]["rows"])
        ]
        rows.append([f"Spark's driver with {', '.join(sizes)} M rows", "flat", f"{', '.join(drivers)} MiB"])
        rows.append(["Spark on two cores over one", "2", f"{spark['two_cores_over_one']:.2f}"])
    if "push" in suites:
        tar, metadata = suites["push"]["tar_2"], suites["push"]["metadata_4"]
        found = (
            f"tar {tar['mb_per_s']:.0f} MB/s, metadata {metadata['mb_per_s']:.0f} MB/s; the disk "
            f"{suites['push']['disk_mb_per_s']:.0f} MB/s"
        )
        rows.append(
            [
                f"push of {suites['push']['segments']} segments of {suites['push']['bytes_of_one'] / 1e6:.0f} MB",
                "bound by the disk",
                found,
            ]
        )
    return _table(["what", "aim", "measured"], rows) if rows else _NOTHING


def _bars(wanted: dict[str, float], pattern: str) -> str:
    return ", ".join(pattern.format(peer=peer, bar=f"{bar:g}") for peer, bar in wanted.items())


def _queries(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [line for name in THE_SUITE for line in result["suites"].get(name, {}).get("queries", [])]


def _suite(*names: str) -> Callable[[Results], str]:
    def tables(results: Results) -> str:
        parts = []
        for size, result in results.items():
            lines = [line for name in names for line in result["suites"].get(name, {}).get("queries", [])]
            if lines:
                parts += [f"{result['rows'] / 1e6:g} million rows (`{size}`), milliseconds:\n", _times(lines)]
        return "\n".join(parts) or _NOTHING

    return tables


def _times(lines: list[dict[str, Any]]) -> str:
    engines = list(dict.fromkeys(engine for line in lines for engine in line["median_ms"]))
    has_reference = any("pinot_elsewhere_ms" in line for line in lines)
    rows = []
    for line in lines:
        medians = [f"{line['median_ms'][engine]:.2f}" if engine in line["median_ms"] else "–" for engine in engines]
        best = f"{line['ratio'][line['best_peer']]:.2f}× {line['best_peer']}" if "best_peer" in line else "–"
        rows.append(
            [line["name"], *medians, best, *([f"{line.get('pinot_elsewhere_ms', 0):.1f}"] if has_reference else [])]
        )
    header = [
        "query",
        *(engine.replace("_", " ") for engine in engines),
        "best peer ÷ ours",
        *(["Pinot, elsewhere"] if has_reference else []),
    ]
    return _table(header, rows)


def _losses(results: Results) -> str:
    rows = []
    for size, result in results.items():
        for name, suite in result["suites"].items():
            for line in suite.get("queries", []) if isinstance(suite.get("queries"), list) else []:
                if "best_peer" in line and line["ratio"][line["best_peer"]] < 1:
                    rows.append(
                        [
                            size,
                            name,
                            line["name"],
                            f"{line['ratio'][line['best_peer']]:.2f}× {line['best_peer']}",
                            REASONS.get(line["name"], "not explained yet"),
                        ]
                    )
    rows.sort(key=lambda row: float(row[3].split("×")[0]))
    return _table(["rows", "suite", "query", "best peer ÷ ours", "why"], rows) if rows else _NOTHING


def _star_tree(results: Results) -> str:
    rows = []
    for result in results.values():
        for number, queries in result["suites"].get("startree", {}).get("by_rows", {}).items():
            for name, query in queries.items():
                on, off = query["on"], query["off"]
                rows.append(
                    [
                        f"{int(number) / 1e6:g} M",
                        name,
                        f"{off['docs']:.0f}",
                        f"{on['docs']:.0f}",
                        *(f"{mode[key]:.2f}" for key in ("server_ms", "http_ms") for mode in (off, on)),
                    ]
                )
    header = [
        "rows",
        "query",
        "docs without",
        "docs with",
        "server ms without",
        "server ms with",
        "answer ms without",
        "answer ms with",
    ]
    return _table(header, rows) if rows else _NOTHING


def _disk(results: Results) -> str:
    rows = []
    for result in results.values():
        for name, table in result["suites"].get("disk", {}).get("tables", {}).items():
            rows.append(
                [name, *(f"{size / 1e6:.0f}" for size in table["bytes"].values()), f"{table['ratio']['duckdb']:.2f}"]
            )
    return (
        _table(["table, MB", "pinotpy", "DuckDB enum", "DuckDB varchar", "chdb", "over DuckDB"], rows)
        if rows
        else _NOTHING
    )


def _fixed(results: Results) -> str:
    rows = []
    for result in results.values():
        fixed = result["suites"].get("fixed", {})
        for name, by_connections in fixed.get("queries", {}).items():
            for number, found in by_connections.items():
                costs = (found[f"{process}_cpu_us"] for process in ("broker", "server", "generator"))
                rows.append(
                    [
                        name,
                        number,
                        f"{found['queries_per_s']:.0f}",
                        f"{found['p50_ms']:.2f}",
                        f"{found['p99_ms']:.2f}",
                        *(f"{cost:.0f}" for cost in costs),
                    ]
                )
        if "first" in fixed:
            rows.append(
                [
                    "group_by, second by second from the start",
                    "8",
                    " ".join(map(str, fixed["first"])),
                    "",
                    "",
                    "",
                    "",
                    "",
                ]
            )
    return (
        _table(
            [
                "query",
                "connections",
                "answers/s",
                "p50 ms",
                "p99 ms",
                "broker CPU µs",
                "server CPU µs",
                "generator CPU µs",
            ],
            rows,
        )
        if rows
        else _NOTHING
    )


def _pipeline(results: Results) -> str:
    parts = []
    for result in results.values():
        spark, push = result["suites"].get("spark"), result["suites"].get("push")
        if spark:
            rows = []
            for name in ("alone", "one core", "local[2]", "local[2] by partition", "few rows", "many rows"):
                found = spark[name]
                peaks = (
                    f"{found['peak_bytes'][kind] >> 20}" if kind in found["peak_bytes"] else "–"
                    for kind in ("driver", "jvm", "worker")
                )
                number = found.get("rows", spark["rows"])
                rows.append(
                    [
                        name,
                        f"{number / 1e6:g} M",
                        f"{found['job_s']:.1f}",
                        f"{found['rows_per_second'] / 1e6:.2f} M",
                        str(found["segments"]),
                        *peaks,
                    ]
                )
            parts.append(
                _table(
                    [
                        "job",
                        "rows",
                        "seconds",
                        "rows/s",
                        "segments",
                        "driver MiB",
                        "its JVM MiB",
                        "a Python worker MiB",
                    ],
                    rows,
                )
                + "\n"
            )
            if "rounds" in spark:
                ratios = ", ".join(f"{one['alone']['job_s'] / one['local[2]']['job_s']:.2f}" for one in spark["rounds"])
                parts.append(
                    f"`alone` and `local[2]` took turns {len(spark['rounds'])} times, these are the medians; local[2] "
                    f"over alone, turn by turn: {ratios}. "
                    f"Java was warmed up before (`pinotpy spark warmup`: {spark['warmup_s']:.0f} s, "
                    f"{spark['warmup_bytes'] / 1e6:.0f} MB).\n"
                )
        if push:
            parts.append(
                f"{push['segments']} archives of {push['bytes_of_one'] / 1e6:.1f} MB; copied and synced the disk "
                f"takes {push['disk_mb_per_s']:.0f} MB/s.\n"
            )
            rows = []
            for name, found in push.items():
                if isinstance(found, dict):
                    memory = found["controller_memory"]
                    costs = (f"{found[f'{process}_cpu_s']:.1f}" for process in ("controller", "client"))
                    rows.append(
                        [
                            name,
                            f"{found['mb_per_s']:.0f}",
                            f"{found['share_of_disk']:.0%}",
                            *costs,
                            f"{memory['peak_mib']:.0f}",
                            f"{memory['growth_mib']:+.1f}",
                        ]
                    )
            header = [
                "push, at once",
                "MB/s",
                "of the disk",
                "controller CPU s",
                "client CPU s",
                "controller peak MiB",
                "from first to last quarter",
            ]
            parts.append(_table(header, rows) + "\n")
    return "\n".join(parts).rstrip() or _NOTHING


def _kernels(results: Results) -> str:
    parts = []
    for result in results.values():
        kernels = result["suites"].get("kernels")
        if kernels:
            parts.append(
                f"One thread streams {kernels['stream_gb_per_s']} GB/s from this machine's memory; "
                f"{kernels['rows'] / 1e6:g} million rows.\n"
            )
            rows = [
                [
                    k["family"],
                    f"{k['bytes'] / 1e6:.1f}",
                    f"{k['ms']:.2f}",
                    f"{k['ns_a_row']:.2f}",
                    f"{k['gb_per_s']:.2f}",
                    f"{k['share_of_stream']:.1%}",
                ]
                for k in kernels["kernels"]
            ]
            parts.append(_table(["kernels", "MB touched", "ms", "ns a row", "GB/s", "of the stream"], rows))
    return "\n".join(parts) or _NOTHING


def _machine(results: Results) -> str:
    rows = []
    for name, result in results.items():
        machine = result["machine"]
        versions = ", ".join(f"{package} {version}" for package, version in result["versions"].items())
        load = f"{result['load_before']:.1f} → {result['load_after']:.1f}"
        rows.append(
            [
                f"`quoted-{name}.json`",
                machine["cpu"],
                str(machine["cores"]),
                machine["python"],
                result["commit"][:7],
                f"{result['rows'] / 1e6:g} M",
                str(result["repetitions"]),
                load,
                versions,
            ]
        )
    return (
        _table(
            ["result", "CPU", "cores", "Python", "commit", "rows", "repetitions", "load before → after", "versions"],
            rows,
        )
        if rows
        else _NOTHING
    )


_NOTHING: Final = "No quoted result yet: `make bench-quoted`."


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


SECTIONS: Final[dict[str, Callable[[Results], str]]] = {
    "machine": _machine,
    "summary": _summary,
    "suite": _suite("ssb", "own"),
    "study": _suite("study"),
    "selective": _suite("selective"),
    "warmed": _suite("selective_warmed"),
    "losses": _losses,
    "startree": _star_tree,
    "disk": _disk,
    "fixed": _fixed,
    "pipeline": _pipeline,
    "kernels": _kernels,
}


def main() -> None:
    results = read_results()
    PAGE.write_text(page(PAGE.read_text(), results))
    if "10m" in results:
        CHART.write_text(chart(results["10m"]))


if __name__ == "__main__":
    main()
