"""The address of a client whose request another daemon of the cluster passes on.

Limits of logins and the audit trail go by who asked, not by the daemon between. That one says who it was, in a header
that only holders of the cluster's token can write; without a token nobody is believed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

FORWARDED_FOR: Final = b"pinotpy-forwarded-for"
KEY_HEADER: Final = b"idempotency-key"  # of one request, so that nothing is won by sending its proof again

_Headers = Iterable[tuple[bytes, bytes]]


class ForwardedPeers:
    """Writes and reads the header."""

    def __init__(self, cluster_token: str) -> None:
        self._key = hashlib.blake2b(cluster_token.encode(), digest_size=32, person=b"forwarded peer").digest()

    def header(self, peer: str, key: bytes) -> tuple[bytes, bytes]:
        """That `peer` sent the request with this idempotency key."""
        return FORWARDED_FOR, f"{peer} {self._proof(peer, key)}".encode()

    def client(self, peer: str, headers: _Headers) -> str:
        """Who sent a request that came from `peer`: whom the header names, if it is proven."""
        said = key = b""
        for name, value in headers:
            if name == FORWARDED_FOR:
                said = value
            elif name == KEY_HEADER:
                key = value
        if not said:
            return peer
        client, _, proof = said.decode("latin-1").partition(" ")
        return client if hmac.compare_digest(proof.encode(), self._proof(client, key).encode()) else peer

    def _proof(self, peer: str, key: bytes) -> str:
        return hmac.digest(self._key, peer.encode() + b"\0" + key, hashlib.sha256).hex()
