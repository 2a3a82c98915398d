"""From settings to what guards a daemon: access control, cluster token, TLS, and where it may listen."""

from __future__ import annotations

from dataclasses import dataclass

from pinotpy.clock import Clock
from pinotpy.config.settings import ProcessSettings
from pinotpy.service.access import AccessControl, AllowAll, UsersFileAccess, read_cluster_token
from pinotpy.service.errors import StartError
from pinotpy.service.http_server import is_loopback
from pinotpy.service.tls import TlsFiles, TlsPem, read_pem


@dataclass(frozen=True, slots=True)
class Security:
    """Access control of a daemon's HTTP, the token it shows to other daemons, and its TLS files (None = plain)."""

    access: AccessControl
    cluster_token: str | None
    tls: TlsFiles | None

    def pem(self) -> TlsPem | None:
        """The TLS files' content, for gRPC."""
        return read_pem(self.tls) if self.tls is not None else None


def security_of(settings: ProcessSettings, clock: Clock | None = None) -> Security:
    """Read the files that `settings` name. Raises StartError or InvalidConfigError saying which one is wrong."""
    token = read_cluster_token(settings.cluster_token_file) if settings.cluster_token_file is not None else None
    access: AccessControl = AllowAll(token)
    if settings.auth_users_file is not None:
        access = UsersFileAccess(settings.auth_users_file, cluster_token=token, clock=clock)
    tls = None
    if settings.tls_cert_file is not None or settings.tls_ca_file is not None:
        tls = TlsFiles(settings.tls_cert_file, settings.tls_key_file, settings.tls_ca_file)
    return Security(access, token, tls)


def check_query_binding(host: str, cluster_token: str | None, *, insecure: bool) -> None:
    """Raise StartError if the query port of `host` could be called from elsewhere by anybody."""
    if cluster_token is None and not insecure and not is_loopback(host):
        raise StartError(f"refusing to take queries on '{host}' without a cluster token: give a cluster token file, bind 127.0.0.1, or pass --insecure")
