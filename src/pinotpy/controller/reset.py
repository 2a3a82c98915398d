"""Reset: replicas in ERROR retry, after an operator has fixed the cause (a full disk, a lost archive)."""

from __future__ import annotations

from collections.abc import Mapping

from pinotpy.cluster.messages import send_reset
from pinotpy.cluster.state_model import SEGMENT_STATE_MODEL
from pinotpy.cluster.views import ERROR
from pinotpy.controller.context import Controller


def reset_segments(controller: Controller, table: str, segment: str | None = None) -> int:
    """Ask every server with a replica in ERROR, of one segment or of the whole table, to leave that state; the number
    of replicas asked. Replicas in other states are left alone: they have nothing to try again.
    """
    view = controller.catalog.external_view(table) or {}
    failed: dict[str, list[str]] = {}
    for name, replicas in view.items() if segment is None else [(segment, view.get(segment, {}))]:
        for server in _in_error(replicas):
            failed.setdefault(server, []).append(name)
    catalog, now_ms = controller.catalog, controller.clock.now_ms()
    return sum(
        send_reset(
            catalog.store,
            catalog.paths,
            server,
            table,
            names,
            state_model=SEGMENT_STATE_MODEL.name,
            source=controller.instance,
            now_ms=now_ms,
        )
        for server, names in failed.items()
    )


def _in_error(replicas: Mapping[str, str]) -> list[str]:
    return [server for server, state in replicas.items() if state == ERROR]
