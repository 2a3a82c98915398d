"""Object storages through pyarrow's file systems: GCS and ADLS share everything but their settings."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from pinotpy.errors import DataError, NotFoundError, RemoteError
from pinotpy.fs.file_system import UNFINISHED, FileEntry, TransferLimits
from pinotpy.fs.library_calls import StorageLibrary
from pinotpy.fs.range_reader import of_one_version, open_ranges
from pinotpy.fs.uris import authority_and_path, masked, path_of_file, scheme_of
from pinotpy.fs.whole_files import fetch_whole, opened_source, put_beside

_READ_BYTES: Final = 8 << 20
# Parts are written behind our back, several at once; after so many bytes we wait for them, so that memory stays flat.
_WRITE_BYTES: Final = 4 << 20
_FLUSH_BYTES: Final = 64 << 20
# What no further try mends: the account, the name, the right.
_REFUSED: Final = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|NO_SUCH_BUCKET|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|AuthorizationFailure"
    r"|AuthenticationFailed|ContainerNotFound|PERMISSION_DENIED|UNAUTHENTICATED|\bHTTP "
    r"40[13]\b|INVALID_SIGNATURE|Base64",
    re.IGNORECASE,
)


class ArrowFiles:
    """See `file_system.FileSystem`.

    Args:
        files: pyarrow's file system; its retries and time-outs are the settings' matter.
        root: what stands before a URI's path there: the bucket or container.
        timeout_s: longest wait for one call, its own retries included.
        is_staged: the storage shows what is being written; it is written under another name, then copied in one step.
        secrets: values that no message may have.
    """

    def __init__(
        self, files: Any, root: str, secrets: Sequence[str] = (), timeout_s: float = 120.0, *, is_staged: bool = False
    ) -> None:
        from pyarrow.lib import ArrowException

        self._files, self._root, self._is_staged = files, root, is_staged
        self._secrets = [secret for secret in secrets if len(secret) > 3]
        self._library = StorageLibrary(
            "the storage", timeout_s, (OSError, ValueError, ArrowException), _REFUSED, self._without_secrets
        )

    def list(self, uri: str) -> Iterator[FileEntry]:
        from pyarrow import fs

        path, infos = self._path(uri), self._infos_below(uri)
        if not infos and not uri.endswith("/") and path != self._root:
            info = self._call(uri, lambda: self._files.get_file_info(path))
            infos = [info] if info.type == fs.FileType.File else []
        if not infos and self._call(uri, lambda: self._files.get_file_info(self._root)).type == fs.FileType.NotFound:
            raise DataError(f"'{masked(uri)}': no bucket or container '{self._root}'", uri=masked(uri))
        address = f"{scheme_of(uri)}://{authority_and_path(uri)[0]}/"
        infos = [info for info in infos if not info.base_name.startswith(UNFINISHED)]
        return iter(sorted((self._entry(address, info) for info in infos), key=lambda entry: entry.uri))

    def stat(self, uri: str) -> FileEntry:
        info = self._info(uri)
        if info is None:
            raise NotFoundError(f"no file '{masked(uri)}'", uri=masked(uri))
        return FileEntry(uri, info.size, (info.mtime_ns or 0) // 1_000_000)

    def exists(self, uri: str) -> bool:
        return self._info(uri) is not None

    def open(self, uri: str) -> BinaryIO:
        entry = self.stat(uri)
        opened = self._call(uri, lambda: self._files.open_input_file(self._path(uri)))

        def read_range(offset: int, length: int) -> bytes:
            content: bytes = self._call(uri, lambda: opened.read_at(length, offset))
            return content

        return open_ranges(
            uri, entry.size_bytes, of_one_version(uri, read_range, lambda: self.stat(uri), entry), opened.close
        )

    def fetch(self, uri: str, target: Path, limits: TransferLimits | None = None) -> FileEntry:
        entry = self.stat(uri)
        opened = self._call(uri, lambda: self._files.open_input_file(self._path(uri)))
        with opened:
            fetch_whole(self._chunks(uri, opened), target, limits or TransferLimits(), uri, entry.size_bytes)
        if self.stat(uri) != entry:
            # It came in pieces, which may be of two versions.
            target.unlink(missing_ok=True)
            raise RemoteError(f"'{masked(uri)}' was replaced while it was read: try again", uri=masked(uri))
        return entry

    def put(self, uri: str, source: Path) -> FileEntry:
        path = self._writable(uri)
        if not self._is_staged:
            self._write(uri, path, source)
            return self.stat(uri)
        put_beside(
            path,
            lambda unfinished: self._write(uri, unfinished, source),
            lambda unfinished: self._rename(uri, unfinished, path),
            lambda unfinished: self._call(uri, lambda: self._files.delete_file(unfinished)),
        )
        return self.stat(uri)

    def _rename(self, uri: str, path: str, new_path: str) -> None:
        def moved() -> bool:
            try:
                self._files.move(path, new_path)
            except NotImplementedError:  # by ADLS without a hierarchical namespace
                return False
            return True

        if not self._call(uri, moved):
            self._call(uri, lambda: self._files.copy_file(path, new_path))
            self._call(uri, lambda: self._files.delete_file(path))

    def _write(self, uri: str, path: str, source: Path) -> None:
        with opened_source(source) as reader:
            writer = self._call(uri, lambda: self._files.open_output_stream(path))
            try:
                unflushed_bytes = 0
                while chunk := reader.read(_WRITE_BYTES):
                    self._call(uri, lambda chunk=chunk: writer.write(chunk))  # type: ignore[misc]
                    unflushed_bytes += len(chunk)
                    if unflushed_bytes >= _FLUSH_BYTES:
                        self._call(uri, writer.flush)
                        unflushed_bytes = 0
            except BaseException:
                # Closing it, by its end as an object too, would publish the part that was written: it must never end.
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer))
                raise
            self._call(uri, writer.close)

    def move(self, uri: str, new_uri: str) -> FileEntry:
        new_path = self._writable(new_uri)
        entry = self.stat(uri)
        if new_path == self._path(uri):
            return entry  # copied onto itself and deleted, it would be gone
        self._rename(uri, self._path(uri), new_path)
        return self.stat(new_uri)

    def delete(self, uri: str) -> bool:
        if self._info(uri) is None:
            return False
        path = self._writable(uri)
        try:
            self._call(uri, lambda: self._files.delete_file(path))
        except NotFoundError:
            return False
        return True

    def drop_unfinished(self, uri: str, before_ms: int) -> int:
        if not self._is_staged:
            return 0
        gone = 0
        for info in self._infos_below(uri):
            if info.base_name.startswith(UNFINISHED) and info.mtime_ns and info.mtime_ns // 1_000_000 < before_ms:
                with suppress(NotFoundError):  # somebody else was faster
                    self._call(uri, lambda info=info: self._files.delete_file(info.path))  # type: ignore[misc]
                    gone += 1
        return gone

    def _infos_below(self, uri: str) -> Sequence[Any]:
        from pyarrow import fs

        selector = fs.FileSelector(self._path(uri), allow_not_found=True, recursive=True)
        infos: Sequence[Any] = self._call(
            uri, lambda: [info for info in self._files.get_file_info(selector) if info.type == fs.FileType.File]
        )
        return infos

    def _chunks(self, uri: str, opened: Any) -> Iterator[bytes]:
        try:
            while chunk := self._call(uri, lambda: opened.read(_READ_BYTES)):
                yield chunk
        except NotFoundError as error:
            raise RemoteError(
                f"'{masked(uri)}' was replaced or deleted while it was read: try again", uri=masked(uri)
            ) from error

    def _path(self, uri: str) -> str:
        path = authority_and_path(uri)[1].rstrip("/")
        return f"{self._root}/{path}" if path else self._root

    def _writable(self, uri: str) -> str:
        return f"{self._root}/{path_of_file(uri)}"

    def _info(self, uri: str) -> Any:
        from pyarrow import fs

        info = self._call(uri, lambda: self._files.get_file_info(self._path(uri)))
        return info if info.type == fs.FileType.File else None

    def _entry(self, address: str, info: Any) -> FileEntry:
        return FileEntry(
            address + info.path.removeprefix(self._root).lstrip("/"), info.size, (info.mtime_ns or 0) // 1_000_000
        )

    def _call(self, uri: str, call: Callable[[], Any]) -> Any:
        return self._library.call(uri, call)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "*****")
        return re.sub(r"\s+", " ", text)[:500]
