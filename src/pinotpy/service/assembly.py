"""The parts that every daemon needs, made from its settings: access control, TLS, metrics, logs, credentials."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from pinotpy.clock import Clock, SystemClock
from pinotpy.config.settings import ProcessSettings
from pinotpy.functions.loading import load_user_functions
from pinotpy.memory.descriptors import descriptor_limit, num_descriptors
from pinotpy.service.access import CLUSTER_TOKEN_HEADER, AccessControl, AllowAll, UsersFileAccess, read_cluster_token
from pinotpy.service.addresses import TrustedProxies
from pinotpy.service.daemon import Daemon, Part, run_daemon
from pinotpy.service.http import HttpApp
from pinotpy.service.http_server import THREADS, HttpServer, check_query_binding, serve
from pinotpy.service.logs import configure_logs
from pinotpy.service.metric_catalogue import METRICS_BY_ROLE
from pinotpy.service.metrics import Metrics
from pinotpy.service.process_memory import ProcessMemory
from pinotpy.service.tls import TlsFiles, TlsPem, client_context, read_pem


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
    memory: ProcessMemory

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

    def pem(self) -> TlsPem:
        """The TLS files' content, all None without TLS. Raises StartError."""
        return read_pem(self.tls) if self.tls is not None else TlsPem(None, None, None, False)

    def serve(
        self, app: HttpApp, port: int, *, advertised_port: int | None = None, threads: int = THREADS
    ) -> HttpServer:
        """Serve `app` on the settings' host; see `http_server.serve`."""
        settings = self.settings
        return serve(
            app,
            settings.host,
            port,
            tls=self.tls,
            insecure=settings.insecure,
            advertised_host=settings.advertised_host,
            advertised_port=advertised_port,
            connections_max=settings.http_connections_max,
            connections_by_address_max=settings.http_connections_by_address_max,
            proxies=TrustedProxies(settings.http_trusted_proxies),
            threads=threads,
        )


class Assembled(Protocol):
    """A daemon put together: its parts in the order of their start, and what its ready line shows."""

    def parts(self) -> Sequence[Part]: ...

    def facts(self) -> Mapping[str, object]: ...


SettingsT = TypeVar("SettingsT", bound=ProcessSettings)


def run_assembled(
    settings: SettingsT, assemble: Callable[[SettingsT, Equipment], Assembled], ready_file: Path | None
) -> NoReturn:
    """Run the daemon of these settings in this process until it is told to stop, and end the process."""
    equipment: list[Equipment] = []
    assembled: list[Assembled] = []

    def build(daemon: Daemon) -> Sequence[Part]:
        equipment.append(equip(settings.role, settings))
        assembled.append(assemble(settings, equipment[0]))
        return [equipment[0].memory.part(), *assembled[0].parts()]

    def facts() -> Mapping[str, object]:
        return {**assembled[0].facts(), "memory_budget": equipment[0].memory.budget.total_bytes}

    run_daemon(settings.role, build, ready=facts, ready_file=ready_file)


def equip(role: str, settings: ProcessSettings) -> Equipment:
    """Make the parts; sets up the process' logging and its user functions. Raises StartError (bad files, bad users
    file) and InvalidConfigError (user functions that are missing or broken).
    """
    configure_logs(level=settings.log_level, audit_file=settings.audit_file)
    load_user_functions(settings.user_functions)
    token = read_cluster_token(settings.cluster_token_file) if settings.cluster_token_file else None
    clock = SystemClock()
    if role == "server":
        check_query_binding(settings.host, token, insecure=settings.insecure)
    access: AccessControl = (
        UsersFileAccess(settings.auth_users_file, cluster_token=token, clock=clock)
        if settings.auth_users_file
        else AllowAll(cluster_token=token)
    )
    tls = None
    if settings.tls_cert_file is not None or settings.tls_ca_file is not None:
        tls = TlsFiles(settings.tls_cert_file, settings.tls_key_file, settings.tls_ca_file)
    metrics = Metrics(role, METRICS_BY_ROLE[role])
    metrics.watch("openDescriptors", lambda: float(num_descriptors()))
    metrics.watch("descriptorsLimit", lambda: float(descriptor_limit()))
    return Equipment(role, settings, metrics, access, tls, token, clock, ProcessMemory(settings, metrics))
