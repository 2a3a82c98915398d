"""URIs as text: their scheme, their parts, joining them, and showing them without secrets."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from pinotpy.errors import UserError

LOCAL_SCHEMES: Final = frozenset({"", "file"})
_ENCODED: Final = frozenset({"file", "http", "https"})
URI_CHARACTERS_MAX: Final = 4_096
# A scheme has two letters or more, so that no Windows drive is taken for one. Plain paths may have colons after a
# slash.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(?=/)")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def scheme_of(uri: str) -> str:
    """The scheme in small letters, "" for a plain path. Raises UserError for text that is no URI."""
    if not uri or len(uri) > URI_CHARACTERS_MAX or _CONTROL.search(uri):
        raise UserError(
            f"'{masked(uri[:200])}' is no URI: expected a path or scheme://host/path of 1 to {URI_CHARACTERS_MAX} "
            "characters"
        )
    match = _SCHEME.match(uri)
    return match.group(1).lower() if match else ""


def authority_and_path(uri: str) -> tuple[str, str]:
    """`bucket`, `a/b` of `s3://bucket/a/b`: the path without its first '/', as it is written.

    Raises UserError for parts that could lead elsewhere ('.', '..', an empty one) and for a user or password before the
    host of a web address.
    """
    scheme = scheme_of(uri)
    rest = uri[len(scheme) + 1 :]
    if scheme in ("http", "https"):
        rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    if not rest.startswith("//"):
        authority, path = "", rest.lstrip("/")
    else:
        authority, _, path = rest[2:].partition("/")
    user, separator, _ = authority.rpartition("@")
    if separator and (":" in user or scheme in ("http", "https")):
        raise UserError(
            f"'{masked(uri)}' has a user or password before its host: credentials belong into the daemon's settings, "
            "not into addresses"
        )
    parts = path.removesuffix("/").split("/")
    if path and any(part in ("", ".", "..") for part in parts):
        raise UserError(f"'{masked(uri)}' is no URI that is read here: an empty part, '.' or '..' in its path")
    return authority, path


def path_of_file(uri: str) -> str:
    """The path of a URI that names one file, without its first '/'. Raises UserError for a folder's."""
    path = authority_and_path(uri)[1]
    if not path or path.endswith("/"):
        raise UserError(f"'{masked(uri)}' is a folder: expected the name of a file", uri=masked(uri))
    return path


def local_path(uri: str) -> Path:
    """The path of a plain path or a `file:` URI of this machine."""
    if scheme_of(uri) == "":
        return Path(uri)
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise UserError(
            f"'{masked(uri)}' names a file of the host '{parts.netloc}': expected file:///path, of this machine"
        )
    if parts.query or parts.fragment:
        raise UserError(f"'{masked(uri)}': write '?' and '#' of a file's name as %3F and %23")
    path = _decoded(parts.path)
    if _CONTROL.search(path):
        raise UserError(f"'{masked(uri)}' is no URI of a file: it has control characters")
    return Path(path)


def file_uri(path: Path) -> str:
    """`file:///…` of an absolute path."""
    return "file://" + _encoded(str(path))


def join(folder: str, *names: str) -> str:
    """`folder/name/…`; names are encoded where the folder's scheme encodes."""
    if scheme_of(folder) in _ENCODED:
        names = tuple(_encoded(name) for name in names)
    return "/".join((folder.rstrip("/"), *names))


def file_name(uri: str) -> str:
    """The last part of the path, decoded where the scheme encodes; without the query of a web address."""
    if scheme_of(uri) in _ENCODED:
        return _decoded(urlsplit(uri).path.rstrip("/").rpartition("/")[2])
    return uri.rstrip("/").rpartition("/")[2]


def masked(uri: str) -> str:
    """The URI for logs and messages: without user and password, and without the values of its query (signed
    addresses).
    """
    # The container before the account host (abfs://container@account…) is not secret; everything after a colon is.
    shown = re.sub(r"(?<=//)[^/@?#]*:[^/@?#]*@", "*****@", uri)
    shown = re.sub(r"^(https?://)[^/@?#]*@", r"\1*****@", shown, flags=re.IGNORECASE)
    address, mark, query = shown.partition("?")
    if mark and re.match(r"https?:", address, re.IGNORECASE):
        query = re.sub(r"=[^&#]*", "=*****", query)
    return address + mark + query


def _encoded(path: str) -> str:
    """Percent-encoded; names of files that are no UTF-8 keep their bytes."""
    return quote(os.fsencode(path))


def _decoded(path: str) -> str:
    return os.fsdecode(unquote_to_bytes(os.fsencode(path)))
