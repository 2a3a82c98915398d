"""All znode paths, in Pinot's and Helix's tree. Nothing else in pinotpy spells a path.

Names come checked (`pinotpy.names`); a '/' here is a bug or an attack and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from pinotpy.errors import UserError

BROKER_RESOURCE = "brokerResource"
LEAD_CONTROLLER_RESOURCE = "leadControllerResource"


@dataclass(frozen=True, slots=True)
class ClusterPaths:
    """Paths below `/<cluster>`."""

    cluster: str

    def __post_init__(self) -> None:
        _part(self.cluster)

    @property
    def root(self) -> str:
        return f"/{self.cluster}"

    @property
    def cluster_config(self) -> str:
        return f"{self.root}/CONFIGS/CLUSTER/{self.cluster}"

    @property
    def instance_configs(self) -> str:
        return f"{self.root}/CONFIGS/PARTICIPANT"

    def instance_config(self, instance: str) -> str:
        return f"{self.instance_configs}/{_part(instance)}"

    def resource_config(self, resource: str) -> str:
        return f"{self.root}/CONFIGS/RESOURCE/{_part(resource)}"

    @property
    def controller(self) -> str:
        return f"{self.root}/CONTROLLER"

    @property
    def leader(self) -> str:
        return f"{self.controller}/LEADER"

    @property
    def leader_epoch(self) -> str:
        """Ours: its version counts elections and fences every write of a leader."""
        return f"{self.controller}/EPOCH"

    @property
    def controller_history(self) -> str:
        return f"{self.controller}/HISTORY"

    @property
    def ideal_states(self) -> str:
        return f"{self.root}/IDEALSTATES"

    def ideal_state(self, resource: str) -> str:
        return f"{self.ideal_states}/{_part(resource)}"

    @property
    def external_views(self) -> str:
        return f"{self.root}/EXTERNALVIEW"

    def external_view(self, resource: str) -> str:
        return f"{self.external_views}/{_part(resource)}"

    @property
    def live_instances(self) -> str:
        return f"{self.root}/LIVEINSTANCES"

    def live_instance(self, instance: str) -> str:
        return f"{self.live_instances}/{_part(instance)}"

    @property
    def state_model_defs(self) -> str:
        return f"{self.root}/STATEMODELDEFS"

    def state_model_def(self, name: str) -> str:
        return f"{self.state_model_defs}/{_part(name)}"

    @property
    def instances(self) -> str:
        return f"{self.root}/INSTANCES"

    def instance(self, instance: str) -> str:
        return f"{self.instances}/{_part(instance)}"

    def current_state_sessions(self, instance: str) -> str:
        return f"{self.instance(instance)}/CURRENTSTATES"

    def current_states(self, instance: str, session: str) -> str:
        return f"{self.current_state_sessions(instance)}/{_part(session)}"

    def current_state(self, instance: str, session: str, resource: str) -> str:
        return f"{self.current_states(instance, session)}/{_part(resource)}"

    def messages(self, instance: str) -> str:
        return f"{self.instance(instance)}/MESSAGES"

    def message(self, instance: str, message_id: str) -> str:
        return f"{self.messages(instance)}/{_part(message_id)}"

    def history(self, instance: str) -> str:
        return f"{self.instance(instance)}/HISTORY"

    @property
    def property_store(self) -> str:
        return f"{self.root}/PROPERTYSTORE"

    @property
    def schemas(self) -> str:
        return f"{self.property_store}/SCHEMAS"

    def schema(self, schema_name: str) -> str:
        return f"{self.schemas}/{_part(schema_name)}"

    @property
    def table_configs(self) -> str:
        return f"{self.property_store}/CONFIGS/TABLE"

    def table_config(self, table_name_with_type: str) -> str:
        return f"{self.table_configs}/{_part(table_name_with_type)}"

    @property
    def tenant_isolation(self) -> str:
        return f"{self.property_store}/CONFIGS/CLUSTER/tenantIsolationEnabled"

    @property
    def all_segments(self) -> str:
        return f"{self.property_store}/SEGMENTS"

    def segments(self, table_name_with_type: str) -> str:
        return f"{self.all_segments}/{_part(table_name_with_type)}"

    def segment(self, table_name_with_type: str, segment_name: str) -> str:
        return f"{self.segments(table_name_with_type)}/{_part(segment_name)}"

    @property
    def all_instance_partitions(self) -> str:
        return f"{self.property_store}/INSTANCE_PARTITIONS"

    def instance_partitions(self, table_name_with_type: str) -> str:
        return f"{self.all_instance_partitions}/{_part(table_name_with_type)}"

    @property
    def segment_lineages(self) -> str:
        return f"{self.property_store}/SEGMENT_LINEAGE"

    def segment_lineage(self, table_name_with_type: str) -> str:
        return f"{self.segment_lineages}/{_part(table_name_with_type)}"

    @property
    def segment_deletions(self) -> str:
        """Ours: deletions whose archives have not gone yet."""
        return f"{self.property_store}/SEGMENT_DELETIONS"

    def segment_deletion(self, node: str) -> str:
        return f"{self.segment_deletions}/{_part(node)}"

    @property
    def segment_uploads(self) -> str:
        """Ours: uploads that may leave an archive that no record names."""
        return f"{self.property_store}/SEGMENT_UPLOADS"

    def segment_upload(self, node: str) -> str:
        return f"{self.segment_uploads}/{_part(node)}"

    @property
    def segment_fences(self) -> str:
        return f"{self.property_store}/SEGMENT_FENCES"

    @property
    def reload_jobs(self) -> str:
        return f"{self.property_store}/CONTROLLER_JOBS/RELOAD_SEGMENT"

    @property
    def archive_findings(self) -> str:
        return f"{self.property_store}/CONTROLLER_ARCHIVE_FINDINGS"

    @property
    def force_commit_jobs(self) -> str:
        return f"{self.property_store}/CONTROLLER_JOBS/FORCE_COMMIT"


def instance_folders() -> tuple[str, ...]:
    """Folders below `INSTANCES/<instance>`, as Helix 1.3 makes them."""
    return (
        "CURRENTSTATES",
        "CUSTOMIZEDSTATES",
        "ERRORS",
        "HEALTHREPORT",
        "MESSAGES",
        "STATUSUPDATES",
        "TASKCURRENTSTATES",
    )


def _part(name: str) -> str:
    if not name or "/" in name or name in (".", "..") or "\0" in name:
        raise UserError(
            f"'{name[:80]}' cannot be part of a cluster path: it must not be empty, '.', '..' or hold '/'",
            name=name[:200],
        )
    return name
