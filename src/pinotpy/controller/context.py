"""Everything that the controller's operations and routes work with, in one value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from pinotpy.clock import Clock
from pinotpy.cluster.force_commit_jobs import ForceCommitJobs
from pinotpy.cluster.realtime_segments import RealtimeSegments
from pinotpy.cluster.reload_jobs import ReloadJobRecords
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.settings import ControllerSettings
from pinotpy.controller.archive_findings import ArchiveFindings
from pinotpy.controller.call_board import CallBoard
from pinotpy.controller.catalog import Catalog
from pinotpy.controller.check_room import CheckRoom
from pinotpy.controller.identity import Identity
from pinotpy.controller.periods import DAY_MS
from pinotpy.controller.segment_files import SegmentFiles
from pinotpy.controller.upload_conditions import UploadConditions
from pinotpy.errors import OutOfCapacityError
from pinotpy.service.metrics import Metrics
from pinotpy.service.turn_queue import TurnQueue

if TYPE_CHECKING:
    from pinotpy.fs.crypters import Crypters
    from pinotpy.fs.fetchers import SegmentFetchers


# Requests that wait for servers at once, and of one asker those that wait for a thread.
FAN_OUT_THREADS: Final = 16
FAN_OUT_WAITING_MAX: Final = 256
# Requests that wait for the deep store, or for what lies where it was pushed from; three quarters of them of one asker.
# No more wait than there are connections: a download that has begun is not refused.
STORAGE_THREADS: Final = 16
STORAGE_AT_ONCE_MAX: Final = 12
STORAGE_WAITING_MAX: Final = 4_096


def _asks_enough(waiting: int) -> OutOfCapacityError:
    return OutOfCapacityError(f"{waiting} of your requests that ask servers wait already: try again")


def _stores_enough(waiting: int) -> OutOfCapacityError:
    return OutOfCapacityError(f"{waiting} of your requests wait for the deep store already: try again")


@dataclass(frozen=True, slots=True)
class Controller:
    """One controller. All parts may be used from any thread, `async_peers` only from the server's event loop.

    Attributes:
        fetchers: bring archives from addresses that uploads and records name, if the operator allows them.
        crypters: encrypt archives before they are stored.
        check_room: memory in which uploads are checked.
        peers, async_peers: HTTP clients to other daemons; `peers` shows the cluster token, `async_peers` does not, as
            it passes on what users send.
        is_leader, leader: whether this controller leads; the instance id of the one that does, or None.
        register_at_leader: passes a segment's registration on to the leader.
        refreshed: table and segment of those of hybrid tables that were uploaded again with rows of a later time
            (periodic/refreshed_segments).
        archives: what this leader knows of the archives in the deep store (periodic/deep_store_scrub).
        calls: calls to servers that are under way.
        fan_out: threads of requests that wait for servers.
        storage: threads of requests that wait for the deep store.
        stopped: table, segment and server of replicas that stopped consuming → why, as far as this leader heard of it.
    """

    identity: Identity
    settings: ControllerSettings
    catalog: Catalog
    files: SegmentFiles
    fetchers: SegmentFetchers
    crypters: Crypters
    scratch_dir: Path
    check_room: CheckRoom
    clock: Clock
    metrics: Metrics
    peers: httpx.Client
    async_peers: httpx.AsyncClient
    is_leader: Callable[[], bool]
    leader: Callable[[], str | None]
    register_at_leader: Callable[[SegmentZkMetadata, UploadConditions], Awaitable[SegmentZkMetadata | None]]
    refreshed: set[tuple[str, str]] = field(default_factory=set)
    stopped: dict[tuple[str, str, str], str] = field(default_factory=dict)
    archives: ArchiveFindings = field(default_factory=ArchiveFindings)
    calls: CallBoard[Any] = field(init=False)
    fan_out: TurnQueue = field(
        default_factory=lambda: TurnQueue("fan-out", FAN_OUT_THREADS, FAN_OUT_WAITING_MAX, _asks_enough)
    )
    storage: TurnQueue = field(
        default_factory=lambda: TurnQueue(
            "storage", STORAGE_THREADS, STORAGE_WAITING_MAX, _stores_enough, STORAGE_AT_ONCE_MAX
        )
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "calls", CallBoard(self.clock))

    @property
    def instance(self) -> str:
        """`Controller_<host>_<port>`."""
        return self.identity.instance

    @property
    def scheme(self) -> str:
        """How daemons of this cluster speak to each other."""
        return "https" if self.settings.uses_tls else "http"

    @property
    def reload_jobs(self) -> ReloadJobRecords:
        """The records of reload jobs in the cluster's store."""
        return ReloadJobRecords(self.catalog.store, self.catalog.paths)

    @property
    def force_commit_jobs(self) -> ForceCommitJobs:
        """The records of forced commits in the cluster's store."""
        return ForceCommitJobs(self.catalog.store, self.catalog.paths)

    @property
    def realtime_segments(self) -> RealtimeSegments:
        """Segments of streams in the cluster's store."""
        return RealtimeSegments(self.catalog.store, self.catalog.paths, self.catalog.fences)

    @property
    def deleted_segments_retention_ms(self) -> int:
        return self.settings.deleted_segments_retention_days * DAY_MS
