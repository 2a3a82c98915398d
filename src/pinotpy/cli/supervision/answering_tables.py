"""Which tables of a cluster answer, and what those that do not lack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pinotpy.cli.asking import ask
from pinotpy.client.controller import ControllerClient
from pinotpy.errors import PinotError

_SERVING = ("ONLINE", "CONSUMING")
_QUERY_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class TableReport:
    """One half of a table. `replicas_wanted`, `replicas_serving`, `replicas_failed`: counts over all segments."""

    name: str
    segments: int
    replicas_wanted: int
    replicas_serving: int
    replicas_failed: int
    is_enabled: bool = True

    @property
    def is_whole(self) -> bool:
        return self.replicas_serving == self.replicas_wanted

    @property
    def is_settled(self) -> bool:
        """Nothing changes any more by waiting: each replica serves or has failed."""
        return self.replicas_serving + self.replicas_failed >= self.replicas_wanted

    def to_json_dict(self) -> dict[str, Any]:
        return {
            "segments": self.segments,
            "replicasWanted": self.replicas_wanted,
            "replicasServing": self.replicas_serving,
            "replicasFailed": self.replicas_failed,
            "enabled": self.is_enabled,
        }


def report_tables(client: ControllerClient) -> list[TableReport]:
    """Of every half of every table: external view beside ideal state. Raises PinotError if the controller does not
    answer.
    """
    reports = []
    for table in sorted(client.tables()):
        ideal, view = client.ideal_state(table), client.external_view(table)
        for kind, segments in ideal.items():
            if segments is not None:
                counts = _count(segments, view.get(kind) or {})
                is_enabled = client.table_state(table, table_type=kind) == "enabled"
                reports.append(TableReport(f"{table}_{kind}", len(segments), *counts, is_enabled))
    return reports


def _count(ideal: dict[str, dict[str, str]], view: dict[str, dict[str, str]]) -> tuple[int, int, int]:
    reached = [
        view.get(segment, {}).get(instance)
        for segment, states in ideal.items()
        for instance, state in states.items()
        if state in _SERVING
    ]
    return len(reached), sum(state in _SERVING for state in reached), sum(state == "ERROR" for state in reached)


def silence_of(broker_url: str, table: str) -> str:
    """Why a table does not answer a count of its rows; '' if it does."""
    try:
        answer = ask(broker_url, f"SELECT COUNT(*) FROM {table}", "sql", timeout_s=_QUERY_TIMEOUT_S)
    except PinotError as error:
        return error.message
    return "; ".join(str(each.get("message", each)) for each in answer["exceptions"])


def wait_for_answers(
    client: ControllerClient,
    broker_url: str,
    is_over: Callable[[], bool],
    tell: Callable[[str], None],
    pause: Callable[[], None],
) -> list[str]:
    """Wait until every enabled table answers over all its replicas.

    Args:
        is_over: whether time is up; is looked at between two looks at the cluster.
        tell: is called with what is waited for.
        pause: between two looks; may raise to end the wait.

    Returns: what does not serve when all others do or time is up, a sentence each. A replica that failed to load is
    not waited for.
    """
    while True:
        problems: list[str] = []
        is_settled = True
        try:
            for report in report_tables(client):
                if not report.is_enabled:
                    continue
                if not report.is_whole:
                    problems.append(
                        f"table {report.name}: {report.replicas_serving} of {report.replicas_wanted} replicas of its "
                        f"{report.segments} segments serve, {report.replicas_failed} failed to load"
                    )
                silence = silence_of(broker_url, report.name) if report.is_settled else "segments are being loaded"
                if silence and report.is_settled:
                    problems.append(f"table {report.name} does not answer: {silence}")
                # One whose replicas have failed need not answer; any other will.
                is_settled &= report.is_settled and (not silence or report.replicas_failed > 0)
        except PinotError as error:
            problems, is_settled = [f"the controller does not tell the tables: {error.message}"], False
        if is_settled or is_over():
            return problems
        tell(problems[0])
        pause()
