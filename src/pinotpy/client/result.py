"""Answers of a broker as tables: one type for all shapes of both dialects.

SQL: `resultTable` is one table with typed columns. PQL: `selectionResults` is one table; aggregations without GROUP BY
give one row with a column per function; with GROUP BY one table per function (group columns, then the value), as PQL
orders each by itself. Values of PQL are text, as the broker sends them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pinotpy.errors import RemoteError, error_from_code


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Columns, their types (pinotpy's names; STRING throughout in PQL) and rows."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True)
class BrokerException:
    """One entry of `exceptions`."""

    code: int
    message: str


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the query cost, as the broker counted."""

    num_docs_scanned: int = 0
    num_entries_scanned_in_filter: int = 0
    num_entries_scanned_post_filter: int = 0
    num_segments_queried: int = 0
    num_segments_processed: int = 0
    num_segments_matched: int = 0
    num_servers_queried: int = 0
    num_servers_responded: int = 0
    total_docs: int = 0
    num_groups_limit_reached: bool = False
    time_used_ms: int = 0


_STATISTICS = {
    "num_docs_scanned": "numDocsScanned",
    "num_entries_scanned_in_filter": "numEntriesScannedInFilter",
    "num_entries_scanned_post_filter": "numEntriesScannedPostFilter",
    "num_segments_queried": "numSegmentsQueried",
    "num_segments_processed": "numSegmentsProcessed",
    "num_segments_matched": "numSegmentsMatched",
    "num_servers_queried": "numServersQueried",
    "num_servers_responded": "numServersResponded",
    "total_docs": "totalDocs",
    "num_groups_limit_reached": "numGroupsLimitReached",
    "time_used_ms": "timeUsedMs",
}


@dataclass(frozen=True, slots=True)
class ResultSet:
    """One answer. `columns`, `types`, `rows` and iteration are those of the first table; most answers have one.

    `partial`: rows are missing; `exactness` and `reasons` say more. `response` is the broker's JSON as it came.
    """

    tables: tuple[ResultTable, ...]
    exceptions: tuple[BrokerException, ...] = ()
    partial: bool = False
    exactness: str = "exact"
    reasons: tuple[str, ...] = ()
    statistics: Statistics = field(default_factory=Statistics)
    response: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.tables[0].columns if self.tables else ()

    @property
    def types(self) -> tuple[str, ...]:
        return self.tables[0].types if self.tables else ()

    @property
    def rows(self) -> list[list[Any]]:
        return self.tables[0].rows if self.tables else []

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_arrow(self) -> Any:
        """The first table as a pyarrow Table (imports pyarrow)."""
        import pyarrow as pa

        return pa.table({name: [row[i] for row in self.rows] for i, name in enumerate(self.columns)})

    def to_pandas(self) -> Any:
        """The first table as a pandas DataFrame (imports pandas)."""
        import pandas as pd  # type: ignore[import-untyped]

        return pd.DataFrame(self.rows, columns=list(self.columns))


def parse_response(response: Any) -> ResultSet:
    """Read a broker's JSON. RemoteError if it is none."""
    if not isinstance(response, dict):
        raise RemoteError(f"expected a broker's answer, found {str(response)[:80]!r}")
    try:
        return _parse(response)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise RemoteError(f"a broker's answer cannot be read: {type(problem).__name__} {problem}") from problem


def raise_for_exceptions(result: ResultSet) -> None:
    """Raise the error that the first exception of `result` stands for; its `context["result"]` holds the answer."""
    if not result.exceptions:
        return
    first = result.exceptions[0]
    more = f" (and {len(result.exceptions) - 1} more)" if len(result.exceptions) > 1 else ""
    raise error_from_code(first.code, first.message + more, result=result)


def _parse(response: dict[str, Any]) -> ResultSet:
    exceptions = tuple(BrokerException(int(entry.get("errorCode", 450)), str(entry.get("message", ""))) for entry in response.get("exceptions") or ())
    partial = bool(response.get("partialResult", False))
    return ResultSet(
        tables=tuple(_tables(response)),
        exceptions=exceptions,
        partial=partial,
        exactness=str(response.get("exactness", "partial" if partial else "exact")),
        reasons=tuple(str(reason) for reason in response.get("exactnessReasons") or ()),
        statistics=Statistics(**{name: type(getattr(Statistics(), name))(response[key]) for name, key in _STATISTICS.items() if response.get(key) is not None}),
        response=response,
    )


def _tables(response: dict[str, Any]) -> Iterator[ResultTable]:
    table = response.get("resultTable")
    if table:
        schema = table["dataSchema"]
        yield ResultTable(tuple(schema["columnNames"]), tuple(schema["columnDataTypes"]), list(table["rows"]))
        return
    selection = response.get("selectionResults")
    if selection:
        columns = tuple(selection["columns"])
        yield ResultTable(columns, ("STRING",) * len(columns), list(selection["results"]))
        return
    aggregations = response.get("aggregationResults") or []
    grouped = [entry for entry in aggregations if "groupByResult" in entry]
    for entry in grouped:
        columns = (*entry["groupByColumns"], entry["function"])
        rows = [[*group["group"], group["value"]] for group in entry["groupByResult"]]
        yield ResultTable(columns, ("STRING",) * len(columns), rows)
    if aggregations and not grouped:
        columns = tuple(entry["function"] for entry in aggregations)
        yield ResultTable(columns, ("STRING",) * len(columns), [[entry["value"] for entry in aggregations]])
