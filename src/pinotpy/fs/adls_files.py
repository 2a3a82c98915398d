"""Files of Azure Data Lake Storage and Azure Blob Storage: `abfs[s]://container@account.dfs.core.windows.net/path`.

Configs are those of Pinot's ADLSGen2PinotFS. Without a key, credentials come as for Azure's own tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from pinotpy.fs.arrow_files import ArrowFiles
from pinotpy.fs.configs import Configs


def open_adls(authority: str, configs: Mapping[str, str]) -> ArrowFiles:
    """The container of an account; the account's name may stand in the configs instead."""
    from pyarrow import fs

    read = Configs("abfs", configs)
    container, _, host = authority.rpartition("@")
    if not container:  # abfs://container/path, the account named by its config
        container, host = host, ""
    account = read.text("accountName") or host.partition(".")[0]
    secrets = {
        "account_key": read.text("accessKey"),
        "sas_token": read.text("sasToken"),
        "client_secret": read.text("clientSecret"),
    }
    options: dict[str, object] = {"client_id": read.text("clientId"), "tenant_id": read.text("tenantId"), **secrets}
    read.text("authenticationType")  # told by what is given
    file_system = read.text("fileSystemName")
    endpoint = read.endpoint()
    if endpoint is not None:
        parts = urlsplit(endpoint)
        for service in ("blob", "dfs"):
            options |= {f"{service}_storage_scheme": parts.scheme, f"{service}_storage_authority": parts.netloc}
    if not container or not account:
        read.fault(
            "uri", f"'{authority}'", "abfs://container@account.dfs.core.windows.net/path, or accountName in the configs"
        )
    if file_system is not None and container and file_system != container:
        read.fault("fileSystemName", f"'{file_system}'", f"the container of the URI, '{container}'")
    read.finish()
    files = fs.AzureFileSystem(account, **{key: value for key, value in options.items() if value is not None})
    return ArrowFiles(files, container, [value for value in secrets.values() if value], is_staged=True)
