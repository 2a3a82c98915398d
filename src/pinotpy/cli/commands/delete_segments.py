"""Delete segments of a table: by name, all, or those whose rows are older than a period."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinotpy.cli import options
from pinotpy.cli.confirming import confirm
from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.showing import counted, some_of, utc
from pinotpy.errors import NotFoundError, UserError

if TYPE_CHECKING:
    from pinotpy.client.controller import ControllerClient

NAME = "delete-segments"
NAMES_AT_ONCE = 5_000


@takes(controller_options)
def run(
    common: ControllerOptions,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="name of the table")],
    segments: Annotated[list[str] | None, typer.Argument(metavar="SEGMENT", help="names of segments")] = None,
    every: Annotated[bool, typer.Option("--all", help="every segment; the table stays")] = False,
    older_than: Annotated[
        str, typer.Option("--older-than", help="segments all of whose rows are older: 30d, 12h, 1d6h")
    ] = "",
    table_type: Annotated[
        str, typer.Option("--table-type", help="only of this half of a hybrid table: OFFLINE or REALTIME")
    ] = "",
    retention: Annotated[
        str,
        typer.Option(
            "--retention", help="how long the archives are kept: 7d; 0d: not at all (default: as the table says)"
        ),
    ] = "",
    yes: options.Yes = False,
) -> None:
    if sum((bool(segments), every, bool(older_than))) != 1:
        raise UserError("expected names of segments, --all or --older-than: one of them")
    from pinotpy.names import split_table_name

    table, suffix = split_table_name(table)
    if suffix is not None and table_type.upper() not in ("", suffix):
        raise UserError(f"the table is named with type {suffix}, and --table-type says {table_type}")
    table_type = suffix or table_type
    with common.client_of(table) as client:
        chosen = _chosen(client, table, segments or [], table_type, older_than)
        if every:
            chosen, consuming = _without_consuming(client, table, chosen)
            if consuming:
                typer.echo(
                    f"{counted(len(consuming), 'segment')} that take rows of the stream stay ({some_of(consuming)}): "
                    f"POST /tables/{table}/forceCommit ends them, delete-table deletes them with the table",
                    err=True,
                )
        number = sum(len(names) for names in chosen.values())
        if number == 0:
            why = _nothing_older(client, table, older_than) if older_than else "has a place in the table"
            _print(common, {}, [f"no segment of table '{table}' {why}: nothing to delete"])
            return
        shown = some_of([name for names in chosen.values() for name in names])
        confirm(f"Delete {counted(number, 'segment')} of table '{table}' ({shown})", yes=yes)
        for kind, names in chosen.items():
            for first in range(0, len(names), NAMES_AT_ONCE):
                client.delete_segments(
                    f"{table}_{kind}", names[first : first + NAMES_AT_ONCE], retention=retention or None
                )
        kept = {entry["segmentName"]: entry["keptUntilMs"] for entry in client.deleted_segments(table)}
    lines = [f"{counted(len(names), 'segment')} of {table}_{kind} deleted" for kind, names in chosen.items()]
    untils = [kept[name] for names in chosen.values() for name in names if name in kept]
    if untils:
        lines.append(
            f"archives of {len(untils):,} of them are kept until {utc(min(untils))}: restore-segments brings them back"
        )
    else:
        lines.append("no archives of them are kept in the deep store")
    _print(common, chosen, lines)


def _chosen(
    client: ControllerClient, table: str, names: list[str], table_type: str, older_than: str
) -> dict[str, list[str]]:
    """Table type → names of segments. NotFoundError names those that the table does not have."""
    before_ms = None
    if older_than:
        from pinotpy.controller.periods import period_ms

        before_ms = int(time.time() * 1000) - period_ms(older_than, "--older-than")
    present = {
        kind: found
        for kind, found in client.segments(table, before_ms=before_ms).items()
        if table_type.upper() in ("", kind)
    }
    if not names:
        return {kind: found for kind, found in present.items() if found}
    unknown = sorted(set(names) - {name for found in present.values() for name in found})
    if unknown:
        raise NotFoundError(f"table '{table}' has no segment {some_of(unknown)}; nothing was deleted")
    wanted = set(names)
    chosen = {kind: [name for name in found if name in wanted] for kind, found in present.items()}
    return {kind: found for kind, found in chosen.items() if found}


def _nothing_older(client: ControllerClient, table: str, older_than: str) -> str:
    """Why no segment was found by its age: without a time column of the table none has times."""
    configs = client.table(table).values()
    if not any(config.get("segmentsConfig", {}).get("timeColumnName") for config in configs):
        return "has times, as the table config names no timeColumnName; choose them by name, or --all"
    return f"has rows that are all older than {older_than}"


def _without_consuming(
    client: ControllerClient, table: str, chosen: dict[str, list[str]]
) -> tuple[dict[str, list[str]], list[str]]:
    """Those that can be deleted, and those that take rows of their stream."""
    ideal = client.ideal_state(table).get("REALTIME") or {} if "REALTIME" in chosen else {}
    consuming = {name for name, replicas in ideal.items() if "CONSUMING" in replicas.values()}
    rest = {kind: [name for name in names if name not in consuming] for kind, names in chosen.items()}
    return {kind: names for kind, names in rest.items() if names}, sorted(consuming)


def _print(common: ControllerOptions, deleted: dict[str, Any], lines: list[str]) -> None:
    typer.echo(json.dumps({"deleted": deleted}, indent=2) if common.as_json else "\n".join(lines))
