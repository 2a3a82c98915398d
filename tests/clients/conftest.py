"""One small live cluster with the table `trips` for all foreign clients of a test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live_cluster import LiveCluster
from trips_table import add_trips


@pytest.fixture(scope="session")
def trips_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("trips"), num_servers=1)
    try:
        add_trips(live)
        yield live
    finally:
        live.close()
