"""What ails the archives of a table, for GET /debug/tables/{tableName}: what the scrub of the deep store found, as the
leader knows it, and what servers met when they fetched segments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pinotpy.controller.archive_findings import Archive, Finding
from pinotpy.controller.context import Controller
from pinotpy.controller.server_calls import ask_servers

# Beside what is asked of the servers about their streams: who looks is to wait less than 5 s for all of it.
SERVERS_DEADLINE_S: Final = 1.0
SHOWN_MAX: Final = 100


def debug_archives(controller: Controller, half: str, servers: Iterable[str]) -> dict[str, Any]:
    """The element `deepStore` of one half of a table.

    Args:
        servers: those that have segments of it.
    """
    findings = controller.archives.of_table(half)
    not_scrubbed = controller.archives.not_scrubbed_of(half)
    num_sound, num_repaired = controller.archives.counts(half)
    answers = ask_servers(controller, servers, "/archiveFaults", deadline_s=SERVERS_DEADLINE_S)
    faults = [
        {"serverName": server, **{key: value for key, value in fault.items() if key != "tableName"}}
        for server, answer in answers.items()
        for fault in (answer.document or {}).get("archiveFaults", [])
        if fault["tableName"] == half
        and not controller.archives.is_mended((half, fault["segmentName"], int(fault["crc"])), fault["sinceMs"])
    ]
    return {
        "leader": controller.leader(),
        "numArchivesSound": num_sound,
        "numArchivesRepaired": num_repaired,
        "numFindings": len(findings),
        "findings": [_finding(*each) for each in list(findings.items())[:SHOWN_MAX]],
        "numNotScrubbed": len(not_scrubbed),
        "notScrubbed": [
            {"segmentName": segment, "crc": str(crc), "reason": f"not scrubbed: {reason}"}
            for (_, segment, crc), reason in list(not_scrubbed.items())[:SHOWN_MAX]
        ],
        "serverFaults": faults[:SHOWN_MAX],
        "serversFailed": {server: answer.failure for server, answer in answers.items() if answer.failure},
    }


def _finding(archive: Archive, finding: Finding) -> dict[str, Any]:
    _, segment, crc = archive
    return {
        "segmentName": segment,
        "crc": str(crc),
        "state": finding.ailment.value,
        "reason": finding.reason,
        "sinceMs": finding.since_ms,
        "lastMs": finding.last_ms,
        "numAttempts": finding.num_attempts,
        "notRepaired": finding.not_repaired,
    }
