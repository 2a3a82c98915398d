"""Proves that the README's numbers of speed are those of the kept result of `make bench`."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_readme_quotes_the_kept_result() -> None:
    result = json.loads((ROOT / "bench/results/quoted.json").read_text())
    ratios = {query["name"]: query["ratio"] for query in result["queries"]}
    text = (ROOT / "README.md").read_text()
    (row,) = re.findall(r"^\| .* \| ([0-9a-f]{7}) \| ([\d.]+) \| ([\d.]+) \(.*\) to ([\d.]+) \(.*\) \|$", text, re.MULTILINE)
    commit, mean, best, worst = row
    assert result["commit"].startswith(commit)
    assert result["rows"] >= 10_000_000 and f"{len(ratios)} queries" in text
    assert float(mean) == round(result["geometric_mean"], 2)
    assert (float(best), float(worst)) == (round(max(ratios.values()), 1), round(min(ratios.values()), 2))
    counted = [ratio for name, ratio in ratios.items() if name != "q01_count"]
    assert math.isclose(math.exp(sum(map(math.log, counted)) / len(counted)), result["geometric_mean"], rel_tol=0.01)
