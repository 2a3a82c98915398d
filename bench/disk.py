"""Bytes on disk of each table without indexes, beside the peers' files of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.measure import best_of_variants
from bench.ours import segment_directories
from bench.peers import Peer
from bench.tables import TABLES
from bench.tables.table import say


def measure_disk(rows: int, engines: Sequence[str], data_dir: Path) -> dict[str, Any]:
    """By table: bytes by engine that has files, and our bytes over each peer's; of both of DuckDB's files the smaller
    one.
    """
    engines = [engine for engine in engines if engine != "polars"]
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for table in TABLES.values():
        ours = sum(
            file.stat().st_size
            for directory in segment_directories(table, rows, data_dir)
            for file in directory.iterdir()
        )
        sizes = {"pinotpy": ours}
        for engine in engines:
            peer = Peer(engine, table.name, rows, data_dir)
            sizes[engine] = peer.facts["size_bytes"]
            peer.close()
        smallest = best_of_variants({engine: size for engine, size in sizes.items() if engine != "pinotpy"})
        tables[table.name] = {"bytes": sizes, "ratio": {peer: round(ours / size, 3) for peer, size in smallest.items()}}
        say(
            f"disk: {table.name}: {ours / 1e6:.0f} MB; "
            f"{', '.join(f'{peer} {size / 1e6:.0f} MB' for peer, size in smallest.items())}"
        )
    whole = {
        engine: sum(tables[name]["bytes"][engine] for name in ("lineorder", "requests"))
        for engine in ("pinotpy", *engines)
    }
    peers = best_of_variants({engine: size for engine, size in whole.items() if engine != "pinotpy"})
    return {"tables": tables, "suite_ratio": {peer: round(whole["pinotpy"] / size, 3) for peer, size in peers.items()}}
