"""Show controllers, brokers and servers: alive since when, release, segments and bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.showing import bytes_text, plain_table, utc

if TYPE_CHECKING:
    from pinotpy.client.controller import ControllerClient

NAME = "show-instances"


@takes(controller_options)
def run(common: ControllerOptions) -> None:
    with common.client() as client:
        live, held = client.live_instances(), _held(client)
        instances = [_instance(client.instance(name), live.get(name), held) for name in client.instances()]
    if common.as_json:
        typer.echo(json.dumps(instances, indent=2))
        return
    from pinotpy.cli.result_table import answer_console

    shown = plain_table(
        "instance",
        "role",
        "alive since",
        "version",
        "enabled",
        "tags",
        "segments",
        "bytes",
        right=("segments", "bytes"),
    )
    for each in instances:
        is_server = each["role"] == "server"
        unknown = f" and {each['segmentsOfUnknownSize']:,} of unknown size" if each["segmentsOfUnknownSize"] else ""
        shown.add_row(
            each["instance"],
            each["role"],
            utc(each["aliveSinceMs"]) if each["aliveSinceMs"] is not None else "not alive",
            each["version"] or "",
            "yes" if each["enabled"] else "no",
            ", ".join(each["tags"]),
            f"{each['segments']:,}" if is_server else "",
            f"{bytes_text(each['bytes'])}{unknown}" if is_server else "",
        )
    answer_console().print(shown)


def _instance(config: dict[str, Any], live: dict[str, Any] | None, held: dict[str, list[int]]) -> dict[str, Any]:
    name = str(config["instanceName"])
    sizes = held.get(name, [])
    return {
        "instance": name,
        "role": name.partition("_")[0].lower(),
        "host": config.get("hostName"),
        "port": config.get("port"),
        "enabled": config.get("enabled"),
        "tags": config.get("tags") or [],
        "aliveSinceMs": live["aliveSinceMs"] if live else None,
        "version": live["version"] if live else None,
        "process": live["process"] if live else None,
        "segments": len(sizes),
        "bytes": sum(size for size in sizes if size >= 0),
        "segmentsOfUnknownSize": sum(size < 0 for size in sizes),
    }


def _held(client: ControllerClient) -> dict[str, list[int]]:
    """Server → bytes of each segment that it should hold; -1: it does not say."""
    held: dict[str, list[int]] = {}
    for table in client.tables():
        size = client.table_size(table)
        for part in ("offlineSegments", "realtimeSegments"):
            for segment in ((size.get(part) or {}).get("segments") or {}).values():
                for server, info in segment["serverInfo"].items():
                    held.setdefault(server, []).append(int(info["diskSizeInBytes"]))
    return held
