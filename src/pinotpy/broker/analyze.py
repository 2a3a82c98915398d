"""EXPLAIN ANALYZE: the query is planned, then run and timed as a traced one; the plan is answered with what the run
measured, and not the rows.

After the plan's rows comes ANALYZE_START, and below it one operator for each kind of number. Times of phases are those
of `traceInfo`; counters are those of any answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import orjson

from pinotpy.broker.log_entry import LogEntry
from pinotpy.broker.parts import Question
from pinotpy.errors import ParseError
from pinotpy.pql.ast import Dialect
from pinotpy.pql.catalog_statements import without_analyze
from pinotpy.query.result.explained_answer import Explanation, Row
from pinotpy.query.result.response.envelope import Envelope
from pinotpy.query.runtime.trace import Entry, Laps

_TOP: Final = 1


def analyzed_question(question: Question) -> Question | None:
    """The question within EXPLAIN ANALYZE; None if it is another."""
    if question.dialect is not Dialect.SQL:
        return None
    try:
        plain = without_analyze(question.text)
    except ParseError:
        return None  # whoever parses it says so
    return None if plain is None else replace(question, text=plain)


def with_measurements(plan: Explanation, envelope: Envelope, laps: Laps, entry: LogEntry) -> Explanation:
    """The plan with the numbers of a run. `laps`: of the broker; `envelope.trace`: of the servers."""
    numbers = _numbers(envelope, laps.stages(), entry)
    rows: list[Row] = [["ANALYZE_START", -1, -1]]
    rows.append([f"ANALYZE_TIME({_shown(numbers['time'])})", _TOP, 0])
    for name in ("servers", "segments", "rows", "bytes"):
        rows.append([f"ANALYZE_{name.upper()}({_shown(numbers[name])})", len(rows), _TOP])
    rows.append([f"ANALYZE_BROKER_PHASES({_shown(numbers['brokerPhasesMs'])})", len(rows), _TOP])
    for server, phases in numbers["serverPhasesMs"].items():
        rows.append([f"ANALYZE_SERVER_PHASES(server:{server},{_shown(phases)})", len(rows), _TOP])
    return replace(plan, measured=tuple(rows), numbers=numbers)


def _numbers(envelope: Envelope, broker_stages: list[Entry], entry: LogEntry) -> dict[str, Any]:
    statistics = envelope.statistics
    answered = next((stage for stage in reversed(broker_stages) if "bytesIn" in stage), {})
    return {
        "time": {
            "totalMs": round(entry.took_ms, 3),
            "reduceMs": envelope.reduce_time_ms,
            "serverCpuMs": round(statistics.cpu_ns / 1e6, 3),
        },
        "servers": {"queried": envelope.num_servers_queried, "responded": envelope.num_servers_responded},
        "segments": {
            "queried": statistics.num_segments_queried,
            "prunedByBroker": envelope.num_segments_pruned_by_broker,
            "prunedByServer": statistics.num_segments_pruned,
            "ofThemByBloomFilter": statistics.num_segments_pruned_by_bloom_filter,
            "ofThemByPartition": statistics.num_segments_pruned_by_partition,
            "processed": statistics.num_segments_processed,
            "matched": statistics.num_segments_matched,
        },
        "rows": {
            "inTable": statistics.total_docs,
            "selected": statistics.num_docs_scanned,
            "entriesScannedInFilter": statistics.num_entries_scanned_in_filter,
            "entriesScannedPostFilter": statistics.num_entries_scanned_post_filter,
            "returned": entry.num_rows,
        },
        "bytes": {"fromServers": answered.get("bytesIn", 0)},
        "brokerPhasesMs": _phases(broker_stages),
        "serverPhasesMs": {server: _phases(orjson.loads(text)) for server, text in sorted(envelope.trace.items())},
    }


def _phases(stages: list[Entry]) -> dict[str, float]:
    """Milliseconds by phase, in their order; phases of one name are added up."""
    phases: dict[str, float] = {}
    for stage in stages:
        inner = stage.get("children", [])
        for one in inner if stage["operator"] == "EXECUTE" and inner else [stage]:
            name = str(one["operator"])
            phases[name] = round(phases.get(name, 0.0) + float(one["timeMs"]), 3)
    return phases


def _shown(numbers: dict[str, Any]) -> str:
    return ",".join(f"{name}:{number}" for name, number in numbers.items())
