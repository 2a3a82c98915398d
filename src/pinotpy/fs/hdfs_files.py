"""Files of HDFS by its own protocol: `hdfs://namenode:port/path`, `hdfs://nameservice/path`; without Java.

Configs: Hadoop's own keys, `hadoop.conf.path` for a folder with core-site.xml and hdfs-site.xml. Kerberos takes the
ticket of the process (kinit, or KRB5_CLIENT_KTNAME with a keytab).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar
from xml.etree import ElementTree

from pinotpy.errors import Fault, InvalidConfigError, NotFoundError
from pinotpy.fs.file_system import UNFINISHED, FileEntry, FoundByStat, TransferLimits
from pinotpy.fs.library_calls import StorageLibrary
from pinotpy.fs.range_reader import open_ranges
from pinotpy.fs.uris import authority_and_path, masked, path_of_file
from pinotpy.fs.whole_files import fetch_whole, opened_source, put_beside

T = TypeVar("T")
_READ_BYTES: Final = 8 << 20
_WRITE_BYTES: Final = 1 << 20
_CONF_BYTES_MAX: Final = 1 << 20
# The library's own would keep a caller for minutes when the name node is away; what fails is tried again by who asked.
_DEFAULTS: Final = {"dfs.client.failover.max.attempts": "3", "dfs.client.failover.sleep.max.millis": "2000"}
_REFUSED: Final = re.compile("AccessControlException|QuotaExceeded|permission denied|sasl|gssapi", re.IGNORECASE)


def open_hdfs(authority: str, configs: Mapping[str, str]) -> HdfsFiles:
    """The name node or name service `authority`; "" means the default of the configuration."""
    import hdfs_native

    given = dict(configs)
    timeout_ms = given.pop("requestTimeoutMs", "60000")
    if not (timeout_ms.isascii() and timeout_ms.isdigit() and int(timeout_ms) >= 100):
        raise InvalidConfigError(
            "the configs of file system 'hdfs' are not valid:",
            (Fault("requestTimeoutMs", f"'{timeout_ms[:40]}'", "milliseconds, from 100"),),
        )
    if any(key.startswith("hadoop.kerberos.") for key in given):
        raise InvalidConfigError(
            "the configs of file system 'hdfs' are not valid:",
            (
                Fault(
                    "hadoop.kerberos.*",
                    "a principal or keytab",
                    "none: run kinit as the daemon's user, or set KRB5_CLIENT_KTNAME to the keytab",
                ),
            ),
        )
    conf_path = given.pop("hadoop.conf.path", "")
    settings = {**_DEFAULTS, **(_hadoop_conf(Path(conf_path)) if conf_path else {}), **given}
    return HdfsFiles(
        hdfs_native.Client(f"hdfs://{authority}" if authority else None, settings),
        f"hdfs://{authority}/",
        int(timeout_ms) / 1000,
    )


class HdfsFiles(FoundByStat):
    """See `file_system.FileSystem`. What is written lies under a name of its own in the same folder until it is
    whole.
    """

    def __init__(self, client: Any, address: str, timeout_s: float) -> None:
        self._client, self._address = client, address
        self._library = StorageLibrary("HDFS", timeout_s, (OSError, RuntimeError, ValueError), _REFUSED, _first_line)

    def list(self, uri: str) -> Iterator[FileEntry]:
        try:
            root = self._call(uri, lambda: self._client.get_file_info(self._path(uri)))
            if not root.isdir:
                return iter([FileEntry(uri, root.length, root.modification_time)])
            statuses = self._files_below(uri)
        except NotFoundError:
            return iter(())
        entries = (
            FileEntry(self._address + status.path.lstrip("/"), status.length, status.modification_time)
            for status in statuses
        )
        return iter(
            sorted(
                (entry for entry in entries if not _name(entry.uri).startswith(UNFINISHED)), key=lambda entry: entry.uri
            )
        )

    def stat(self, uri: str) -> FileEntry:
        status = self._call(uri, lambda: self._client.get_file_info(self._path(uri)))
        if status.isdir:
            raise NotFoundError(f"'{masked(uri)}' is no file", uri=masked(uri))
        return FileEntry(uri, status.length, status.modification_time)

    def open(self, uri: str) -> BinaryIO:
        size_bytes = self.stat(uri).size_bytes
        opened = self._call(uri, lambda: self._client.read(self._path(uri)))

        def read_range(offset: int, length: int) -> bytes:
            return self._call(uri, lambda: bytes(opened.read_range(offset, length)))

        return open_ranges(uri, size_bytes, read_range)

    def fetch(self, uri: str, target: Path, limits: TransferLimits | None = None) -> FileEntry:
        entry = self.stat(uri)
        opened = self._call(uri, lambda: self._client.read(self._path(uri)))
        fetch_whole(self._chunks(uri, opened), target, limits or TransferLimits(), uri, entry.size_bytes)
        return entry

    def put(self, uri: str, source: Path) -> FileEntry:
        from hdfs_native import WriteOptions

        path = "/" + path_of_file(uri)
        with opened_source(source) as reader:

            def write(unfinished: str) -> None:
                writer = self._call(uri, lambda: self._client.create(unfinished, WriteOptions(create_parent=True)))
                while chunk := reader.read(_WRITE_BYTES):
                    self._call(uri, lambda chunk=chunk: writer.write(chunk))  # type: ignore[misc]
                self._call(uri, writer.close)

            put_beside(
                path,
                write,
                lambda unfinished: self._call(uri, lambda: self._client.rename(unfinished, path, True)),
                lambda unfinished: self._call(uri, lambda: self._client.delete(unfinished, False)),
            )
        return self.stat(uri)

    def move(self, uri: str, new_uri: str) -> FileEntry:
        target = "/" + path_of_file(new_uri)
        entry = self.stat(uri)
        if target == self._path(uri):
            return entry
        self._call(uri, lambda: self._client.mkdirs(target.rpartition("/")[0] or "/", create_parent=True))
        self._call(uri, lambda: self._client.rename(self._path(uri), target, True))
        return self.stat(new_uri)

    def delete(self, uri: str) -> bool:
        path = "/" + path_of_file(uri)
        if not self.exists(uri):
            return False
        return self._call(uri, lambda: bool(self._client.delete(path, False)))

    def drop_unfinished(self, uri: str, before_ms: int) -> int:
        try:
            statuses = self._files_below(uri)
        except NotFoundError:
            return 0
        # HDFS tells when a file that is being written was begun.
        old = [
            status.path
            for status in statuses
            if _name(status.path).startswith(UNFINISHED) and 0 < status.modification_time < before_ms
        ]
        return sum(self._call(uri, lambda path=path: bool(self._client.delete(path, False))) for path in old)  # type: ignore[misc]

    def _files_below(self, uri: str) -> Sequence[Any]:
        return self._call(
            uri, lambda: [status for status in self._client.list_status(self._path(uri), True) if not status.isdir]
        )

    def _chunks(self, uri: str, opened: Any) -> Iterator[bytes]:
        while chunk := self._call(uri, lambda: bytes(opened.read(_READ_BYTES))):
            yield chunk

    def _path(self, uri: str) -> str:
        return "/" + authority_and_path(uri)[1].rstrip("/")

    def _call(self, uri: str, call: Callable[[], T]) -> T:
        return self._library.call(uri, call)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _first_line(text: str) -> str:
    # What follows is the stack of the name node's Java.
    return text.partition("\n")[0][:300]


def _hadoop_conf(folder: Path) -> dict[str, str]:
    """The properties of a Hadoop configuration. Raises InvalidConfigError."""
    properties: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml"):
        path = folder / name
        try:
            text = path.read_bytes()
            if len(text) > _CONF_BYTES_MAX or b"<!DOCTYPE" in text:
                raise InvalidConfigError(
                    f"'{path}' is no configuration of Hadoop: it is over {_CONF_BYTES_MAX} bytes or has a DOCTYPE"
                )
            for entry in ElementTree.fromstring(text).iter("property"):
                key, value = entry.findtext("name"), entry.findtext("value")
                if key and value is not None:
                    properties[key.strip()] = value.strip()
        except (OSError, ElementTree.ParseError) as error:
            raise InvalidConfigError(f"'{path}', of hadoop.conf.path, cannot be read: {error}") from error
    return properties
