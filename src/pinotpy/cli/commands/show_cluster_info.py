"""Show instances, tables and how many replicas of their segments serve."""

from __future__ import annotations

import json
from typing import Any

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes

NAME = "show-cluster-info"


@takes(controller_options)
def run(common: ControllerOptions) -> None:
    with common.client() as client:
        found: dict[str, Any] = {"instances": [client.instance(name) for name in client.instances()], "tables": {}}
        for table in client.tables():
            ideal, view = client.ideal_state(table), client.external_view(table)
            for kind, segments in ideal.items():
                if segments is not None:
                    found["tables"][f"{table}_{kind}"] = _replicas(segments, (view.get(kind) or {}))
    if common.as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    instances = Table("instance", "host", "port", "enabled", "tags", title="Instances", show_edge=False)
    for instance in found["instances"]:
        tags = ", ".join(instance.get("tags") or [])
        instances.add_row(instance["instanceName"], str(instance.get("hostName")), str(instance.get("port")), str(instance.get("enabled")), tags)
    tables = Table("table", "segments", "replicas serving", "replicas wanted", "in error", title="Tables", show_edge=False)
    for name, counts in found["tables"].items():
        tables.add_row(name, str(counts["segments"]), str(counts["serving"]), str(counts["wanted"]), str(counts["error"]))
    console = Console()
    console.print(instances)
    console.print(tables)


def _replicas(ideal: dict[str, dict[str, str]], view: dict[str, dict[str, str]]) -> dict[str, int]:
    wanted = [(segment, instance, state) for segment, states in ideal.items() for instance, state in states.items()]
    reached = [view.get(segment, {}).get(instance) for segment, instance, _ in wanted]
    return {
        "segments": len(ideal),
        "wanted": len(wanted),
        "serving": sum(state in ("ONLINE", "CONSUMING") for state in reached),
        "error": sum(state == "ERROR" for state in reached),
    }
