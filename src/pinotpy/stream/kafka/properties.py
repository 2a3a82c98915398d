"""What the streamConfigs of a table mean to librdkafka: one pure function.

A property of the client is written as `stream.kafka.consumer.prop.<name>`, `stream.kafka.<name>` or plain `<name>`; the
longer form wins. Names are librdkafka's or those of Kafka's Java consumer; the latter are translated, named as without
effect, or refused with what to write instead. Whatever else a table has is passed on: librdkafka knows its names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from pinotpy.errors import Fault, InvalidConfigError

PREFIX: Final = "stream.kafka."
CONSUMER_PREFIX: Final = "stream.kafka.consumer.prop."
BROKERS: Final = "bootstrap.servers"
_BROKERS_MAX: Final = 100
# A table may change these.
_DEFAULTS: Final = {
    # librdkafka wants a group, also of a client that is in none: nothing is ever committed.
    "group.id": "pinotpy-assigns-itself",
    "client.id": "pinotpy",
    "isolation.level": "read_committed",
    "check.crcs": "true",
    # After a full queue librdkafka would sleep a second: catching up is 4 times as fast so.
    "fetch.queue.backoff.ms": "5",
    # Read ahead per consumer; a longer record passes all the same.
    "queued.max.messages.kbytes": "16384",
    "reconnect.backoff.max.ms": "2000",
    "socket.keepalive.enable": "true",
    "socket.timeout.ms": "10000",
    # A deleted topic is told after so long, not after 30 s.
    "topic.metadata.propagation.max.ms": "3000",
}
# These make reading by offset what it is; a table's own values have no effect.
_FIXED: Final = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "allow.auto.create.topics": "false",
    "max.poll.interval.ms": "86400000",
    "statistics.interval.ms": "0",
}
# Below `stream.kafka.`: of the table, not of the client.
_OF_THE_TABLE: Final = re.compile(
    r"topic\.name|topic\.consumption\.rate\.limit|consumer\.type|consumer\.factory\.class\.name"
    r"|decoder\.class\.name|decoder\.prop\..*|(?:connection|fetch|idle)\.timeout\.millis|broker\.list"
    r"|consumer\.prop\..*|metadata\.populate|partition\.ids?|offset\.criteria"
)
_WITHOUT_EFFECT: Final = re.compile(
    # of the reference's consumers for Kafka 0.9 and of consumer groups
    r"zk\.broker\.url|hlc\..*|buffer\.size|socket\.timeout|fetcher\.size|fetcher\.minBytes"
    # of Kafka's Java consumer: groups, commits, threads, classes
    r"|auto\.commit\..*|session\.timeout\.ms|heartbeat\.interval\.ms|group\.(?:instance\.id|protocol|remote\.assignor)"
    r"|partition\.assignment\.strategy|max\.poll\.records|default\.api\.timeout\.ms|exclude\.internal\.topics"
    r"|(?:key|value)\.deserializer|interceptor\.classes|metric\.reporters|metrics\..*|enable\.metrics\.push"
    r"|security\.providers|ssl\.(?:protocol|enabled\.protocols|provider|secure\.random\.implementation"
    r"|keymanager\.algorithm|trustmanager\.algorithm)"
)
_JAVA_NAMES: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.mechanism": "sasl.mechanisms",
    "metadata.broker.list": BROKERS,
}
_PEM: Final = "ssl.ca.location (a PEM file; keytool -exportcert -rfc writes one)"
_CODE: Final = "nothing: a table cannot name code or commands to run"
_REFUSED: Final = (
    (r"ssl\.truststore\..*", _PEM),
    (r"ssl\.keystore\.(?:key|certificate\.chain)", "ssl.key.pem and ssl.certificate.pem"),
    (r"sasl\.(?:client|login)\..*|ssl\.engine\.factory\.class", "sasl.oauthbearer.*, or PLAIN or SCRAM"),
    (r"plugin\.library\.paths|ssl\.engine\..*|ssl\.providers|sasl\.kerberos\.kinit\.cmd", _CODE),
    (r"debug|test\.mock\..*", "nothing: not for tables"),
    (r"[^.]*_.*", "a property of librdkafka or of Kafka's Java consumer"),
)
_SECRET: Final = re.compile(r".*(?:password|secret|\.pem|passphrase|oauthbearer\.config|jaas).*")
_JAAS: Final = re.compile(
    r'\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)((?:\s+\w+=(?:"[^"]*"|[^\s;"]+))*)\s*;?\s*'
)
_JAAS_OPTION: Final = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s;"]+))')
_BROKER: Final = re.compile(r"(?:\w+://)?(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._\-]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class KafkaProperties:
    """What a client is made with.

    client: librdkafka's names and values; passwords among them.
    addresses: host:port of each broker that the table names, and of the OAuth service.
    without_effect: keys of the table that are accepted and mean nothing here.
    secrets: values that no message and no log may have.
    """

    client: Mapping[str, str] = field(repr=False)
    addresses: tuple[str, ...]
    without_effect: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def masked(self, text: str) -> str:
        """`text` without the secrets."""
        for secret in self.secrets:
            text = text.replace(secret, "****")
        return text


def kafka_properties(table: Mapping[str, str]) -> KafkaProperties:
    """The client's properties from a table's streamConfigs.

    Raises InvalidConfigError with every fault: no brokers, an address that is none, what is refused. Values of secrets
    are in no fault.
    """
    faults: list[Fault] = []
    values: dict[str, str] = dict(_DEFAULTS)
    keys: dict[str, str] = {}  # of the table, by the client's name
    without_effect: list[str] = []
    for key, name in _named(table):
        value = table[key].strip()
        refused = next((instead for pattern, instead in _REFUSED if re.fullmatch(pattern, name)), None)
        if refused is not None:
            faults.append(_fault(key, "a property that is not supported", refused))
        elif name in _FIXED or _WITHOUT_EFFECT.fullmatch(name):
            without_effect.append(key)
        else:
            client_name = _JAVA_NAMES.get(name, name)
            values[client_name], keys[client_name] = value, key
    _take_jaas(values, keys, faults)
    _take_tls(values, keys, without_effect, faults)
    if PREFIX + "broker.list" in table:
        values[BROKERS], keys[BROKERS] = table[PREFIX + "broker.list"].strip(), PREFIX + "broker.list"
    addresses = _addresses(values, keys.get(BROKERS, PREFIX + "broker.list"), faults)
    if faults:
        raise InvalidConfigError("streamConfigs of a Kafka stream are not valid:", tuple(faults))
    secrets = {value for name, value in values.items() if _SECRET.fullmatch(name) and value}
    secrets |= {table[key] for key in table if _SECRET.fullmatch(key) and table[key]}
    return KafkaProperties(
        MappingProxyType({**values, **_FIXED}),
        addresses,
        tuple(sorted(without_effect)),
        tuple(sorted(secrets, key=len, reverse=True)),
    )


def key_of(table: Mapping[str, str], client_name: str) -> str:
    """The key of the table that a property of the client comes from; its own name if from none."""
    keys = {_JAVA_NAMES.get(name, name): key for key, name in _named(table)}
    return keys.get(client_name, client_name)


def _named(table: Mapping[str, str]) -> list[tuple[str, str]]:
    """(key, name of a client's property), the form that wins last."""
    plain, of_stream, of_consumer = [], [], []
    for key in table:
        if key.startswith(CONSUMER_PREFIX):
            of_consumer.append((key, key.removeprefix(CONSUMER_PREFIX)))
        elif key.startswith(PREFIX):
            if not _OF_THE_TABLE.fullmatch(key.removeprefix(PREFIX)):
                of_stream.append((key, key.removeprefix(PREFIX)))
        elif key != "streamType" and not key.startswith(("stream.", "realtime.")):
            plain.append((key, key))
    # Where a table starts is for the table to say; the client only reads where it is told to.
    of_consumer = [(key, name) for key, name in of_consumer if name != "auto.offset.reset"]
    return [*plain, *of_stream, *of_consumer]


def _take_jaas(values: dict[str, str], keys: dict[str, str], faults: list[Fault]) -> None:
    """User and password from the text that Java's clients take them from."""
    text = values.pop("sasl.jaas.config", None)
    if text is None:
        return
    key = keys["sasl.jaas.config"]
    matched = _JAAS.fullmatch(text)
    module = matched.group(1).rpartition(".")[2] if matched else ""
    if matched is None or module not in ("PlainLoginModule", "ScramLoginModule"):
        faults.append(
            _fault(
                key,
                f"the login module {module[:60]}" if module else "a text that is no JAAS entry",
                'org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…"; or '
                "ScramLoginModule; else sasl.username and sasl.password, sasl.oauthbearer.*",
            )
        )
        return
    options = {name: quoted or bare for name, quoted, bare in _JAAS_OPTION.findall(matched.group(2))}
    for option in ("username", "password"):
        if not options.get(option):
            faults.append(_fault(key, f"no {option}", f'{option}="…"'))
        else:
            values[f"sasl.{option}"] = options[option]
    if "sasl.mechanisms" not in values:
        if module == "PlainLoginModule":
            values["sasl.mechanisms"] = "PLAIN"
        else:
            faults.append(_fault(key, "ScramLoginModule without sasl.mechanism", "SCRAM-SHA-256 or SCRAM-SHA-512"))


def _take_tls(values: dict[str, str], keys: dict[str, str], without_effect: list[str], faults: list[Fault]) -> None:
    """What Java's clients write differently."""
    if values.get("ssl.endpoint.identification.algorithm") == "":
        values["ssl.endpoint.identification.algorithm"] = "none"
    store = values.pop("ssl.keystore.type", None)
    if store is None:
        return
    if store.upper() == "PKCS12":
        without_effect.append(keys["ssl.keystore.type"])
    else:
        instead = "PKCS12, or ssl.key.location and ssl.certificate.location (PEM files)"
        faults.append(_fault(keys["ssl.keystore.type"], f"'{store[:20]}'", instead))


def _addresses(values: Mapping[str, str], key: str, faults: list[Fault]) -> tuple[str, ...]:
    texts = [text.strip() for text in values.get(BROKERS, "").split(",") if text.strip()]
    if not texts or len(texts) > _BROKERS_MAX:
        faults.append(_fault(key, f"{len(texts)} brokers", f"1 to {_BROKERS_MAX} addresses host:port, comma-separated"))
        return ()
    addresses = []
    for text in texts:
        matched = _BROKER.fullmatch(text)
        port = int(matched.group(2) or 9092) if matched else 0
        if matched is None or not 0 < port < 1 << 16:
            # It may be a URL with a password.
            faults.append(_fault(key, f"'{text.rpartition('@')[2][:60]}'", "host:port"))
        else:
            addresses.append(f"{matched.group(1)}:{port}")
    token_url = values.get("sasl.oauthbearer.token.endpoint.url", "")
    if token_url:
        host = urlsplit(token_url)
        addresses.append(f"{host.hostname}:{host.port or (80 if host.scheme == 'http' else 443)}")
    return tuple(addresses)


def _fault(key: str, found: str, allowed: str) -> Fault:
    return Fault(f"$.streamConfigs['{key[:200]}']", found, allowed)
