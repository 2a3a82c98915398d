"""Reset: replicas in ERROR retry, after an operator has fixed the cause (a full disk, a lost archive), and so do those
that stopped consuming a segment of a stream.
"""

from __future__ import annotations

from collections.abc import Mapping

from pinotpy.cluster.llc_names import parse_llc_name
from pinotpy.cluster.messages import send_reset
from pinotpy.cluster.state_model import SEGMENT_STATE_MODEL
from pinotpy.cluster.views import ERROR, OFFLINE
from pinotpy.controller.context import Controller


def reset_segments(controller: Controller, table: str, segment: str | None = None) -> int:
    """Ask every server with a replica in ERROR, of one segment or of the whole table, to leave that state, and let
    those consume again that stopped; the number of replicas. Others are left alone: they have nothing to try again.
    """
    resumed = sum(
        len(controller.realtime_segments.resume(table, name))
        for name, replicas in stopped_replicas(controller.catalog.ideal_state(table) or {}).items()
        if segment in (None, name) and replicas
    )
    for key in [key for key in controller.stopped if key[0] == table and segment in (None, key[1])]:
        controller.stopped.pop(key, None)
    view = controller.catalog.external_view(table) or {}
    failed: dict[str, list[str]] = {}
    for name, replicas in view.items() if segment is None else [(segment, view.get(segment, {}))]:
        for server in _in_error(replicas):
            failed.setdefault(server, []).append(name)
    catalog, now_ms = controller.catalog, controller.clock.now_ms()
    return resumed + sum(
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


def stopped_replicas(ideal: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Segment of a stream → servers that stopped consuming it. Those of a table that is disabled are none: its replicas
    are all to be OFFLINE in the external view alone.
    """
    return {
        name: stopped
        for name, replicas in ideal.items()
        if parse_llc_name(name) is not None
        and (stopped := sorted(server for server, state in replicas.items() if state == OFFLINE))
    }


def _in_error(replicas: Mapping[str, str]) -> list[str]:
    return [server for server, state in replicas.items() if state == ERROR]
