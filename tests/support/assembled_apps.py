"""The applications of daemons as their own parts put them together, over a cluster store in memory, without a port."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pinotpy.broker.service import BrokerParts
from pinotpy.clock import SystemClock
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.spectator import Spectator
from pinotpy.config.settings import BrokerSettings, ProcessSettings, ServerSettings
from pinotpy.server.service import ServerParts
from pinotpy.service.access import AllowAll
from pinotpy.service.assembly import Equipment
from pinotpy.service.http import HttpApp
from pinotpy.service.metric_catalogue import METRICS_BY_ROLE
from pinotpy.service.metrics import Metrics
from pinotpy.service.process_memory import ProcessMemory


class _NotServedError(Exception):
    """Instead of listening."""


class _Keeping(Equipment):
    """Equipment that keeps what it is told to serve."""

    def serve(self, app: HttpApp, *_: Any, **__: Any) -> Any:
        raise _NotServedError(app)


def _app_of(parts: Any) -> HttpApp:
    try:
        parts._start_http()
    except _NotServedError as kept:
        return cast(HttpApp, kept.args[0])
    raise AssertionError("nothing was served")


def _keeping(role: str, settings: ProcessSettings) -> Equipment:
    """As `equip` makes it of plain settings, without setting up the logs of this process."""
    metrics = Metrics(role, METRICS_BY_ROLE[role])
    return _Keeping(role, settings, metrics, AllowAll(), None, None, SystemClock(), ProcessMemory(settings, metrics))


def broker_app(tree: MemoryTree) -> HttpApp:
    """Of a broker."""
    settings = BrokerSettings(port=0)
    parts = BrokerParts(settings, _keeping("broker", settings))
    parts._spectator = Spectator(MemoryStore(tree), ClusterPaths(settings.cluster_name))
    return _app_of(parts)


def server_app(tree: MemoryTree, folder: Path) -> HttpApp:
    """Of a server whose files are in `folder`."""
    settings = ServerSettings(port=0, admin_port=0, data_dir=folder / "index", segment_dir=folder / "segments")
    parts = ServerParts(settings, _keeping("server", settings))
    parts._store = cast(Any, MemoryStore(tree))
    parts._open_store()
    return _app_of(parts)
