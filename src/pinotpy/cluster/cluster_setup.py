"""Create a cluster's base tree. Safe to run at every start and by several controllers at once."""

from __future__ import annotations

import uuid

from pinotpy.cluster.paths import BROKER_RESOURCE, LEAD_CONTROLLER_RESOURCE, ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.state_model import BROKER_STATE_MODEL, STATE_MODELS
from pinotpy.cluster.store import ClusterStore
from pinotpy.cluster.views import new_ideal_state
from pinotpy.errors import NodeExistsError

CLUSTER_ID_FIELD = "pinotpy.cluster.id"


def create_cluster(store: ClusterStore, paths: ClusterPaths) -> None:
    """Create what is missing of the base tree; existing records are left as they are."""
    folders = [
        paths.instance_configs,
        f"{paths.root}/CONFIGS/CUSTOMIZED_STATE",
        paths.controller,
        f"{paths.controller}/ERRORS",
        f"{paths.controller}/MESSAGES",
        f"{paths.controller}/STATUSUPDATES",
        paths.external_views,
        paths.ideal_states,
        paths.instances,
        paths.live_instances,
        paths.schemas,
        paths.table_configs,
        paths.all_segments,
        paths.all_instance_partitions,
        paths.segment_lineages,
        paths.segment_uploads,
    ]
    for folder in folders:
        _create(store, folder)
    _create(store, paths.leader_epoch)
    for model in STATE_MODELS.values():
        _create(store, paths.state_model_def(model.name), model.to_record())
    # The keys and values of 1.5.1. Our id tells a wiped or foreign ensemble from ours.
    _create(
        store,
        paths.cluster_config,
        ZNRecord(
            paths.cluster,
            {
                "allowParticipantAutoJoin": "true",
                "default.hyperloglog.log2m": "8",
                "enable.case.insensitive": "true",
                "pinot.broker.enable.query.limit.override": "true",
                CLUSTER_ID_FIELD: uuid.uuid4().hex,
            },
        ),
    )
    _create(store, paths.tenant_isolation, ZNRecord("tenantIsolationEnabled", {"tenantIsolationEnabled": "true"}))
    # One lead controller for all tables: old clients read that from RESOURCE_ENABLED=false and then ask
    # CONTROLLER/LEADER.
    _create(
        store,
        paths.resource_config(LEAD_CONTROLLER_RESOURCE),
        ZNRecord(LEAD_CONTROLLER_RESOURCE, {"RESOURCE_ENABLED": "false"}),
    )
    broker_resource = new_ideal_state(BROKER_RESOURCE, BROKER_STATE_MODEL.name, 0)
    _create(store, paths.ideal_state(BROKER_RESOURCE), broker_resource.to_record())


def _create(store: ClusterStore, path: str, record: ZNRecord | None = None) -> None:
    if store.exists(path) is not None:
        return
    try:
        store.create(path, record.to_bytes() if record else b"", make_parents=True)
    except NodeExistsError:
        return  # another controller was faster
