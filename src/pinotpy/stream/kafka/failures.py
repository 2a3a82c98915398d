"""In which layer Kafka failed, told from what librdkafka says: names of its errors, and its words where one name stands
for several layers. Pure; knows no library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pinotpy.stream.spec import StreamLayer, StreamUnavailableError

# The state of the connection that failed: `… (after 3ms in state SSL_HANDSHAKE)`.
_STATE: Final = re.compile(r"in state (\w+)")
_LAYERS_BY_STATE: Final = (
    ("SSL_HANDSHAKE", StreamLayer.TLS),
    ("AUTH", StreamLayer.SASL),
    ("CONNECT", StreamLayer.TCP),
    ("TRY_CONNECT", StreamLayer.TCP),
    ("APIVERSION_QUERY", StreamLayer.TCP),
)
_NOT_THERE: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "TOPIC_EXCEPTION"})
# Of the group, which is used for nothing, and of events that tell nothing new.
_NO_FAILURE: Final = frozenset(
    {"GROUP_AUTHORIZATION_FAILED", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS",
     "_MAX_POLL_EXCEEDED", "_PREV_IN_PROGRESS", "_WAIT_COORD"}
)  # fmt: skip
_DOWN: Final = "_ALL_BROKERS_DOWN"
_REMEDIES: Final = {
    StreamLayer.DNS: "check the host names in stream.kafka.broker.list, and those that the brokers advertise",
    StreamLayer.TCP: "check host and port in stream.kafka.broker.list, that the broker runs, and security.protocol",
    StreamLayer.TLS: "check security.protocol, ssl.ca.location and the broker's certificate",
    StreamLayer.SASL: "check sasl.mechanism, user and password",
    StreamLayer.TOPIC: "allow the user READ and DESCRIBE of the topic",
    StreamLayer.FETCH: "see the broker's log",
}
_TEXT_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Failure:
    """text: what librdkafka said, without secrets."""

    layer: StreamLayer
    is_transient: bool
    text: str

    def error(self, brokers: str) -> StreamUnavailableError:
        """As callers get it; `brokers` as the table has them."""
        return StreamUnavailableError(
            f"Kafka at {brokers}: {self.text}: {_REMEDIES[self.layer]}",
            layer=self.layer,
            is_transient=self.is_transient,
        )


def is_not_there(name: str) -> bool:
    """Whether an error means that there is no such topic or partition."""
    return name in _NOT_THERE


def is_no_failure(name: str) -> bool:
    """Whether an error means nothing to a client that assigns partitions itself."""
    return name in _NO_FAILURE


def classified(name: str, text: str) -> Failure:
    """What an error of librdkafka means.

    Args:
        name: of its code, `_TRANSPORT`.
        text: its message, or a line of the log about a connection that failed.
    """
    layer, is_transient = _layer(name, text)
    return Failure(layer, is_transient, f"{text[:_TEXT_MAX]} ({name})" if name else text[:_TEXT_MAX])


def is_vague(failure: Failure) -> bool:
    """Whether it says only that there is no connection: a failure before it says why."""
    return failure.text.endswith(f"({_DOWN})")


def _layer(name: str, text: str) -> tuple[StreamLayer, bool]:
    if name == "_RESOLVE" or "Failed to resolve" in text:
        return StreamLayer.DNS, True
    if name == "_SSL" or "SSL handshake failed" in text or "SSL connection closed" in text:
        # A connection that breaks off in the handshake may be a broker that stops.
        return StreamLayer.TLS, "closed by peer (" in text
    if name in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE"):
        return StreamLayer.SASL, False
    if "AUTHORIZATION_FAILED" in name:
        return StreamLayer.TOPIC, False
    state = _STATE.search(text)
    if name in ("_BAD_MSG", "_UNDERFLOW") and state is not None:
        return StreamLayer.TCP, False  # something answers that is no Kafka
    if state is not None:
        for prefix, layer in _LAYERS_BY_STATE:
            if state.group(1).startswith(prefix):
                return layer, True
    if name in (_DOWN, "_TRANSPORT") or not name:
        return StreamLayer.TCP, True
    return StreamLayer.FETCH, True
