"""Bytes on disk of each table without indexes, beside the peers' files of the same rows."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

from bench.measure import best_of_variants
from bench.ours import segment_directories
from bench.peers import Peer
from bench.tables import TABLES
from bench.tables.table import say

FILES = ("duckdb_enum", "duckdb_varchar", "chdb")


def measure_disk(rows: int, data_dir: Path) -> dict[str, Any]:
    """By table: bytes by engine, and our bytes over DuckDB's smaller file."""
    tables = {}
    for table in TABLES.values():
        ours = sum(file.stat().st_size for directory in segment_directories(table, rows, data_dir) for file in directory.iterdir())
        sizes = {"pinotpy": ours}
        for engine in FILES:
            peer = Peer(engine, table.name, rows, data_dir)
            sizes[engine] = peer.facts["size_bytes"]
            peer.close()
        smallest = best_of_variants({engine: size for engine, size in sizes.items() if engine != "pinotpy"})
        tables[table.name] = {"bytes": sizes, "ratio": {peer: round(ours / size, 3) for peer, size in smallest.items()}}
        say(f"disk: {table.name}: {ours / 1e6:.0f} MB, DuckDB {smallest['duckdb'] / 1e6:.0f} MB, chdb {smallest['chdb'] / 1e6:.0f} MB")
    suite = [tables[name]["ratio"]["duckdb"] for name in ("lineorder", "requests")]
    whole = {engine: sum(tables[name]["bytes"][engine] for name in ("lineorder", "requests")) for engine in ("pinotpy", "duckdb_enum", "duckdb_varchar")}
    return {
        "tables": tables,
        "suite_ratio": round(whole["pinotpy"] / min(whole["duckdb_enum"], whole["duckdb_varchar"]), 3),
        "suite_geometric_mean": round(math.exp(statistics.fmean(map(math.log, suite))), 3),
    }
