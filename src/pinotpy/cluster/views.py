"""Typed views of Helix's records: ideal state, external view, current state, live instance, instance config, message.

Each is built from a ZNRecord and writes one back; unknown fields pass through untouched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pinotpy.cluster.records import ZNRecord
from pinotpy.errors import DecodeError
from pinotpy.names import split_instance_id

ONLINE, OFFLINE, CONSUMING, ERROR, DROPPED = "ONLINE", "OFFLINE", "CONSUMING", "ERROR", "DROPPED"

# How many partitions the stream of a table has: written before their first segments are.
STREAM_PARTITIONS = "NUM_STREAM_PARTITIONS"

# partition (segment) → instance → state
PartitionStates = dict[str, dict[str, str]]

STATE_TRANSITION = "STATE_TRANSITION"
USER_DEFINE_MSG = "USER_DEFINE_MSG"


@dataclass(frozen=True, slots=True)
class IdealState:
    """What should be: segment → instance → state, and the resource's own fields."""

    resource: str
    partitions: PartitionStates
    simple_fields: dict[str, str] = field(default_factory=dict)
    list_fields: dict[str, list[str]] = field(default_factory=dict)

    @property
    def state_model(self) -> str:
        return self.simple_fields.get("STATE_MODEL_DEF_REF", "")

    @property
    def is_enabled(self) -> bool:
        return self.simple_fields.get("HELIX_ENABLED", "true").lower() != "false"

    @property
    def replicas(self) -> int:
        text = self.simple_fields.get("REPLICAS", "0")
        return int(text) if text.isdigit() else 0

    @property
    def num_stream_partitions(self) -> int:
        """Of the table's stream, as the controller saw it last; 0 where it did not say."""
        text = self.simple_fields.get(STREAM_PARTITIONS, "0")
        return int(text) if text.isdigit() else 0

    def with_partitions(self, partitions: PartitionStates) -> IdealState:
        return replace(
            self, partitions=partitions, simple_fields={**self.simple_fields, "NUM_PARTITIONS": str(len(partitions))}
        )

    def with_simple_field(self, name: str, value: str) -> IdealState:
        return replace(self, simple_fields={**self.simple_fields, name: value})

    @staticmethod
    def from_record(record: ZNRecord) -> IdealState:
        return IdealState(record.id, record.map_fields, record.simple_fields, record.list_fields)

    def to_record(self) -> ZNRecord:
        return ZNRecord(self.resource, dict(self.simple_fields), self.partitions, self.list_fields)


def new_ideal_state(resource: str, state_model: str, replicas: int, *, tag: str = "") -> IdealState:
    """An empty ideal state with the fields that Pinot writes (CUSTOMIZED mode)."""
    fields = {
        "BATCH_MESSAGE_MODE": "false",
        "IDEAL_STATE_MODE": "CUSTOMIZED",
        "NUM_PARTITIONS": "0",
        "REBALANCE_MODE": "CUSTOMIZED",
        "REPLICAS": str(replicas),
        "STATE_MODEL_DEF_REF": state_model,
        "STATE_MODEL_FACTORY_NAME": "DEFAULT",
    }
    if tag:
        fields |= {"INSTANCE_GROUP_TAG": tag, "MAX_PARTITIONS_PER_INSTANCE": "1"}
    return IdealState(resource, {}, fields)


@dataclass(frozen=True, slots=True)
class ExternalView:
    """What is: segment → instance → state, of live instances only.

    contents: of segments whose content was replaced which one is served (SegmentZkMetadata.content_id), and of those
        that take rows what these keep to (StreamPromise.text), where every instance that has the segment says so. One
        that is absent was never replaced, or not all say the same.
    """

    resource: str
    partitions: PartitionStates
    simple_fields: dict[str, str] = field(default_factory=dict)
    contents: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def from_record(record: ZNRecord) -> ExternalView:
        contents = {name: texts[0] for name, texts in record.list_fields.items() if len(texts) == 1}
        return ExternalView(record.id, record.map_fields, record.simple_fields, contents)

    def to_record(self) -> ZNRecord:
        contents = {name: [content] for name, content in self.contents.items()}
        return ZNRecord(self.resource, dict(self.simple_fields), self.partitions, contents)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One entry of a current state. content: what is served, of a segment whose content was replaced; of one that takes
    rows, what these keep to (StreamPromise.text).
    """

    state: str
    previous: str = OFFLINE
    start_ms: int = 0
    end_ms: int = 0
    info: str = ""
    triggered_by: str = ""
    content: str = ""

    def to_fields(self) -> dict[str, str]:
        fields = {
            "CURRENT_STATE": self.state,
            "END_TIME": str(self.end_ms),
            "INFO": self.info,
            "PREVIOUS_STATE": self.previous,
            "START_TIME": str(self.start_ms),
            "TRIGGERED_BY": self.triggered_by,
        }
        return fields | {"SEGMENT_CONTENT": self.content} if self.content else fields

    @staticmethod
    def from_fields(fields: Mapping[str, str]) -> PartitionState:
        return PartitionState(
            fields.get("CURRENT_STATE", OFFLINE),
            fields.get("PREVIOUS_STATE", OFFLINE),
            _int(fields.get("START_TIME")),
            _int(fields.get("END_TIME")),
            fields.get("INFO", ""),
            fields.get("TRIGGERED_BY", ""),
            fields.get("SEGMENT_CONTENT", ""),
        )


@dataclass(frozen=True, slots=True)
class CurrentState:
    """What one session of one instance has: segment → state."""

    resource: str
    session_id: str
    state_model: str
    partitions: Mapping[str, PartitionState]

    @staticmethod
    def from_record(record: ZNRecord) -> CurrentState:
        simple = record.simple_fields
        partitions = {name: PartitionState.from_fields(fields) for name, fields in record.map_fields.items()}
        return CurrentState(record.id, simple.get("SESSION_ID", ""), simple.get("STATE_MODEL_DEF", ""), partitions)

    def to_record(self) -> ZNRecord:
        simple = {
            "BATCH_MESSAGE_MODE": "false",
            "SESSION_ID": self.session_id,
            "STATE_MODEL_DEF": self.state_model,
            "STATE_MODEL_FACTORY_NAME": "DEFAULT",
        }
        return ZNRecord(self.resource, simple, {name: state.to_fields() for name, state in self.partitions.items()})


@dataclass(frozen=True, slots=True)
class LiveInstance:
    """An instance with a session. `process` is Helix's `pid@host`; `process_space` and `process_start` tell whether
    that pid can be looked up from here and whether it is still the same process (see `cluster.takeover`).
    """

    instance: str
    session_id: str
    process: str = ""
    process_space: str = ""
    process_start: str = ""
    version: str = ""

    @staticmethod
    def from_record(record: ZNRecord) -> LiveInstance:
        simple = record.simple_fields
        return LiveInstance(
            record.id,
            simple.get("SESSION_ID", ""),
            simple.get("LIVE_INSTANCE", ""),
            simple.get("PROCESS_SPACE", ""),
            simple.get("PROCESS_START", ""),
            simple.get("HELIX_VERSION", ""),
        )

    def to_record(self) -> ZNRecord:
        simple = {"HELIX_VERSION": self.version, "LIVE_INSTANCE": self.process, "SESSION_ID": self.session_id}
        if self.process_space:
            simple |= {"PROCESS_SPACE": self.process_space, "PROCESS_START": self.process_start}
        return ZNRecord(self.instance, simple)


def is_instance_enabled(simple_fields: Mapping[str, str]) -> bool:
    """By the fields of an instance config; absent means enabled."""
    return simple_fields.get("HELIX_ENABLED", "true").lower() != "false"


@dataclass(frozen=True, slots=True)
class InstanceConfig:
    """CONFIGS/PARTICIPANT of one instance. Absent HELIX_ENABLED means enabled (1.5.1)."""

    instance: str
    host: str
    port: int
    tags: tuple[str, ...] = ()
    simple_fields: dict[str, str] = field(default_factory=dict)
    map_fields: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def is_enabled(self) -> bool:
        return is_instance_enabled(self.simple_fields)

    @property
    def is_shutting_down(self) -> bool:
        return self.simple_fields.get("shutdownInProgress", "false").lower() == "true"

    @property
    def takes_queries(self) -> bool:
        """Whether brokers may route to it, as far as its config says."""
        return (
            self.is_enabled
            and not self.is_shutting_down
            and self.simple_fields.get("queriesDisabled", "false").lower() != "true"
        )

    def port_of(self, name: str) -> int | None:
        """A port field such as `adminPort` or `grpcPort`; None when absent."""
        text = self.simple_fields.get(name, "")
        return int(text) if text.isdigit() else None

    @staticmethod
    def from_record(record: ZNRecord) -> InstanceConfig:
        simple = record.simple_fields
        role = record.id.partition("_")[0]
        # Older servers and Helix itself write the host with the role before it.
        host = simple.get("HELIX_HOST", "").removeprefix(f"{role}_")
        port_text = simple.get("HELIX_PORT", "")
        if not host or not port_text.isdigit():
            try:
                _, id_host, id_port = split_instance_id(record.id)
            except Exception as error:
                raise DecodeError(
                    f"instance config '{record.id}' has no HELIX_HOST and HELIX_PORT, and its id names none"
                ) from error
            host, port_text = host or id_host, port_text if port_text.isdigit() else str(id_port)
        return InstanceConfig(
            record.id, host, int(port_text), tuple(record.list_fields.get("TAG_LIST", ())), simple, record.map_fields
        )

    def to_record(self) -> ZNRecord:
        simple = {**self.simple_fields, "HELIX_HOST": self.host, "HELIX_PORT": str(self.port)}
        return ZNRecord(self.instance, simple, self.map_fields, {"TAG_LIST": list(self.tags)})


@dataclass(frozen=True, slots=True)
class Message:
    """A message to one instance: a state transition or a user message. Fields are Helix's, in `fields`."""

    id: str
    fields: Mapping[str, str]

    @property
    def kind(self) -> str:
        return self.fields.get("MSG_TYPE", "")

    @property
    def subtype(self) -> str:
        return self.fields.get("MSG_SUBTYPE", "")

    @property
    def target_session(self) -> str:
        return self.fields.get("TGT_SESSION_ID", "")

    @property
    def resource(self) -> str:
        return self.fields.get("RESOURCE_NAME", "")

    @property
    def partition(self) -> str:
        return self.fields.get("PARTITION_NAME", "")

    @property
    def from_state(self) -> str:
        return self.fields.get("FROM_STATE", "")

    @property
    def to_state(self) -> str:
        return self.fields.get("TO_STATE", "")

    @property
    def state_model(self) -> str:
        return self.fields.get("STATE_MODEL_DEF", "")

    @property
    def source(self) -> str:
        return self.fields.get("SRC_NAME", "")

    @staticmethod
    def from_record(record: ZNRecord) -> Message:
        return Message(record.id, record.simple_fields)

    def to_record(self) -> ZNRecord:
        return ZNRecord(self.id, dict(self.fields))

    def as_read(self, session: str, now_ms: int) -> Message:
        """The same message as its receiver marks it."""
        return Message(
            self.id, {**self.fields, "MSG_STATE": "read", "EXE_SESSION_ID": session, "READ_TIMESTAMP": str(now_ms)}
        )


def _int(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError:
        return 0
