"""TLS from certificate files, for what listens (uvicorn, gRPC) and what calls (httpx, gRPC).

TLS 1.2 is the oldest version spoken. With a CA file a listening side asks callers for a certificate of that CA (mutual
TLS) when `client_certificates` says so; a calling side trusts that CA instead of the system's.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from pinotpy.service.errors import StartError

PEM_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificate chain and key of this daemon, and the CA that signs its peers. PEM files."""

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    client_certificates: bool = False

    @property
    def is_serving(self) -> bool:
        """Whether a listening side can use it."""
        return self.certificate is not None


@dataclass(frozen=True, slots=True)
class TlsPem:
    """The files' content, as gRPC wants it."""

    certificate: bytes | None
    key: bytes | None
    ca: bytes | None
    client_certificates: bool


def read_pem(files: TlsFiles) -> TlsPem:
    """Read the files. Raises StartError naming the one that cannot be read."""
    return TlsPem(_read(files.certificate), _read(files.key), _read(files.ca), files.client_certificates)


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """The context of a listening side. Raises StartError if certificate and key cannot be used."""
    if files.certificate is None or files.key is None:
        raise StartError("TLS needs both a certificate file and a key file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_chain(context, files)
    if files.client_certificates:
        if files.ca is None:
            raise StartError("asking callers for certificates needs the file of the CA that signs them")
        _load_ca(context, files.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def load_chain(context: ssl.SSLContext, files: TlsFiles) -> None:
    """(Re)load certificate and key into `context`: new connections use them, those that stand go on."""
    assert files.certificate is not None
    try:
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as problem:
        raise StartError(
            f"TLS certificate '{files.certificate}' with key '{files.key}' cannot be used: {problem}"
        ) from problem


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """The context of a calling side: checks the peer's certificate and name, shows our own if there is one."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load_ca(context, files.ca)
    if files.certificate is not None:
        load_chain(context, files)
    return context


def signature(files: TlsFiles) -> tuple[tuple[int, int], ...]:
    """Changes when one of the files changes."""
    signatures = []
    for file in (files.certificate, files.key, files.ca):
        try:
            status = file.stat() if file else None
        except OSError:
            status = None
        signatures.append((status.st_mtime_ns, status.st_size) if status else (0, 0))
    return tuple(signatures)


def _load_ca(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as problem:
        raise StartError(f"CA file '{ca}' cannot be used: {problem}") from problem


def _read(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        with file.open("rb") as stream:
            return stream.read(PEM_MAX_BYTES)
    except OSError as problem:
        raise StartError(f"TLS file '{file}' cannot be read: {problem.strerror}") from problem
