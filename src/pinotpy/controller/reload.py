"""Reload: servers read segments anew, so that new columns and indexes of config and schema appear.

The job is recorded before the messages go out: a server that missed its message, or joins later, finds the job and does
it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from pinotpy.cluster.messages import RELOAD_SEGMENT, live_sessions, send_user_message
from pinotpy.cluster.reload_jobs import SEALED_ENDS, ReloadJobRecord, SealedEnds
from pinotpy.controller.context import Controller
from pinotpy.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class ReloadJob:
    """One reload: its id and to how many servers it went."""

    job_id: str
    num_messages: int


def reload_segment(controller: Controller, table: str, segment: str, *, force_download: bool = False) -> ReloadJob:
    """Ask the servers of one segment to reload it. Raises NotFoundError : no server has it."""
    ideal = controller.catalog.ideal_state(table) or {}
    servers = ideal.get(segment, {})
    if not servers:
        raise NotFoundError(
            f"Failed to find segment: {segment[:200]} in table: {table} on every instance",
            table=table,
            segment=segment[:400],
        )
    return _send(controller, table, segment, list(servers), SealedEnds.of(table, ideal), force_download)


def reload_table(controller: Controller, table: str, *, force_download: bool = False) -> ReloadJob:
    """Ask all servers of a table to reload its segments."""
    ideal = controller.catalog.ideal_state(table) or {}
    servers = {server for replicas in ideal.values() for server in replicas}
    return _send(controller, table, "", sorted(servers), SealedEnds.of(table, ideal), force_download)


def _send(
    controller: Controller, table: str, segment: str, servers: list[str], ends: SealedEnds, force_download: bool
) -> ReloadJob:
    job_id, store, paths, now_ms = (
        str(uuid.uuid4()),
        controller.catalog.store,
        controller.catalog.paths,
        controller.clock.now_ms(),
    )
    alive = len(live_sessions(store, paths, servers))
    controller.reload_jobs.add(ReloadJobRecord(job_id, table, segment, now_ms, alive, force_download, False, ends))
    sent = send_user_message(
        store,
        paths,
        servers,
        RELOAD_SEGMENT,
        resource=table,
        partition=segment,
        fields={"forceDownload": str(force_download).lower(), "reloadJobId": job_id, SEALED_ENDS: ends.to_text()},
        source=controller.instance,
        now_ms=now_ms,
    )
    return ReloadJob(job_id, sent)
