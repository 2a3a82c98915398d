"""Identity and encryption of gRPC: PEM bytes and the cluster token, as both ends need them."""

from __future__ import annotations

from dataclasses import dataclass, field

# gRPC metadata keys; the value of a `-bin` key is bytes.
CLUSTER_TOKEN_KEY = "x-pinotpy-cluster-token"
FAULT_KEY = "pinotpy-fault-bin"


@dataclass(frozen=True, slots=True)
class RpcSecurity:
    """`certificate` and `key`: our own; `ca`: whom we trust. Without any of them the connection is not encrypted.

    A server asks its callers for certificates of `ca` when `client_certificates` is set. `server_name` overrides the
    name that a server's certificate must carry (all servers of a cluster may share one certificate).
    """

    cluster_token: str | None = field(default=None, repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    ca: bytes | None = None
    client_certificates: bool = False
    server_name: str | None = None

    @property
    def is_encrypted(self) -> bool:
        return self.certificate is not None or self.ca is not None
