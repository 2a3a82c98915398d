"""What ails a table (Pinot: TableDebugResource): segments in ERROR, archives that are missing or damaged, and of a
stream each partition on each server with what keeps it from being read.

Servers are asked with one deadline for all; one that does not answer is named. What the controller itself met when it
asked the stream for its partitions is in the memory of the leader alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from pinotpy.cluster.llc_names import known_llc_name, parse_llc_name
from pinotpy.cluster.views import CONSUMING, ERROR, ONLINE
from pinotpy.controller.archive_debug import debug_archives
from pinotpy.controller.catalog import states_by_server
from pinotpy.controller.context import Controller
from pinotpy.controller.periodic.realtime_validation import StreamFailure
from pinotpy.controller.reset import stopped_replicas
from pinotpy.controller.server_calls import ServerAnswer, ask_servers
from pinotpy.names import TableType, split_table_name

SERVERS_DEADLINE_S: Final = 3.0
SEGMENTS_SHOWN_MAX: Final = 100

View = Mapping[str, Mapping[str, str]]  # segment → server → state
FailureOf = Callable[[str], StreamFailure | None]


def debug_half(controller: Controller, half: str, failure_of: FailureOf) -> dict[str, Any]:
    """One half of a table, as an element of the answer of GET /debug/tables/{tableName}.

    Args:
        failure_of: table with type → RealtimeValidation.failure.
    """
    catalog = controller.catalog
    ideal, actual = catalog.ideal_state(half) or {}, catalog.external_view(half) or {}
    in_error = sorted(segment for segment, replicas in actual.items() if ERROR in replicas.values())
    document: dict[str, Any] = {
        "tableName": half,
        "numSegments": len(ideal),
        "numServers": len(states_by_server(ideal)),
        "numBrokers": len(catalog.brokers_of(half)),
        "idealStateCounts": _counts(ideal),
        "externalViewCounts": _counts(actual),
        "numSegmentsInError": len(in_error),
        "segmentDebugInfos": [
            {"segmentName": segment, "serverState": _server_states(ideal.get(segment, {}), actual[segment])}
            for segment in in_error[:SEGMENTS_SHOWN_MAX]
        ],
        "deepStore": debug_archives(controller, half, states_by_server(ideal)),
    }
    if split_table_name(half)[1] is TableType.REALTIME:
        document |= _of_stream(controller, half, ideal, actual, failure_of(half))
    return document


def _of_stream(
    controller: Controller, half: str, ideal: View, actual: View, failure: StreamFailure | None
) -> dict[str, Any]:
    consuming = states_by_server(
        {
            segment: {server: state for server, state in replicas.items() if state == CONSUMING}
            for segment, replicas in ideal.items()
        }
    )
    path = f"/tables/{quote(half, safe='')}/consumingSegmentsInfo"
    answers = ask_servers(controller, consuming, path, deadline_s=SERVERS_DEADLINE_S)
    partitions = stream_partitions(consuming, answers, actual)
    failures = [] if failure is None else [_of_controller(failure)]
    failures += [
        _of_stopped(half, segment, server, controller.stopped.get((half, segment, server), "its log says why"))
        for segment, servers in sorted(stopped_replicas(ideal).items())
        for server in servers
    ]
    failures += [
        {
            "source": "controller",
            "layer": "",
            "partition": partition,
            "message": f"no segment of partition {partition} takes rows: the last one was deleted, and none follows it",
        }
        for partition in _without_open_segment(ideal)
    ]
    failures += [
        {
            "source": "server",
            "serverName": each["serverName"],
            "partition": each["partition"],
            "layer": each["layer"],
            "message": each["failure"],
        }
        for each in partitions
        if each["failure"]
    ]
    silent = {server: answer.failure for server, answer in answers.items() if answer.failure}
    is_enabled = controller.catalog.is_enabled(half)
    state = "UNHEALTHY" if failures else "UNKNOWN" if silent or not partitions or not is_enabled else "HEALTHY"
    reasons = [each["message"] for each in failures]
    reasons += [] if is_enabled else ["the table is disabled: nothing is read"]
    reasons += [f"server {server} does not answer: {reason}" for server, reason in silent.items()]
    return {
        "leader": controller.leader(),
        "ingestionStatus": {"ingestionState": state, "errorMessage": reasons[0] if reasons else ""},
        "failures": failures,
        "serversFailed": silent,
        "partitions": partitions,
    }


def _of_stopped(half: str, segment: str, server: str, reason: str) -> dict[str, Any]:
    from pinotpy.stream.spec import StreamLayer  # Arrow comes with it

    layer = reason.partition(":")[0]  # as servers write it before what the stream says
    return {
        "source": "controller",
        "serverName": server,
        "partition": known_llc_name(segment).partition,
        "layer": layer if layer in set(StreamLayer) else "",
        "message": f"{server} stopped consuming segment '{segment}': {reason}; POST /segments/{half}/reset lets it try "
        "again",
    }


def _without_open_segment(ideal: View) -> list[int]:
    """Partitions of which every segment is done: nobody reads them on."""
    open_partitions: dict[int, bool] = {}
    for segment, replicas in ideal.items():
        name = parse_llc_name(segment)
        if name is not None:
            is_open = any(state != ONLINE for state in replicas.values())
            open_partitions[name.partition] = open_partitions.get(name.partition, False) or is_open
    return sorted(partition for partition, is_open in open_partitions.items() if not is_open)


def stream_partitions(
    consuming: Mapping[str, list[str]], answers: Mapping[str, ServerAnswer], actual: View
) -> list[dict[str, Any]]:
    """What each server says of each partition that it is to read, by partition and server.

    Args:
        consuming: server → segments that are to consume there.
        actual: the external view.
    """
    found: list[dict[str, Any]] = []
    for server, segments in consuming.items():
        if answers[server].failure:
            continue
        told = (answers[server].document or {}).get("partitions", [])
        # Of a server of an older revision, which names no layer, a failure's layer is not known.
        found += [{"serverName": server, "layer": "", **each} for each in told]
        read = {each["partition"] for each in told}
        for segment in segments:
            name = parse_llc_name(segment)
            if name is None or name.partition in read:
                continue
            is_error = actual.get(segment, {}).get(server) == ERROR
            found.append(
                {
                    "serverName": server,
                    "partition": name.partition,
                    "currentOffset": "",
                    "lastFetchTimeMs": 0,
                    "failure": f"segment '{segment}' is in ERROR: see the server's log" if is_error else "",
                    "layer": "",
                    "segments": [{"segmentName": segment, "rows": 0, "phase": ERROR if is_error else ""}],
                    "records": {},
                }
            )
    return sorted(found, key=lambda each: (each["partition"], each["serverName"]))


def _of_controller(failure: StreamFailure) -> dict[str, Any]:
    return {
        "source": "controller",
        "layer": failure.layer,
        "message": failure.message,
        "sinceMs": failure.since_ms,
        "lastMs": failure.last_ms,
        "numAttempts": failure.num_attempts,
    }


def _counts(view: View) -> dict[str, int]:
    """State → replicas."""
    return dict(sorted(Counter(state for replicas in view.values() for state in replicas.values()).items()))


def _server_states(ideal: Mapping[str, str], actual: Mapping[str, str]) -> dict[str, dict[str, str | None]]:
    return {
        server: {"idealState": ideal.get(server), "externalView": actual.get(server)}
        for server in sorted({*ideal, *actual})
    }
