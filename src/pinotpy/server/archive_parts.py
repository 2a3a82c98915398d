"""Where a server's segments come from and whom it gives them: deep store, controllers, replicas, put together."""

from __future__ import annotations

from collections.abc import Callable

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.store import ClusterStore
from pinotpy.config.settings import ServerSettings
from pinotpy.fs.crypters import Crypters
from pinotpy.fs.fetchers import SegmentFetchers
from pinotpy.fs.fetchers import settings_of as fetcher_settings
from pinotpy.segment.archive.tar_stream import ArchiveLimits
from pinotpy.server.api.segment_archive import archive_routes
from pinotpy.server.metrics import ServerMetrics
from pinotpy.server.tables.archive_faults import ArchiveFaults
from pinotpy.server.tables.fetcher import ArchiveFetcher, ControllerFetcher
from pinotpy.server.tables.given_archives import GivenArchives
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.server.tables.store import SegmentStore
from pinotpy.service.archive_download import DownloadLimits
from pinotpy.service.assembly import Equipment
from pinotpy.service.peer_archives import PeerArchives, replica_urls
from pinotpy.service.routes import Routes


class ArchiveParts:
    """Raises InvalidConfigError with every fault of the settings. `segments` opens what comes.

    Args:
        instance: the id of this server, empty as long as it has none: it is not its own replica.
    """

    def __init__(
        self,
        settings: ServerSettings,
        equipment: Equipment,
        store: ClusterStore,
        paths: ClusterPaths,
        registry: SegmentRegistry,
        metrics: ServerMetrics,
        instance: Callable[[], str],
    ) -> None:
        clock, scheme, verify = equipment.clock, equipment.scheme, equipment.peer_verification()
        downloads = DownloadLimits(
            settings.download_timeout_ms, settings.download_retries_max, settings.archive_unpacked_bytes_max
        )
        controllers = ControllerFetcher(
            lambda: controller_urls(store, paths, scheme), equipment.peer_headers, clock, verify, downloads
        )
        allowed = fetcher_settings(
            settings.segment_uris_allowed,
            settings.segment_fetcher,
            settings.storage_factory,
            bytes_max=settings.archive_unpacked_bytes_max,
            timeout_ms=settings.download_timeout_ms,
        )
        self._fetcher = ArchiveFetcher(SegmentFetchers(allowed, clock), controllers)

        def other_replicas(table: str, segment: str) -> list[str]:
            replicas = replica_urls(store, paths, scheme, table, segment)
            return [url for server, url in replicas.items() if server != instance()]

        self._peers = PeerArchives(other_replicas, equipment.peer_headers, clock, verify, downloads)
        self._faults = ArchiveFaults(clock)
        self._given = GivenArchives(
            registry,
            clock,
            at_once_max=settings.peer_archives_max,
            timeout_ms=settings.download_timeout_ms,
            on_given=metrics.given_to_peer,
        )
        self.segments = SegmentStore(
            settings.data_dir,
            self._fetcher,
            segment_dir=settings.segment_dir,
            limits=ArchiveLimits.of(settings.archive_entries_max, settings.archive_unpacked_bytes_max),
            crypters=Crypters(settings.crypter),
            peers=self._peers,
            faults=self._faults,
            on_peer=metrics.fetched_from_peer,
        )

    def routes(self) -> Routes:
        """What others may ask of it over REST."""
        return archive_routes(self._given, self._faults)

    def close(self) -> None:
        """Let waiting downloads give up."""
        self._fetcher.close()
        self._peers.close()


def controller_urls(store: ClusterStore, paths: ClusterPaths, scheme: str) -> list[str]:
    """Base URLs of the controllers that are registered in the cluster, live ones first."""
    live = set(store.children(paths.live_instances))
    urls: list[tuple[bool, str]] = []
    for instance in store.children(paths.instance_configs):
        if instance.startswith("Controller_"):
            host, _, port = instance.removeprefix("Controller_").rpartition("_")
            urls.append((instance not in live, f"{scheme}://{host}:{port}"))
    return [url for _, url in sorted(urls)]
