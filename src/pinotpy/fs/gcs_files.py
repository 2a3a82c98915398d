"""Files of Google Cloud Storage: `gs://bucket/path`.

Credentials come as for Google's own tools (`GOOGLE_APPLICATION_CREDENTIALS`, the machine's account). Pinot's `gcpKey`
names a key file; the library takes it from the environment only, so it must be named there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from pinotpy.fs.arrow_files import ArrowFiles
from pinotpy.fs.configs import Configs


def open_gcs(authority: str, configs: Mapping[str, str]) -> ArrowFiles:
    """The bucket `authority`."""
    from pyarrow import fs

    read = Configs("gs", configs)
    options: dict[str, object] = {
        "project_id": read.text("projectId"),
        "anonymous": read.flag("anonymous", False),
        "target_service_account": read.text("targetServiceAccount"),
        "retry_time_limit": timedelta(seconds=max(1.0, read.seconds("requestTimeoutMs", 30_000))),
    }
    if read.text("gcpKey") is not None:
        read.fault(
            "gcpKey",
            "a key file",
            "no gcpKey: set the environment variable GOOGLE_APPLICATION_CREDENTIALS of the daemon to its path",
        )
    endpoint = read.endpoint()
    if endpoint is not None:
        parts = urlsplit(endpoint)
        options |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    if not authority:
        read.fault("uri", "no bucket", "gs://bucket/path")
    read.finish()
    files = fs.GcsFileSystem(
        **{key: value for key, value in options.items() if value is not None and value is not False}
    )
    return ArrowFiles(files, authority)
