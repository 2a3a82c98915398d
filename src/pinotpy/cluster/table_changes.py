"""What may happen to a table's state: one frozen dataclass a change, applied by `cluster.table_state.apply`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pinotpy.cluster.lineage import DEFAULT_AGES, Ages, LineageEvent
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import ANY_VERSION
from pinotpy.cluster.views import IdealState


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A new table: its config record, empty ideal state, and the brokers that answer for it. AlreadyExistsError if
    there is one, or if the external view of one just dropped is still there.
    """

    config: ZNRecord
    ideal_state: IdealState
    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deletion:
    """One deletion of segments, by which it is recorded until their archives are gone (`cluster.segment_deletions`).

    until_ms: how long the archives are kept among the deleted ones; None = not at all.
    """

    deletion_id: str
    began_ms: int
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DropTable:
    """Everything of a table goes; repeats after a crash finish the work. Segment files are the caller's, who finds in
    the record of the deletion which ones.
    """

    deletion: Deletion | None = None


@dataclass(frozen=True, slots=True)
class AddSegments:
    """New segments with their replicas (instance → state): record and ideal state become visible together.

    A segment that is there with an equal record is left alone, with another one AlreadyExistsError; so is one whose
    rows no query would see, because another segment has taken its place.
    """

    segments: tuple[tuple[SegmentZkMetadata, Mapping[str, str]], ...]


@dataclass(frozen=True, slots=True)
class RemoveSegments:
    """Segments leave ideal state and property store together; names that are not there are ignored.

    lineage_version: of the segment lineage that the removal was decided on; if it is another one now,
    StaleVersionError.
    deletion: under which it is recorded that their archives are to go.
    """

    names: tuple[str, ...]
    lineage_version: int | None = None
    deletion: Deletion | None = None


@dataclass(frozen=True, slots=True)
class ReplaceSegment:
    """A refresh: the record of an existing segment is replaced (NotFoundError if there is none), if it has `version`.

    Refused with AlreadyExistsError, as in AddSegments, when no query would see its rows.
    """

    metadata: SegmentZkMetadata
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class AssignSegments:
    """New replica maps for segments of the ideal state (rebalance, reassignment, repair)."""

    replicas: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class SetTableEnabled:
    """HELIX_ENABLED of the ideal state."""

    is_enabled: bool


@dataclass(frozen=True, slots=True)
class ReplaceConfig:
    """A new config for an existing table; `ideal_state_fields` are set with it (e.g. REPLICAS)."""

    config: ZNRecord
    version: int = ANY_VERSION
    ideal_state_fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetBrokers:
    """The brokers that answer for the table."""

    brokers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeLineage:
    """A step of a replacement of segments, decided by `cluster.lineage.decide` on lineage and segments as they are when
    it is written.
    """

    event: LineageEvent
    now_ms: int
    ages: Ages = DEFAULT_AGES


TableChange = (
    CreateTable
    | DropTable
    | AddSegments
    | RemoveSegments
    | ReplaceSegment
    | AssignSegments
    | SetTableEnabled
    | ReplaceConfig
    | SetBrokers
    | ChangeLineage
)
