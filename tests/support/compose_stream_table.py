"""The table of the compose trial that reads a stream: every answer has exactly the records up to the offsets that it
names, never fewer than an answer before, also after segments were committed and services restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from trial_checks import require

from pinotpy.cli.demo_stream import NUM_PARTITIONS
from pinotpy.cli.rsvp_stream import TABLE

if TYPE_CHECKING:
    from compose_trial import Trial

WITHIN_S = 240.0
KAFKA = "/opt/kafka/bin/{} --bootstrap-server kafka:9092 "


class Asked(Protocol):
    """A cluster with the table; rows_seen: by the answers so far."""

    rows_seen: int

    def ask(self, query: str, dialect: str = "pql") -> dict[str, Any]: ...

    def rest(self, method: str, path: str) -> dict[str, Any]: ...

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None: ...


def count_rows(cluster: Asked) -> int:
    """Rows of an answer; raises TrialError unless they are the records of its own offsets, each once."""
    answer = cluster.ask(f"SELECT COUNT(*), DISTINCTCOUNT(rsvp_id) FROM {TABLE}", "sql")
    require(not answer["exceptions"], f"the table {TABLE} answers {answer['exceptions']}")
    require(answer["exactness"] == "exact", f"the table {TABLE} answers {answer}")
    ends = {partition: int(parts[-1]["end"]) for partition, parts in answer.get("partitionOffsets", {}).items()}
    require(len(ends) == NUM_PARTITIONS, f"the table {TABLE} has the partitions {ends}")
    ((rows, distinct),) = answer["resultTable"]["rows"]
    require(rows == distinct == sum(ends.values()), f"{rows} rows, {distinct} RSVPs, offsets to {ends}")
    require(rows >= cluster.rows_seen, f"{rows} rows, and {cluster.rows_seen} before")
    cluster.rows_seen = rows
    return int(rows)


def wait_for_rows(cluster: Asked) -> str:
    """Until an answer is right and has rows."""
    cluster.wait_until(lambda: count_rows(cluster) > 0, WITHIN_S, f"the table {TABLE} has all rows that it had")
    return f"{cluster.rows_seen:,} rows"


def commit_now(cluster: Asked) -> str:
    """End the segments that have rows, and wait until they are in the deep store."""
    job = cluster.rest("POST", f"/tables/{TABLE}/forceCommit")
    names, status = job["segmentsForceCommitted"], f"/tables/forceCommitStatus/{job['forceCommitJobId']}"
    require(len(names) == NUM_PARTITIONS, f"one segment of a partition consumes, found {names}")
    cluster.wait_until(
        lambda: cluster.rest("GET", status)["numberOfSegmentsYetToBeCommitted"] == 0, WITHIN_S, f"{names} are committed"
    )
    wait_for_rows(cluster)
    return ", ".join(names)


def write_to_kafka(trial: Trial) -> None:
    """A record in a topic of its own."""
    make = KAFKA.format("kafka-topics.sh") + "--create --topic trial --partitions 1 --replication-factor 1"
    trial.execute("kafka", "sh", "-c", make)
    trial.execute("kafka", "sh", "-c", f"echo kept-record | {KAFKA.format('kafka-console-producer.sh')}--topic trial")
    check_kafka(trial)


def check_kafka(trial: Trial) -> None:
    """The record is there."""
    consume = KAFKA.format("kafka-console-consumer.sh") + "--topic trial --from-beginning --max-messages 1"
    read = trial.execute("kafka", "sh", "-c", f"{consume} --timeout-ms 20000")
    require("kept-record" in read, f"Kafka's topic has {read!r}")
