"""What every daemon is put together from, made from its settings: access control, TLS, metrics, logs, credentials."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Any

from pinotpy.clock import Clock, SystemClock
from pinotpy.config.settings import ProcessSettings
from pinotpy.service.access import CLUSTER_TOKEN_HEADER, AccessControl, AllowAll, UsersFileAccess, read_cluster_token
from pinotpy.service.http_server import check_query_binding
from pinotpy.service.logs import configure_logs
from pinotpy.service.metric_catalogue import METRICS_BY_ROLE
from pinotpy.service.metrics import Metrics
from pinotpy.service.tls import TlsFiles, client_context


@dataclass(frozen=True, slots=True)
class Equipment:
    """The parts that do not depend on the role."""

    role: str
    settings: ProcessSettings
    metrics: Metrics
    access: AccessControl
    tls: TlsFiles | None
    cluster_token: str | None
    clock: Clock

    @property
    def scheme(self) -> str:
        """`https` if this daemon serves TLS."""
        return "https" if self.tls is not None and self.tls.is_serving else "http"

    def peer_headers(self) -> dict[str, str]:
        """Credentials that this daemon shows other daemons."""
        return {CLUSTER_TOKEN_HEADER: self.cluster_token} if self.cluster_token else {}

    def peer_verification(self) -> Any:
        """How other daemons' certificates are checked, as httpx takes it."""
        # Without TLS peers are called by http. This context trusts nobody, and costs nothing: reading the machine's
        # authorities takes as long as joining the cluster.
        return client_context(self.tls) if self.tls is not None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def equip(role: str, settings: ProcessSettings) -> Equipment:
    """Make the parts; sets up the process' logging. Raises StartError (bad files, bad users file)."""
    configure_logs(level=settings.log_level)
    token = read_cluster_token(settings.cluster_token_file) if settings.cluster_token_file else None
    clock = SystemClock()
    if role == "server":
        check_query_binding(settings.host, token, insecure=settings.insecure)
    access: AccessControl = (
        UsersFileAccess(settings.auth_users_file, cluster_token=token, clock=clock) if settings.auth_users_file else AllowAll(cluster_token=token)
    )
    tls = None
    if settings.tls_cert_file is not None or settings.tls_ca_file is not None:
        tls = TlsFiles(settings.tls_cert_file, settings.tls_key_file, settings.tls_ca_file)
    return Equipment(role, settings, Metrics(role, METRICS_BY_ROLE[role]), access, tls, token, clock)
