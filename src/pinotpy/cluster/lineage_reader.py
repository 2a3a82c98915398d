"""A spectator's view of segment lineages: through the watched cache, and re-read where that is not certain enough."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.segment_lineage import SegmentLineage, lineage_or_reason
from pinotpy.cluster.watched_cache import WatchedCache


class LineageReader:
    """Table → lineage. An unchanged lineage is the same object as before."""

    def __init__(self, cache: WatchedCache, paths: ClusterPaths) -> None:
        self._cache, self._paths = cache, paths
        self._found: set[str] = set()  # tables with a lineage that the folder's listing may not show yet

    def read(self) -> dict[str, SegmentLineage]:
        """All lineages, as new as the hints that came."""
        tables = sorted({*self._cache.children(self._paths.segment_lineages), *self._found})
        return self._of(tables)

    def is_still(self, lineages: Mapping[str, SegmentLineage], tables: Collection[str]) -> bool:
        """Whether these tables have exactly these lineages (or none) now: read from the store, regardless of hints."""
        if not tables:
            return True
        self._cache.invalidate(self._paths.segment_lineage(table) for table in tables)
        now = self._of(sorted(tables))
        self._found = {*self._found, *now} - {table for table in tables if table not in now}
        return all(now.get(table) is lineages.get(table) for table in tables)

    def _of(self, tables: list[str]) -> dict[str, SegmentLineage]:
        lineages = self._cache.read([self._paths.segment_lineage(table) for table in tables], lineage_or_reason)
        return {table: lineage for table, lineage in zip(tables, lineages, strict=True) if lineage is not None}
