"""Proves tables over a real Kafka: the demonstration, and a broker that dies and returns while rows come; readers,
servers and the controller are killed: every answer has exactly the records up to its offsets, and none is lost.
PINOTPY_CHAOS_SEED replays the faults.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from events_table import PARTITIONS, SCHEMA, table_config
from kafka_server import PASSWORDS, KafkaServer
from live_cluster import LiveCluster, wait_until
from quickstart_process import TIMEOUT_S, QuickstartProcess
from stream_asking import Asking, Producing, wait_until_done
from stream_truth import question
from worker_processes import READS, processes_of

from pinotpy.clock import SystemClock
from pinotpy.stream.kafka.factory import KafkaConsumerFactory
from pinotpy.stream.kafka.producer import KafkaStreamProducer
from pinotpy.stream.settings import StreamSettings

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

APPENDED, BATCH = 1_500, 100
SEED = int(os.environ.get("PINOTPY_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
READERS, SERVERS = ("server-0's reader", "server-1's reader"), ("server-0", "server-1")
AWAY_S = float(os.environ.get("PINOTPY_KAFKA_AWAY_SECONDS", "60"))
PATIENCE_S = 300.0
WRONG_PASSWORD = "wrong-secret-4"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path_factory.mktemp("kafka"))
    try:
        yield started
    finally:
        started.close()


@pytest.fixture(scope="module")
def producing(kafka: KafkaServer, cluster: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> Producing:
    """Of a topic `events` and its table."""
    kafka.create_topic("events", PARTITIONS)
    cluster.controller.add_schema(SCHEMA)
    cluster.controller.add_table(table_of(kafka.address, "events"))
    settings = StreamSettings("kafka", "events", {"stream.kafka.broker.list": kafka.address})
    return Producing(KafkaStreamProducer(settings, SystemClock()), KafkaConsumerFactory(settings, SystemClock()))


def table_of(address: str, name: str, **properties: str) -> dict[str, Any]:
    """A table of the topic that is named like it."""
    config = table_config(Path(), rows=800)
    config |= {"tableName": name}
    config["segmentsConfig"]["schemaName"] = name
    stream = config["tableIndexConfig"]["streamConfigs"]
    del stream["stream.file.directory"]
    config["tableIndexConfig"]["streamConfigs"] = {
        **{key.replace("stream.file.", "stream.kafka."): value for key, value in stream.items()},
        "streamType": "kafka",
        "stream.kafka.topic.name": name,
        "stream.kafka.broker.list": address,
        **properties,
    }
    return config


def test_the_demonstration_runs_on_kafka(kafka: KafkaServer, tmp_path: Path) -> None:
    run = QuickstartProcess(tmp_path, "realtime", "--exit", "--kafka-broker-list", kafka.address)
    run.process.wait(TIMEOUT_S)
    run.wait_for("all daemons stopped")
    assert run.process.returncode == 0 and f"Kafka at {kafka.address}" in run.output, run.output


def test_what_keeps_a_table_from_being_read_is_named_by_layer_until_it_is_mended(
    kafka: KafkaServer, cluster: LiveCluster
) -> None:
    kafka.create_topic("guarded", PARTITIONS)
    tls, login = {"security.protocol": "SSL"}, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    reader = {**login, "sasl.username": "reader", "sasl.password": PASSWORDS["reader"]}
    guarded = partial(table_of, name="guarded")
    mended = [
        ("TLS", "TLS where there is none", guarded(kafka.addresses["plaintext"], **tls)),
        ("TLS", "a certificate of nobody", guarded(kafka.addresses["ssl"], **tls)),
        ("SASL", "a login where there is none", guarded(kafka.addresses["plaintext"], **reader)),
        ("SASL", "a wrong password",
         guarded(kafka.addresses["sasl_plaintext"], **reader | {"sasl.password": WRONG_PASSWORD})),
        ("TOPIC", "no right to read", guarded(kafka.addresses["sasl_plaintext"], **reader)),
    ]  # fmt: skip
    cluster.controller.add_schema(SCHEMA | {"schemaName": "guarded"})

    def told() -> dict[str, Any]:
        """What /debug/tables says of the table."""
        text = httpx.get(f"{cluster.controller_url}/debug/tables/guarded", timeout=60).raise_for_status().text
        assert not secrets_in(text)
        (half,) = json.loads(text)
        return dict(half)

    def is_named(layer: str, address: str) -> bool:
        failures = told()["failures"]
        return {each["layer"] for each in failures} == {layer} and all(address in each["message"] for each in failures)

    def is_read() -> bool:
        half = told()
        return not half["failures"] and len(half["partitions"]) == 2 * PARTITIONS

    for number, (layer, why, config) in enumerate(mended):
        if number:
            cluster.controller.update_table("guarded", config)
        else:
            cluster.controller.add_table(config)
        address = config["tableIndexConfig"]["streamConfigs"]["stream.kafka.broker.list"]
        wait_until(partial(is_named, layer, address), PATIENCE_S, f"{layer} is named: {why}")
    kafka.allow_reading("guarded", "reader")
    wait_until(is_read, PATIENCE_S, "nothing keeps it from being read")
    logs = list((cluster.directory / "daemons").glob("*.log"))
    assert len(logs) >= 5 and not [log for log in logs if secrets_in(log.read_text(errors="replace"))]
    cluster.controller.delete_table("guarded")


def test_no_record_is_lost_while_kafka_is_gone(kafka: KafkaServer, cluster: LiveCluster, producing: Producing) -> None:
    def exact_rows() -> int:
        """Rows of an answer, which is compared with the topic; -1 if it says that rows are missing."""
        return producing.truth.compare(cluster.query(question(), "sql"))

    def append() -> None:
        for _ in range(APPENDED // BATCH):
            producing.append(BATCH)

    append()
    before = producing.rows()
    wait_until(lambda: exact_rows() == before, 120, "all rows are answered")
    kafka.kill()
    wait_until(lambda: ailing(cluster) == ("UNHEALTHY", {"TCP"}), 120, "/debug/tables says that Kafka is gone")
    print(f"Kafka stays away for {AWAY_S:.0f} s")
    end_s = time.monotonic() + AWAY_S
    while time.monotonic() < end_s:
        assert exact_rows() == before, "rows that were read are answered without Kafka"
        time.sleep(0.5)
    assert ailing(cluster) == ("UNHEALTHY", {"TCP"})
    kafka.start()
    append()
    wait_until(lambda: exact_rows() == producing.rows(), 300, "all rows are answered")
    wait_until(lambda: ailing(cluster) == ("HEALTHY", set()), 120, "nothing ails the table any more")


def test_answers_are_exact_whatever_is_killed(cluster: LiveCluster, producing: Producing) -> None:
    """A reader, a server or the controller, at random moments, while records come: right answers follow each."""
    dice = random.Random(SEED)
    producing.start()
    asking = Asking(cluster, producing.truth)
    wait_until(lambda: asking.counts["right"] > 0, 300, "rows of all partitions are answered")
    asking.wrong.clear()  # one partition begins after the other
    victims = [*READERS, dice.choice(SERVERS), "controller"]  # a server is back after some 20 s
    try:
        for victim in dice.sample(victims, len(victims)):
            time.sleep(dice.uniform(0, 2))
            kill(cluster, victim, dice)
            right = asking.counts["right"]
            wait_until(
                lambda right=right: bool(asking.wrong) or asking.counts["right"] > right,
                300,
                f"seed {SEED}: answers after the end of {victim}",
            )
            assert not asking.wrong, f"seed {SEED}, after the end of {victim}: {asking.wrong[:3]}"
    finally:
        expected = producing.stop()
        asking.stop()
    print(f"seed {SEED}, {producing.produced} records a partition, answers {dict(asking.counts)}")
    wait_until(lambda: asking.rows() == expected, 900, f"seed {SEED}: all rows are answered")
    assert wait_until_done(cluster) > 0
    wait_until(lambda: asking.rows() == expected, 900, f"seed {SEED}: all rows are answered")
    assert not asking.wrong, f"seed {SEED}: {asking.wrong[:3]}"


def kill(cluster: LiveCluster, victim: str, dice: random.Random) -> None:
    """At once, as if for lack of memory. Daemons are started again a moment later; a reader's server does that."""
    server, _, reader = victim.partition("'s ")
    if not reader:
        cluster.processes.kill(victim)
        time.sleep(dice.uniform(0, 2))
        cluster.processes.restart(victim)
        return
    found: list[int] = []

    def is_there() -> bool:
        found[:] = processes_of(cluster, server, READS)
        return bool(found)

    wait_until(is_there, 300, f"{server} has a process that reads")
    os.kill(dice.choice(found), signal.SIGKILL)
    wait_until(lambda: bool(set(processes_of(cluster, server, READS)) - set(found)), 300, "another one reads")


def secrets_in(text: str) -> list[str]:
    return [secret for secret in (WRONG_PASSWORD, *PASSWORDS.values()) if secret in text]


def ailing(cluster: LiveCluster) -> tuple[str, set[str]]:
    """What the controller says of the table's ingestion: its state, and the layers of what keeps partitions from being
    read.
    """
    (half,) = httpx.get(f"{cluster.controller_url}/debug/tables/events", timeout=60).json()
    servers = {(each["partition"], each["layer"]) for each in half["failures"] if each["source"] == "server"}
    if servers and {partition for partition, _ in servers} != set(range(PARTITIONS)):
        return "one partition after the other", set()
    return half["ingestionStatus"]["ingestionState"], {layer for _, layer in servers}
