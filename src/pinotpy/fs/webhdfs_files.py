"""Files of HDFS over its REST, WebHDFS or HttpFS: `webhdfs://host:port/path`, `swebhdfs://…` with TLS.

No Java and no Hadoop is needed here. Configs: `user` (as whom, without Kerberos), `delegationToken`,
`requestTimeoutMs`, `connectTimeoutMs`, `caFile`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import httpx

from pinotpy.errors import DataError, NotFoundError, RemoteError
from pinotpy.fs.configs import Configs
from pinotpy.fs.file_system import UNFINISHED, FileEntry, FoundByStat, TransferLimits
from pinotpy.fs.http_files import bounded, reason_of
from pinotpy.fs.range_reader import of_one_version, open_ranges
from pinotpy.fs.uris import authority_and_path, masked, path_of_file, scheme_of
from pinotpy.fs.whole_files import COPY_BYTES, fetch_whole, opened_source, put_beside

_REFUSED: Final = (
    "AccessControlException",
    "SecurityException",
    "QuotaExceededException",
    "NSQuotaExceededException",
    "DSQuotaExceededException",
    "InvalidPathException",
)

# Answered with 403, but another try, or another name node, helps.
_LATER: Final = ("StandbyException", "RetriableException", "SafeModeException")


def open_webhdfs(authority: str, configs: Mapping[str, str]) -> WebHdfsFiles:
    """The name node `authority` (host:port of its web port)."""
    read = Configs("webhdfs", configs)
    user, token = read.text("user", "hadoop.user.name"), read.text("delegationToken")
    parameters = {"delegation": token} if token else {"user.name": user} if user else {}
    if read.text("hadoop.kerberos.principle", "hadoop.kerberos.keytab"):
        read.fault(
            "hadoop.kerberos.principle", "a principal", "delegationToken here, or hdfs: addresses, which know Kerberos"
        )
    if not authority or "@" in authority:
        read.fault("uri", f"'{masked('webhdfs://' + authority)}'", "webhdfs://host:port/path")
    timeout = httpx.Timeout(read.seconds("requestTimeoutMs", 60_000), connect=read.seconds("connectTimeoutMs", 5_000))
    ca_file = read.ca_file()
    read.finish()
    # Redirects are part of the protocol: the name node sends its client to a data node.
    return WebHdfsFiles(
        authority,
        parameters,
        httpx.Client(timeout=timeout, verify=ca_file or True, follow_redirects=True, trust_env=False),
    )


class WebHdfsFiles(FoundByStat):
    """See `file_system.FileSystem`. What is written lies under a name of its own in the same folder until it is
    whole.
    """

    def __init__(self, authority: str, parameters: Mapping[str, str], client: httpx.Client) -> None:
        self._authority, self._parameters, self._client = authority, dict(parameters), client

    def list(self, uri: str) -> Iterator[FileEntry]:
        try:
            root = self._status(uri)
        except NotFoundError:
            return iter(())
        if root.get("type") == "FILE":
            return iter([_entry(uri, root)])
        entries = [entry for entry in self._walk(uri) if not _is_unfinished(entry)]
        return iter(sorted(entries, key=lambda entry: entry.uri))

    def _walk(self, uri: str) -> Iterator[FileEntry]:
        """All files below a folder, unfinished ones too."""
        folders = [uri.rstrip("/")]
        while folders:
            folder = folders.pop()
            try:
                statuses = self._answer(folder, "LISTSTATUS", "FileStatuses")["FileStatus"]
            except NotFoundError:
                continue  # it went meanwhile
            for status in statuses:
                child = f"{folder}/{status['pathSuffix']}"
                if status["type"] == "DIRECTORY":
                    folders.append(child)
                else:
                    yield _entry(child, status)

    def stat(self, uri: str) -> FileEntry:
        status = self._status(uri)
        if status.get("type") != "FILE":
            raise NotFoundError(f"'{masked(uri)}' is no file", uri=masked(uri))
        return _entry(uri, status)

    def open(self, uri: str) -> BinaryIO:
        entry = self.stat(uri)

        def read_range(offset: int, length: int) -> bytes:
            with self._asked("GET", uri, "OPEN", {"offset": str(offset), "length": str(length)}) as response:
                return b"".join(bounded(response, length))

        return open_ranges(uri, entry.size_bytes, of_one_version(uri, read_range, lambda: self.stat(uri), entry))

    def fetch(self, uri: str, target: Path, limits: TransferLimits | None = None) -> FileEntry:
        entry = self.stat(uri)
        with self._asked("GET", uri, "OPEN") as response:
            fetch_whole(response.iter_raw(), target, limits or TransferLimits(), uri, entry.size_bytes)
        return entry

    def put(self, uri: str, source: Path) -> FileEntry:
        path_of_file(uri)
        with opened_source(source) as reader:
            put_beside(
                uri,
                lambda unfinished: self._write(unfinished, reader),
                lambda unfinished: self._rename(unfinished, uri),
                lambda unfinished: self._json("DELETE", unfinished, "DELETE"),
            )
        return self.stat(uri)

    def move(self, uri: str, new_uri: str) -> FileEntry:
        new_path, entry = path_of_file(new_uri), self.stat(uri)
        if new_path == path_of_file(uri):
            return entry
        self._json("PUT", new_uri.rpartition("/")[0], "MKDIRS")
        self._rename(uri, new_uri)
        return self.stat(new_uri)

    def delete(self, uri: str) -> bool:
        path_of_file(uri)
        if not self.exists(uri):
            return False
        return bool(self._json("DELETE", uri, "DELETE", {"recursive": "false"})["boolean"])

    def drop_unfinished(self, uri: str, before_ms: int) -> int:
        # HDFS tells when a file that is being written was begun.
        old = [entry.uri for entry in self._walk(uri) if _is_unfinished(entry) and 0 < entry.modified_ms < before_ms]
        return sum(self.delete(unfinished) for unfinished in old)

    def _write(self, uri: str, reader: BinaryIO) -> None:
        """Two steps, as the protocol has it: the name node names a data node, which takes the bytes."""
        with self._asked("PUT", uri, "CREATE", {"overwrite": "true"}, follow=False) as response:
            place = response.headers.get("location")
        if not place:
            raise RemoteError(f"'{masked(uri)}': the name node named no data node to write to", uri=masked(uri))
        with _translated(uri):
            response = self._client.put(
                place,
                content=iter(lambda: reader.read(COPY_BYTES), b""),
                headers={"content-type": "application/octet-stream"},
            )
            _check(uri, response)

    def _rename(self, uri: str, new_uri: str) -> None:
        # Only so is what is there replaced in one step; a plain rename refuses it.
        self._json(
            "PUT", uri, "RENAME", {"destination": "/" + authority_and_path(new_uri)[1], "renameoptions": "OVERWRITE"}
        )

    def _status(self, uri: str) -> dict[str, Any]:
        return self._answer(uri, "GETFILESTATUS", "FileStatus")

    def _answer(self, uri: str, operation: str, name: str) -> dict[str, Any]:
        answer = self._json("GET", uri, operation).get(name)
        if not isinstance(answer, dict):
            raise RemoteError(
                f"'{masked(uri)}': the answer of WebHDFS has no '{name}': is this the web port of a name node?",
                uri=masked(uri),
            )
        return answer

    def _json(
        self, method: str, uri: str, operation: str, parameters: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        with self._asked(method, uri, operation, parameters) as response:
            content = response.read()
        try:
            answer = response.json() if content else {}
        except ValueError as error:
            raise RemoteError(
                f"'{masked(uri)}': expected JSON from WebHDFS, found {content[:80]!r}", uri=masked(uri)
            ) from error
        return answer if isinstance(answer, dict) else {}

    @contextmanager
    def _asked(
        self, method: str, uri: str, operation: str, parameters: Mapping[str, str] | None = None, *, follow: bool = True
    ) -> Iterator[httpx.Response]:
        protocol = "https" if scheme_of(uri) == "swebhdfs" else "http"
        address = f"{protocol}://{self._authority}/webhdfs/v1/{quote(authority_and_path(uri)[1])}"
        asked = {"op": operation, **(parameters or {}), **self._parameters}
        # Files come as they are stored, whatever a server or proxy on the way could compress.
        headers = {"accept-encoding": "identity"}
        with (
            _translated(uri),
            self._client.stream(method, address, params=asked, headers=headers, follow_redirects=follow) as response,
        ):
            _check(uri, response)
            yield response


def _check(uri: str, response: httpx.Response) -> None:
    if response.is_success or response.is_redirect:
        return
    try:
        remote = httpx.Response(200, content=response.read()).json()["RemoteException"]
        kind, reason = str(remote["exception"]), str(remote["message"]).partition("\n")[0][:300]
    except (ValueError, KeyError, TypeError):
        kind, reason = "", response.reason_phrase
    message = f"'{masked(uri)}' was answered with HTTP {response.status_code} {kind}: {reason}"
    if kind == "FileNotFoundException" or (response.status_code == httpx.codes.NOT_FOUND and not kind):
        raise NotFoundError(f"no file '{masked(uri)}'", uri=masked(uri))
    if kind in _REFUSED or (
        response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN) and kind not in _LATER
    ):
        raise DataError(f"{message}: check user, token and rights", uri=masked(uri))
    raise RemoteError(message, uri=masked(uri))


def _is_unfinished(entry: FileEntry) -> bool:
    return entry.uri.rpartition("/")[2].startswith(UNFINISHED)


def _entry(uri: str, status: Mapping[str, Any]) -> FileEntry:
    try:
        return FileEntry(uri, int(status["length"]), int(status["modificationTime"]))
    except (KeyError, TypeError, ValueError):
        raise RemoteError(
            f"'{masked(uri)}': the answer of WebHDFS has no length or time of the file", uri=masked(uri)
        ) from None


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RemoteError(
            f"'{masked(uri)}': the file system cannot be reached: {reason_of(error)}", uri=masked(uri)
        ) from None
