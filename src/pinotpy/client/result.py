"""ResultSetGroup: the answer of a broker, all shapes of both dialects behind one type.

Seen in the Java client's way it has `result_set_count` result sets: one per aggregation function, or one selection.
Seen in Python's way it is `tables`: the same, but that aggregations without GROUP BY are one row with a column each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pinotpy.client.frames import type_of_values
from pinotpy.client.result_set import ResultKind, ResultSet
from pinotpy.errors import RemoteError, UserError, error_from_code


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
    num_consuming_segments_queried: int = 0
    num_segments_pruned_by_broker: int = 0
    num_segments_pruned_by_server: int = 0
    num_servers_queried: int = 0
    num_servers_responded: int = 0
    total_docs: int = 0
    num_groups_limit_reached: bool = False
    min_consuming_freshness_time_ms: int = 0
    time_used_ms: int = 0


def _wire_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


_STATISTICS = {name: _wire_name(name) for name in Statistics.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class ResultSetGroup:
    """One answer. `columns`, `types`, `rows` and iteration are those of the first table; most answers have one.

    `partial`: rows are missing; `exactness` and `reasons` say more. `warnings`: what is worth knowing of an answer that
    is right (docs/client.md lists it).
    `trace` is server → operators, if the query asked for it. `response` is the broker's JSON as it came, without rows
    if these came as Arrow.
    """

    result_sets: tuple[ResultSet, ...]
    tables: tuple[ResultSet, ...]
    exceptions: tuple[BrokerException, ...] = ()
    partial: bool = False
    exactness: str = "exact"
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    statistics: Statistics = field(default_factory=Statistics)
    trace: Mapping[str, Any] = field(default_factory=dict, repr=False)
    response: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def result_set_count(self) -> int:
        return len(self.result_sets)

    def result_set(self, index: int) -> ResultSet:
        """A result set; they count from 0."""
        if not 0 <= index < len(self.result_sets):
            raise UserError(f"there is no result set {index}: the answer has {len(self.result_sets)}, counted from 0")
        return self.result_sets[index]

    @property
    def counters(self) -> dict[str, int | float | bool]:
        """Every number of the answer beside its rows by the broker's name for it, also those that `statistics` does not
        know.
        """
        return {
            name: value
            for name, value in self.response.items()
            if isinstance(value, int | float) and name != "partialResult"
        }

    @property
    def columns(self) -> tuple[str, ...]:
        return self._first.columns

    @property
    def types(self) -> tuple[str, ...]:
        return self._first.types

    @property
    def rows(self) -> list[list[Any]]:
        return self._first.rows

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self._first)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The first table's rows as dictionaries by column name."""
        return self._first.to_dicts()

    def to_arrow(self) -> Any:
        """The first table as a pyarrow Table (see ResultSet)."""
        return self._first.to_arrow()

    def to_pandas(self) -> Any:
        """The first table as a pandas DataFrame (see ResultSet)."""
        return self._first.to_pandas()

    def to_polars(self) -> Any:
        """The first table as a polars DataFrame (see ResultSet)."""
        return self._first.to_polars()

    @property
    def _first(self) -> ResultSet:
        return self.tables[0] if self.tables else ResultSet((), (), [])


def parse_response(response: Any, table: ResultSet | None = None) -> ResultSetGroup:
    """Read a broker's JSON; `table`, if its rows came beside it. RemoteError if it is none."""
    if not isinstance(response, dict):
        raise RemoteError(f"expected a broker's answer, found {str(response)[:80]!r}")
    try:
        return _parse(response, table)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as problem:
        raise RemoteError(f"a broker's answer cannot be read: {type(problem).__name__} {problem}") from problem


def raise_for_exceptions(result: ResultSetGroup, broker: str = "") -> None:
    """Raise the error that the first exception of `result` stands for; its `context["result"]` holds the answer."""
    if not result.exceptions:
        return
    first = result.exceptions[0]
    more = f" (and {len(result.exceptions) - 1} more)" if len(result.exceptions) > 1 else ""
    raise error_from_code(first.code, first.message + more, result=result, broker=broker)


def _parse(response: dict[str, Any], table: ResultSet | None) -> ResultSetGroup:
    exceptions = tuple(
        BrokerException(int(entry.get("errorCode", 450)), str(entry.get("message", "")))
        for entry in response.get("exceptions") or ()
    )
    partial = bool(response.get("partialResult", False))
    result_sets = tuple(_result_sets(response)) if table is None else (table,)
    return ResultSetGroup(
        result_sets=result_sets,
        tables=_tables(result_sets),
        exceptions=exceptions,
        partial=partial,
        exactness=str(response.get("exactness", "partial" if partial else "exact")),
        reasons=tuple(str(reason) for reason in response.get("exactnessReasons") or ()),
        warnings=tuple(str(warning) for warning in response.get("warnings") or ()),
        statistics=Statistics(
            **{
                name: type(getattr(Statistics(), name))(response[key])
                for name, key in _STATISTICS.items()
                if response.get(key) is not None
            }
        ),
        trace={server: _unpacked(tree) for server, tree in dict(response.get("traceInfo") or {}).items()},
        response=response,
    )


def _result_sets(response: dict[str, Any]) -> Iterator[ResultSet]:
    table = response.get("resultTable")
    if table:
        schema = table["dataSchema"]
        yield _with_types(
            tuple(schema["columnNames"]), tuple(schema["columnDataTypes"]), list(table["rows"]), ResultKind.TABLE
        )
        return
    selection = response.get("selectionResults")
    if selection:
        yield _of_values(tuple(selection["columns"]), list(selection["results"]), ResultKind.SELECTION)
        return
    for entry in response.get("aggregationResults") or ():
        if "groupByResult" in entry:
            keys = tuple(entry["groupByColumns"])
            rows = [[*group["group"], group["value"]] for group in entry["groupByResult"]]
            yield _of_values((*keys, entry["function"]), rows, ResultKind.GROUP_BY, len(keys))
        else:
            yield _of_values((entry["function"],), [[entry["value"]]], ResultKind.AGGREGATION)


def _of_values(
    columns: tuple[str, ...], rows: list[list[Any]], kind: ResultKind, group_key_length: int = 0
) -> ResultSet:
    is_aggregation = kind in (ResultKind.AGGREGATION, ResultKind.GROUP_BY)
    types = tuple(
        type_of_values([row[position] for row in rows], aggregated=is_aggregation and position >= group_key_length)
        for position in range(len(columns))
    )
    return _with_types(columns, types, rows, kind, group_key_length)


def _with_types(
    columns: tuple[str, ...], types: tuple[str, ...], rows: list[list[Any]], kind: ResultKind, group_key_length: int = 0
) -> ResultSet:
    width = len(columns)
    if len(types) != width or any(len(row) != width for row in rows):
        raise ValueError(f"expected {width} values a row, one per column")
    return ResultSet(columns, types, rows, kind, group_key_length)


def _tables(result_sets: tuple[ResultSet, ...]) -> tuple[ResultSet, ...]:
    """Aggregations without GROUP BY side by side in one row."""
    if not all(table.kind is ResultKind.AGGREGATION for table in result_sets) or len(result_sets) < 2:
        return result_sets
    columns, types = (tuple(table.columns[0] for table in result_sets), tuple(table.types[0] for table in result_sets))
    return (ResultSet(columns, types, [[table.rows[0][0] for table in result_sets]], ResultKind.AGGREGATION),)


def _unpacked(tree: Any) -> Any:
    """A server's trace, which may come as JSON in a text."""
    if not isinstance(tree, str):
        return tree
    try:
        return json.loads(tree)
    except ValueError:
        return tree
