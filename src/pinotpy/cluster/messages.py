"""Messages to instances: building them in Helix's form, and sending those that are not part of the pipeline."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore, Create, Op
from pinotpy.cluster.transitions import Transition
from pinotpy.cluster.views import ERROR, OFFLINE, STATE_TRANSITION, USER_DEFINE_MSG, LiveInstance, Message
from pinotpy.errors import ConnectionLostError, NodeExistsError, NoNodeError

_ATTEMPTS_MAX = 3

REFRESH_SEGMENT = "REFRESH_SEGMENT"
RELOAD_SEGMENT = "RELOAD_SEGMENT"
REFRESH_TABLE_CONFIG = "REFRESH_TABLE_CONFIG"
FORCE_COMMIT = "FORCE_COMMIT"


def new_message_id() -> str:
    return str(uuid.uuid4())


def transition_message(step: Transition, state_model: str, *, source: str, source_session: str, now_ms: int) -> Message:
    """A state transition as the controller of Helix 1.3 writes it."""
    message_id = new_message_id()
    fields = {
        "CREATE_TIMESTAMP": str(now_ms),
        "FROM_STATE": step.from_state,
        "MSG_ID": message_id,
        "MSG_STATE": "new",
        "MSG_TYPE": STATE_TRANSITION,
        "PARTITION_NAME": step.partition,
        "RESOURCE_NAME": step.resource,
        "RESOURCE_TAG": step.resource,
        "RETRY_COUNT": "3",
        "SRC_NAME": source,
        "SRC_SESSION_ID": source_session,
        "STATE_MODEL_DEF": state_model,
        "STATE_MODEL_FACTORY_NAME": "DEFAULT",
        "TGT_NAME": step.instance,
        "TGT_SESSION_ID": step.session,
        "TIMEOUT": "-1",
        "TO_STATE": step.to_state,
    }
    return Message(message_id, fields)


def send_user_message(
    store: ClusterStore,
    paths: ClusterPaths,
    instances: Iterable[str],
    subtype: str,
    *,
    resource: str,
    partition: str = "",
    fields: Mapping[str, str] | None = None,
    source: str = "",
    now_ms: int,
) -> int:
    """Send a user message (REFRESH_SEGMENT, RELOAD_SEGMENT …) to those of `instances` that live; return how many were
    sent.

    Raises ConnectionLostError when the outcome stays unknown; sending again is harmless to receivers.
    """
    common = {
        "CREATE_TIMESTAMP": str(now_ms),
        "MSG_STATE": "new",
        "MSG_SUBTYPE": subtype,
        "MSG_TYPE": USER_DEFINE_MSG,
        "PARTITION_NAME": partition,
        "RESOURCE_NAME": resource,
        "RETRY_COUNT": "0",
        "SRC_CLUSTER": paths.cluster,
        "SRC_INSTANCE_TYPE": "PARTICIPANT",
        "SRC_NAME": source,
        "TIMEOUT": "-1",
        **(fields or {}),
    }
    sent = 0
    for instance, session in live_sessions(store, paths, instances).items():
        message_id = new_message_id()
        message = Message(message_id, {**common, "MSG_ID": message_id, "TGT_NAME": instance, "TGT_SESSION_ID": session})
        sent += _create(store, paths.message(instance, message_id), message)
    return sent


def send_reset(
    store: ClusterStore,
    paths: ClusterPaths,
    instance: str,
    resource: str,
    partitions: Iterable[str],
    *,
    state_model: str,
    source: str,
    now_ms: int,
) -> int:
    """Ask an instance to leave ERROR for OFFLINE (REST segment reset); the pipeline then brings it to its ideal
    state.
    """
    sessions = live_sessions(store, paths, [instance])
    if instance not in sessions:
        return 0
    sent = 0
    for partition in partitions:
        step = Transition(instance, sessions[instance], resource, partition, ERROR, OFFLINE)
        message = transition_message(step, state_model, source=source, source_session=store.session_id, now_ms=now_ms)
        sent += _create(store, paths.message(instance, message.id), message)
    return sent


def live_sessions(store: ClusterStore, paths: ClusterPaths, instances: Iterable[str]) -> dict[str, str]:
    """instance → session of those that live."""
    names = sorted(set(instances))
    live_paths = [paths.live_instance(instance) for instance in names]
    nodes = store.get_many(live_paths)
    return {
        instance: LiveInstance.from_record(ZNRecord.from_bytes(node[0], path)).session_id
        for instance, path, node in zip(names, live_paths, nodes, strict=True)
        if node is not None
    }


def create_op(paths: ClusterPaths, message: Message) -> Op:
    return Create(paths.message(message.fields["TGT_NAME"], message.id), message.to_record().to_bytes())


def _create(store: ClusterStore, path: str, message: Message) -> int:
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        try:
            store.create(path, message.to_record().to_bytes())
        except NodeExistsError:
            return 1  # an earlier attempt whose reply was lost
        except NoNodeError:
            return 0  # the instance was removed
        except ConnectionLostError:
            if attempt == _ATTEMPTS_MAX:
                raise
        else:
            return 1
    raise AssertionError("unreachable")
