"""Files behind web addresses, `http://` and `https://`: read only, one by one, for a web server has no list of its
files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

import httpx

from pinotpy.errors import DataError, NotFoundError, PinotError, RemoteError, UserError
from pinotpy.fs.configs import Configs
from pinotpy.fs.file_system import FileEntry, FoundByStat, TransferLimits
from pinotpy.fs.range_reader import open_ranges
from pinotpy.fs.uris import authority_and_path, masked
from pinotpy.fs.whole_files import fetch_whole

_REDIRECTS_MAX: Final = 5
# What a further try may mend, besides errors of the server (5xx).
_LATER: Final = (408, 425, 429)
# With the file or a piece of it; other answers of success (accepted, no content) have none.
_CONTENT: Final = (httpx.codes.OK, httpx.codes.NON_AUTHORITATIVE_INFORMATION, httpx.codes.PARTIAL_CONTENT)
_LENGTH_DIGITS_MAX: Final = 18


def open_http(authority: str, configs: Mapping[str, str]) -> HttpFiles:
    """The web server `authority`. Redirects are followed: whoever names an address here is trusted with it."""
    read = Configs("http", configs)
    headers = {"authorization": token} if (token := read.text("authorization")) else {}
    client = httpx.Client(
        timeout=httpx.Timeout(
            read.seconds("requestTimeoutMs", 30_000), connect=read.seconds("connectTimeoutMs", 5_000)
        ),
        follow_redirects=True,
        max_redirects=_REDIRECTS_MAX,
        headers=headers,
        verify=read.ca_file() or True,
    )
    read.finish()
    return HttpFiles(client)


class HttpFiles(FoundByStat):
    """See `file_system.FileSystem`; bodies come as they are stored, never decompressed on the way."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def list(self, uri: str) -> Iterator[FileEntry]:
        if uri.endswith("/"):
            raise UserError(
                f"'{masked(uri)}': a web address has no list of files: name them one by one", uri=masked(uri)
            )
        return iter([self.stat(uri)])

    def stat(self, uri: str) -> FileEntry:
        # Not HEAD: signed addresses allow one method only, and some servers answer it otherwise.
        with self._asked(uri, {"range": "bytes=0-0"}, missing_range_is_empty=True) as response:
            return _entry(uri, response)

    def open(self, uri: str) -> BinaryIO:
        with self._asked(uri, {"range": "bytes=0-0"}, missing_range_is_empty=True) as response:
            size_bytes, version, has_ranges = (
                _length(response),
                _version(response),
                response.status_code == httpx.codes.PARTIAL_CONTENT,
            )
        if size_bytes is None or not has_ranges:
            return self._spooled(uri)

        def read_range(offset: int, length: int) -> bytes:
            last = offset + length - 1
            with self._asked(uri, {"range": f"bytes={offset}-{last}"}) as response:
                content = b"".join(bounded(response, length))
            is_asked_for = (
                response.status_code == httpx.codes.PARTIAL_CONTENT
                and _range(response) == f"bytes {offset}-{last}/{size_bytes}"
            )
            if not is_asked_for or len(content) != length or _version(response) != version:
                # Pieces of two versions are no file.
                raise RemoteError(
                    f"'{masked(uri)}' broke off or was replaced while it was read: try again", uri=masked(uri)
                )
            return content

        return open_ranges(uri, size_bytes, read_range)

    def fetch(self, uri: str, target: Path, limits: TransferLimits | None = None) -> FileEntry:
        with self._asked(uri, {}) as response:
            if response.status_code == httpx.codes.PARTIAL_CONTENT:
                raise RemoteError(
                    f"'{masked(uri)}' was answered with a piece of the file, which nobody asked for", uri=masked(uri)
                )
            size_bytes = fetch_whole(response.iter_raw(), target, limits or TransferLimits(), uri, _length(response))
            return FileEntry(uri, size_bytes, _entry(uri, response).modified_ms)

    def put(self, uri: str, source: Path) -> FileEntry:
        self._read_only(uri)

    def move(self, uri: str, new_uri: str) -> FileEntry:
        self._read_only(uri)

    def delete(self, uri: str) -> bool:
        self._read_only(uri)

    def _read_only(self, uri: str) -> NoReturn:
        raise UserError(
            f"'{masked(uri)}': web addresses are read only: expected a folder, s3:, gs:, abfs:, hdfs: or webhdfs: to "
            "write to",
            uri=masked(uri),
        )

    def _spooled(self, uri: str) -> BinaryIO:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "file")
            self.fetch(uri, path)
            return path.open("rb")  # it lives without a name until it is closed

    @contextmanager
    def _asked(
        self, uri: str, headers: dict[str, str], *, missing_range_is_empty: bool = False
    ) -> Iterator[httpx.Response]:
        authority_and_path(uri)
        with _translated(uri), self._stream(uri, {"accept-encoding": "identity", **headers}) as response:
            is_empty = missing_range_is_empty and response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE
            if response.status_code not in _CONTENT and not is_empty:
                raise _refusal(uri, response)
            yield response

    def _stream(self, uri: str, headers: dict[str, str]) -> AbstractContextManager[httpx.Response]:
        return self._client.stream("GET", uri.partition("#")[0], headers=headers)


def _refusal(uri: str, response: httpx.Response) -> PinotError:
    status = response.status_code
    if status in (httpx.codes.NOT_FOUND, httpx.codes.GONE):
        return NotFoundError(f"no file '{masked(uri)}': HTTP {status}", uri=masked(uri))
    kind = RemoteError if response.is_server_error or response.is_success or status in _LATER else DataError
    return kind(f"'{masked(uri)}' was answered with HTTP {status} {response.reason_phrase}", uri=masked(uri))


def _length(response: httpx.Response) -> int | None:
    """Bytes of the whole file, None if the server does not say."""
    whole = _range(response).rpartition("/")[2]
    if (
        not whole
        and response.status_code == httpx.codes.OK
        and response.headers.get("content-encoding", "identity") == "identity"
    ):
        whole = response.headers.get("content-length", "")
    return int(whole) if whole.isascii() and whole.isdigit() and len(whole) <= _LENGTH_DIGITS_MAX else None


def _range(response: httpx.Response) -> str:
    content_range: str = response.headers.get("content-range", "")
    return content_range


def _version(response: httpx.Response) -> tuple[str, str]:
    """What differs when the file was replaced, as far as the server says it."""
    return response.headers.get("etag", ""), response.headers.get("last-modified", "")


def _entry(uri: str, response: httpx.Response) -> FileEntry:
    try:
        modified_ms = int(parsedate_to_datetime(response.headers["last-modified"]).timestamp() * 1000)
    except (KeyError, ValueError):
        modified_ms = 0
    size_bytes = _length(response)
    return FileEntry(uri, -1 if size_bytes is None else size_bytes, modified_ms)


def bounded(response: httpx.Response, length: int) -> Iterator[bytes]:
    """The bytes of a range: a server that ignores it would send the whole file."""
    num_bytes = 0
    for chunk in response.iter_raw():
        yield chunk
        num_bytes += len(chunk)
        if num_bytes > length:
            return


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RemoteError(f"'{masked(uri)}' could not be read: {reason_of(error)}", uri=masked(uri)) from None


def reason_of(error: BaseException) -> str:
    """What failed, without the texts of the HTTP library: they may have whole addresses, with signatures and tokens in
    them.
    """
    kind, below = type(error).__name__, error.__cause__ or error.__context__
    while below is not None and not isinstance(below, OSError):
        below = below.__cause__ or below.__context__
    return f"{kind}: {(below.strerror or str(below)).lower()}" if below is not None else kind
