"""Show a table: state, sizes, columns, segments and config."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.showing import add_texts, bytes_text, columns_of, counted, plain_table, replica_counts, utc

NAME = "show-table"
SEGMENTS_SHOWN_MAX = 20


@takes(controller_options)
def run(
    common: ControllerOptions,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="name of the table, without type")],
    all_segments: Annotated[bool, typer.Option("--all-segments", help="list every segment, not the first 20")] = False,
) -> None:
    from pinotpy.names import split_table_name

    name = split_table_name(table)[0]
    with common.client_of(table) as client:
        configs = client.table(table)
        size = client.table_size(name)
        ideal, view = client.ideal_state(name), client.external_view(name)
        found: dict[str, Any] = {"table": name, "schema": client.table_schema(name), "sizes": size, "halves": {}}
        for kind, config in configs.items():
            wanted, served = ideal.get(kind) or {}, view.get(kind) or {}
            found["halves"][kind] = {
                "state": client.table_state(name, table_type=kind),
                "replicas": replica_counts(wanted, served),
                "segments": _segments(client.segment_records(name, table_type=kind), wanted, served),
                "config": config,
            }
    if common.as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from pinotpy.cli.result_table import answer_console

    console = answer_console()
    columns = plain_table("column", "type", "field", title=f"Columns of {name}")
    add_texts(columns, columns_of(found["schema"]))
    console.print(columns)
    for kind, half in found["halves"].items():
        replicas, part = half["replicas"], size.get(f"{kind.lower()}Segments") or {}
        console.print(
            f"\n{name}_{kind}: {half['state']}, {counted(replicas['segments'], 'segment')}, "
            f"{replicas['serving']} of {replicas['wanted']} replicas serve, {replicas['error']} in error, "
            f"{bytes_text(part.get('reportedSizeInBytes'))} on servers "
            f"({bytes_text(part.get('reportedSizePerReplicaInBytes'))} a replica)",
            soft_wrap=True,
        )
        consuming = sum("CONSUMING" in states.values() for states in (ideal.get(kind) or {}).values())
        if consuming:
            told = f"{counted(consuming, 'segment')} of the stream being read: of no size on disk until committed"
            console.print(told, soft_wrap=True)
        if (missing := part.get("missingSegments", 0) - consuming) > 0:
            console.print(f"no server tells the size of {counted(missing, 'segment')}", soft_wrap=True)
        _print_segments(console, half["segments"], all_segments=all_segments)
        console.print("config:")
        console.print(json.dumps(half["config"], indent=2, ensure_ascii=False), soft_wrap=True, markup=False)


def _segments(
    records: dict[str, dict[str, str]], ideal: dict[str, dict[str, str]], view: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    segments = []
    for name in sorted({*records, *ideal}):
        record = records.get(name, {})
        segments.append(
            {
                "name": name,
                "docs": _number(record.get("segment.total.docs")),
                "startMs": _time_ms(record, "start"),
                "endMs": _time_ms(record, "end"),
                "crc": record.get("segment.crc"),
                "replicas": {
                    server: (view.get(name) or {}).get(server, "missing") for server in sorted(ideal.get(name, {}))
                },
            }
        )
    return segments


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def _time_ms(record: dict[str, str], which: str) -> int | None:
    """Of the oldest or newest row; records have it in a unit of their own."""
    units_ms = {"MILLISECONDS": 1, "SECONDS": 1_000, "MINUTES": 60_000, "HOURS": 3_600_000, "DAYS": 86_400_000}
    value = _number(record.get(f"segment.{which}.time"))
    unit_ms = units_ms.get(record.get("segment.time.unit", ""))
    return value * unit_ms if value is not None and value >= 0 and unit_ms is not None else None


def _print_segments(console: Any, segments: list[dict[str, Any]], *, all_segments: bool) -> None:
    shown = segments if all_segments else segments[:SEGMENTS_SHOWN_MAX]
    table = plain_table("segment", "docs", "from", "to", "replicas", right=("docs",))
    for segment in shown:
        times = (utc(at) if at is not None else "" for at in (segment["startMs"], segment["endMs"]))
        docs = "" if segment["docs"] is None else f"{segment['docs']:,}"
        states = ", ".join(f"{server} {state}" for server, state in segment["replicas"].items())
        table.add_row(segment["name"], docs, *times, states)
    if shown:
        console.print(table)
    if len(shown) < len(segments):
        console.print(f"… and {len(segments) - len(shown):,} more; --all-segments or --json lists all")
