"""Joining a cluster: the instance's config, its folders, its LIVEINSTANCES node, and ending its own earlier session.

A killed daemon leaves an ephemeral node behind until its session expires. Started again it would wait 30 s and more
(the reference does). Here the new process replaces the node at once when the old process is surely gone: proved by its
pid, or by our holding the instance's port on the host that its config names.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pinotpy.clock import Clock
from pinotpy.cluster.cluster_setup import CLUSTER_ID_FIELD
from pinotpy.cluster.paths import ClusterPaths, instance_folders
from pinotpy.cluster.process_identity import ProcessIdentity, StartOf, is_gone
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore, Create, Delete
from pinotpy.cluster.views import InstanceConfig, LiveInstance
from pinotpy.errors import (
    AlreadyExistsError,
    ClusterError,
    ConnectionLostError,
    NodeExistsError,
    NoNodeError,
    StaleVersionError,
)
from pinotpy.names import split_instance_id

logger = logging.getLogger(__name__)

_ATTEMPTS_MAX = 10
_HISTORY_MAX = 20

# Tags of a new instance (Pinot's defaults); an operator changes them, we never do.
DEFAULT_TAGS: Mapping[str, tuple[str, ...]] = {
    "Server": ("DefaultTenant_OFFLINE", "DefaultTenant_REALTIME"),
    "Broker": ("DefaultTenant_BROKER",),
    "Controller": ("controller",),
    "Minion": ("minion_untagged",),
}


@dataclass(frozen=True, slots=True)
class Member:
    """An instance that joins.

    Args:
        config_fields: fields for CONFIGS/PARTICIPANT besides host and port, e.g.
            `{"adminPort": "8097", "grpcPort": "8090"}`.
        owns_port: the caller has bound the instance's port on its advertised host, so no other process can be this
            instance.
    """

    instance: str
    process: ProcessIdentity
    config_fields: Mapping[str, str] = field(default_factory=dict)
    tags: Sequence[str] = ()
    owns_port: bool = False
    version: str = ""


def check_cluster_id(store: ClusterStore, paths: ClusterPaths, known: str) -> str:
    """The id of the cluster, which must be the `known` one ("" = none yet): states must not be brought into another
    cluster, e.g. after ZooKeeper was wiped or restored from elsewhere. Raises ClusterError.
    """
    try:
        data, _ = store.get(paths.cluster_config)
    except NoNodeError as error:
        raise ClusterError(
            f"cluster '{paths.cluster}' does not exist in this ZooKeeper; start its controller first",
            cluster=paths.cluster,
        ) from error
    cluster_id = ZNRecord.from_bytes(data, paths.cluster_config).simple_fields.get(CLUSTER_ID_FIELD, "")
    if known and cluster_id != known:
        raise ClusterError(
            f"cluster '{paths.cluster}' is another one than before (id '{cluster_id}', expected '{known}'): "
            "ZooKeeper was wiped or replaced; restart this instance to join the new cluster",
            cluster=paths.cluster,
        )
    return cluster_id


def is_announced(store: ClusterStore, paths: ClusterPaths, instance: str, session: str) -> bool:
    """Whether the instance's live node is there and belongs to this session."""
    stat = store.exists(paths.live_instance(instance))
    return stat is not None and stat.ephemeral_owner == session


def remove_earlier_sessions(store: ClusterStore, paths: ClusterPaths, instance: str, session: str) -> None:
    """Remove the current states that the instance wrote in other sessions."""
    path = paths.current_state_sessions(instance)
    for earlier in store.children(path):
        if earlier != session:
            store.delete(f"{path}/{earlier}", recursive=True)


def write_instance_config(
    store: ClusterStore, paths: ClusterPaths, member: Member, *, is_shutting_down: bool = False
) -> InstanceConfig:
    """Create the config, or bring host, port and the member's fields up to date; tags of an existing one stay.

    Raises ConnectionLostError, and StaleVersionError when others keep changing it.
    """
    role, host, port = split_instance_id(member.instance)
    path = paths.instance_config(member.instance)
    fields = {**member.config_fields, "shutdownInProgress": "true" if is_shutting_down else "false"}
    for _ in range(_ATTEMPTS_MAX):
        try:
            data, stat = store.get(path)
        except NoNodeError:
            config = InstanceConfig(member.instance, host, port, tuple(member.tags) or DEFAULT_TAGS[role], fields)
            try:
                store.create(path, config.to_record().to_bytes(), make_parents=True)
            except NodeExistsError:
                continue
            return config
        old = InstanceConfig.from_record(ZNRecord.from_bytes(data, path))
        config = InstanceConfig(member.instance, host, port, old.tags, {**old.simple_fields, **fields}, old.map_fields)
        new_data = config.to_record().to_bytes()
        if new_data == old.to_record().to_bytes():
            return config
        try:
            store.set(path, new_data, stat.version)
        except StaleVersionError:
            continue
        return config
    raise StaleVersionError(
        f"the config of '{member.instance}' was changed by others {_ATTEMPTS_MAX} times in a row; try again",
        instance=member.instance,
    )


def set_instance_field(store: ClusterStore, paths: ClusterPaths, instance: str, name: str, value: str) -> None:
    """Set one simple field of an instance config; raises NoNodeError when there is none."""
    path = paths.instance_config(instance)
    for _ in range(_ATTEMPTS_MAX):
        data, stat = store.get(path)
        record = ZNRecord.from_bytes(data, path)
        if record.simple_fields.get(name) == value:
            return
        record.simple_fields[name] = value
        try:
            store.set(path, record.to_bytes(), stat.version)
        except StaleVersionError:
            continue
        return
    raise StaleVersionError(
        f"the config of '{instance}' was changed by others {_ATTEMPTS_MAX} times in a row; try again", instance=instance
    )


def create_folders(store: ClusterStore, paths: ClusterPaths, instance: str) -> None:
    root = paths.instance(instance)
    folders = [root, *(f"{root}/{name}" for name in instance_folders())]
    for path, node in zip(folders, store.get_many(folders), strict=True):
        if node is None:
            try:
                store.create(path, make_parents=True)
            except NodeExistsError:
                continue


def announce(store: ClusterStore, paths: ClusterPaths, member: Member, start_of: StartOf | None = None) -> bool:
    """Make the LIVEINSTANCES node ours; True when it is. False: another session holds it and may live.

    Raises ConnectionLostError: the outcome is unknown, call again.
    """
    path = paths.live_instance(member.instance)
    me = LiveInstance(
        member.instance,
        store.session_id,
        member.process.name,
        member.process.space,
        member.process.start,
        member.version,
    )
    create = Create(path, me.to_record().to_bytes(), ephemeral=True)
    try:
        data, stat = store.get(path)
    except NoNodeError:
        try:
            store.multi([create])
        except NodeExistsError:
            return False
        return True
    if stat.ephemeral_owner == store.session_id:
        return True
    old = LiveInstance.from_record(ZNRecord.from_bytes(data, path))
    reason = _takeover_reason(old, member, start_of)
    if reason is None:
        return False
    try:
        store.multi([Delete(path, stat.version), create])
    except (NoNodeError, StaleVersionError, NodeExistsError):
        return False  # it expired in between, or somebody took it: look again
    logger.info(
        "ended the earlier session of this instance instance=%s session=%s process=%s reason=%s",
        member.instance,
        old.session_id,
        old.process,
        reason,
    )
    return True


def announce_within(
    store: ClusterStore,
    paths: ClusterPaths,
    member: Member,
    *,
    timeout_s: float,
    clock: Clock,
    start_of: StartOf | None = None,
) -> None:
    """`announce` until it is ours. Raises AlreadyExistsError when another live process keeps the instance id for
    `timeout_s`.
    """
    deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
    while True:
        try:
            if announce(store, paths, member, start_of):
                return
        except ConnectionLostError as error:
            logger.info("announcing is not confirmed, reading back instance=%s cause=%s", member.instance, error)
        if clock.monotonic_ns() > deadline_ns:
            raise AlreadyExistsError(
                f"another process holds the session of '{member.instance}' for more than {timeout_s} s: stop it, or "
                "start with another host or port",
                instance=member.instance,
            )
        _pause(clock)


def write_history(store: ClusterStore, paths: ClusterPaths, member: Member, now_ms: int) -> None:
    """Append this session to INSTANCES/<instance>/HISTORY; best effort."""
    path = paths.history(member.instance)
    when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S:%f")[:-3]
    entry = (
        f"{{DATE={when}, VERSION={member.version}, HOST={member.process.host}, SESSION={store.session_id}, "
        f"TIME={now_ms}}}"
    )
    try:
        try:
            data, stat = store.get(path)
        except NoNodeError:
            store.create(
                path, ZNRecord(member.instance, {"LAST_OFFLINE_TIME": "-1"}, {}, {"HISTORY": [entry]}).to_bytes()
            )
            return
        record = ZNRecord.from_bytes(data, path)
        record.simple_fields["LAST_OFFLINE_TIME"] = "-1"
        record.list_fields["HISTORY"] = [*record.list_fields.get("HISTORY", []), entry][-_HISTORY_MAX:]
        store.set(path, record.to_bytes(), stat.version)
    except ClusterError as error:
        logger.info("instance history was not written instance=%s cause=%s", member.instance, error)


def _takeover_reason(old: LiveInstance, member: Member, start_of: StartOf | None) -> str | None:
    if (
        old.process == member.process.name
        and old.process_start == member.process.start
        and old.process_space == member.process.space
    ):
        return "an earlier session of this process"
    if is_gone(old, member.process, start_of):
        return "its process is gone"
    if member.owns_port:
        return "its port is ours"
    return None


def _pause(clock: Clock) -> None:
    clock.wait(threading.Event(), random.uniform(0.02, 0.1))
