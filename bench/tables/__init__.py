"""The generated tables: `ads` (clicks on advertisements), `lineorder` (the Star Schema Benchmark, flat), `requests`
(our own, with raw texts and nulls).
"""

from __future__ import annotations

from typing import Final

from bench.tables.ads import ADS
from bench.tables.lineorder import LINEORDER
from bench.tables.requests import REQUESTS
from bench.tables.table import Table

TABLES: Final[dict[str, Table]] = {table.name: table for table in (ADS, LINEORDER, REQUESTS)}
