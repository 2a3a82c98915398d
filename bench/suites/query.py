"""One question in the words of every engine."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Parameters = dict[str, Any]
# (the polars module, the table as a lazy frame, the parameters) → the rows, not yet collected.
PolarsQuery = Callable[[Any, Any, Parameters], Any]


@dataclass(frozen=True, slots=True)
class Query:
    """A question whose literals differ in every repetition.

    sql: DuckDB's text with `{name}` for each of `parameters`; also the text of those that have no other.
    ours, chdb: their texts where their dialects differ; `pql`: ours is asked in PQL.
    polars: the same as a polars expression; None: polars cannot say it, and is left out.
    tolerance: relative difference at which numbers count as equal; above 1e-9 for functions that estimate.
    ordered: the text defines the order of the rows; else rows are compared as a set.
    nulls: asked with SQL nulls; else a missing value is the default.
    """

    name: str
    parameters: Callable[[random.Random], Parameters]
    sql: str
    polars: PolarsQuery | None
    ours: str | None = None
    pql: str | None = None
    chdb: str | None = None
    tolerance: float = 1e-9
    ordered: bool = False
    nulls: bool = False
    note: str = ""

    def drawn(self, repetition: int) -> Parameters:
        """The literals of one repetition, the same in every run."""
        return self.parameters(random.Random(f"{self.name} {repetition}"))

    def text_of_ours(self, parameters: Parameters) -> str:
        text = (self.pql or self.ours or self.sql).format(**parameters)
        return f"SET enableNullHandling = true; {text}" if self.nulls else text


@dataclass(frozen=True, slots=True)
class Suite:
    """Queries over one table. `reference_ms`: what Apache Pinot took on another machine, quoted beside; `left_out`:
    names that the geometric mean leaves out; `indexing`: keys of tableIndexConfig that replace the table's own, named
    by `variant`.
    """

    name: str
    table: str
    queries: tuple[Query, ...]
    reference_ms: dict[str, float]
    left_out: tuple[str, ...] = ()
    variant: str = "plain"
    indexing: dict[str, Any] = field(default_factory=dict)

    def config(self, config: dict[str, Any]) -> dict[str, Any]:
        """The table config with this suite's indexes."""
        return {**config, "tableIndexConfig": {**config["tableIndexConfig"], **self.indexing}}


def quoted(values: list[str]) -> str:
    """`'a', 'b'`"""
    return ", ".join(f"'{value}'" for value in values)


def matching(pl: Any, t: Any, column: str, pattern: str) -> Any:
    """The categories of an Enum column that match: what polars needs in order to search 20,000 texts and not ten
    million.
    """
    categories = t.collect_schema()[column].categories
    return categories.filter(categories.str.contains(pattern)).to_list()
