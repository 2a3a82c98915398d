"""A job's credentials for controllers: the token and the TLS files of its spec."""

from __future__ import annotations

from pinotpy.client.http_calls import Access
from pinotpy.errors import UserError
from pinotpy.ingest.jobs.spec import IngestionJobSpec


def access_of(spec: IngestionJobSpec) -> Access:
    """The job's token and TLS. Raises UserError for a key with a password."""
    tls = spec.tls_spec
    if tls is None:
        return Access(auth=spec.auth_token)
    if tls.key_store_password is not None:
        raise UserError(
            "tlsSpec.keyStorePassword: keys are read from PEM files without password here; protect the file by its "
            "rights instead"
        )
    return Access(auth=spec.auth_token, ca=tls.trust_store_path, certificate=tls.key_store_path)
