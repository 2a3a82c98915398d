"""Proves that the README's numbers of speed are those of the kept result of `make bench-quoted`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bench.run import THE_SUITE

ROOT = Path(__file__).parent.parent


def test_the_readme_quotes_the_kept_result() -> None:
    result = json.loads((ROOT / "bench/results/quoted-10m.json").read_text())
    text = (ROOT / "README.md").read_text()
    (row,) = re.findall(r"^\| .* \| ([0-9a-f]{7}) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE)
    commit, *means = row
    assert result["commit"].startswith(commit) and result["rows"] >= 10_000_000
    assert [float(mean) for mean in means] == [
        round(result["geometric_mean"][peer], 2) for peer in ("duckdb", "chdb", "polars")
    ]
    suites = {name: len(result["suites"][name]["queries"]) for name in THE_SUITE}
    assert (
        f"{sum(suites.values())} queries" in text
        and f"the {suites['ssb']} of the Star Schema Benchmark, {suites['own']} of our own" in text
    )
