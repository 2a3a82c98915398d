"""Times, sizes, columns and tables as commands print them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

NAMES_SHOWN_MAX = 3
_FIELDS = {
    "dimensionFieldSpecs": "dimension",
    "metricFieldSpecs": "metric",
    "dateTimeFieldSpecs": "time",
    "timeFieldSpec": "time",
}


def utc(time_ms: int | float) -> str:
    """`2026-01-31 12:00:00 UTC` of milliseconds since the epoch."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def days_text(duration_ms: int) -> str:
    """`0.5 days`, `99,999,999,999,999 days`."""
    days = duration_ms / 86_400_000
    return f"{days:g} days" if days < 100_000 else f"{days:,.0f} days"


def bytes_text(size_bytes: int | None) -> str:
    """`12.3 MB`; `unknown` where nobody says (the controller's -1)."""
    from rich.filesize import decimal

    return "unknown" if size_bytes is None or size_bytes < 0 else decimal(size_bytes)


def counted(number: int, what: str) -> str:
    """`1 segment`, `1,200 segments`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def some_of(names: list[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN_MAX:,} more" if len(names) > NAMES_SHOWN_MAX else ""
    return ", ".join(names[:NAMES_SHOWN_MAX]) + more


def plain_table(*columns: str, right: tuple[str, ...] = (), title: str | None = None) -> Table:
    """A table without frame. right: columns of numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def columns_of(schema: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(name, type, kind of field) of each column of a schema, as it stands there."""
    columns = []
    for key, field in _FIELDS.items():
        specs = schema.get(key) or []
        for spec in specs if isinstance(specs, list) else [specs.get("incomingGranularitySpec") or specs]:
            multiple = "" if spec.get("singleValueField", True) else "[]"
            columns.append((str(spec["name"]), f"{spec['dataType']}{multiple}", field))
    return columns


def add_texts(table: Table, rows: Iterable[Sequence[str]]) -> None:
    """Add rows of what users named: brackets in it are no markup, and control characters do not reach the terminal."""
    from rich.markup import escape

    from pinotpy.cli.result_table import visible

    for row in rows:
        table.add_row(*(escape(visible(cell)) for cell in row))


def replica_counts(ideal: Mapping[str, Mapping[str, str]], view: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Of one half of a table: segments, replicas wanted, those that serve, those in ERROR."""
    replicas = [(segment, instance) for segment, states in ideal.items() for instance in states]
    reached = [view.get(segment, {}).get(instance) for segment, instance in replicas]
    return {
        "segments": len(ideal),
        "wanted": len(replicas),
        "serving": sum(state in ("ONLINE", "CONSUMING") for state in reached),
        "error": sum(state == "ERROR" for state in reached),
    }
