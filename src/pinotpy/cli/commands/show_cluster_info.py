"""Show instances, tables and how many replicas of their segments serve."""

from __future__ import annotations

import json
from typing import Any

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.showing import replica_counts

NAME = "show-cluster-info"


@takes(controller_options)
def run(common: ControllerOptions) -> None:
    with common.client() as client:
        info: dict[str, Any] = {"instances": [client.instance(name) for name in client.instances()], "tables": {}}
        for table in client.tables():
            ideal, view = client.ideal_state(table), client.external_view(table)
            for kind, segments in ideal.items():
                if segments is not None:
                    counts = replica_counts(segments, view.get(kind) or {})
                    info["tables"][f"{table}_{kind}"] = counts | _replaced(
                        segments, client.list_lineage(table, table_type=kind)
                    )
    if common.as_json:
        typer.echo(json.dumps(info, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    instances = Table("instance", "host", "port", "enabled", "tags", title="Instances", show_edge=False)
    for instance in info["instances"]:
        tags = ", ".join(instance.get("tags") or [])
        instances.add_row(
            instance["instanceName"],
            str(instance.get("hostName")),
            str(instance.get("port")),
            str(instance.get("enabled")),
            tags,
        )
    tables = Table(
        "table",
        "segments",
        "hidden",
        "being replaced",
        "replicas serving",
        "replicas wanted",
        "in error",
        title="Tables",
        show_edge=False,
    )
    for name, counts in info["tables"].items():
        tables.add_row(
            name,
            *(
                str(counts[key])
                for key in ("segments", "hidden", "replacementsInProgress", "serving", "wanted", "error")
            ),
        )
    console = Console()
    console.print(instances)
    console.print(tables)


def _replaced(ideal: dict[str, dict[str, str]], lineage: dict[str, Any]) -> dict[str, int]:
    """Segments that queries do not see, as others stand for them, and how many replacements are under way."""
    entries = list((lineage.get("lineageEntries") or {}).values())
    hidden = {
        name for entry in entries for name in entry["segmentsFrom" if entry["state"] == "COMPLETED" else "segmentsTo"]
    }
    return {
        "hidden": len(hidden & ideal.keys()),
        "replacementsInProgress": sum(entry["state"] == "IN_PROGRESS" for entry in entries),
    }
