"""The deep store door: where segment archives live for good.

A key is a name of one to eight parts joined by '/', such as `flights/flights_2013-01.tar.gz`. Keys come from table and
segment names and are checked here again: no empty part, no '.', no '..', nothing that a file system could read as more
than a name.
Implementations: `local.LocalDeepStore`, `memory.MemoryDeepStore`, and `deep_store_files.FileDeepStore` on any file
system; one contract suite runs over all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from pinotpy.errors import UserError

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-:,=+@ ]{0,399}")
KEY_PARTS_MAX = 8


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of the store: its key, its length, when it was put (milliseconds since the epoch)."""

    key: str
    size_bytes: int
    modified_ms: int


class DeepStore(Protocol):
    """Files by key. All calls may come from any thread. Every write is whole or not at all: a reader never sees a part.

    Errors: UserError for a key that is none, NotFoundError for a file that is not there, DataError when storage fails
    or refuses, RemoteError when it cannot be reached.
    """

    def uri(self, key: str) -> str | None:
        """Where others read a key's file themselves; None if only who has this store can."""
        ...

    def put(self, key: str, source: Path, *, is_final: bool = False) -> StoredFile:
        """Store a local file under `key`, replacing what is there. The source stays.

        `is_final`: nobody writes to the source any more; a store on the same disk may then share its bytes instead of
            copying them.
        """
        ...

    def get(self, key: str, target: Path) -> StoredFile:
        """Copy a file to a local path, whole or not at all; `target`'s folder must exist."""
        ...

    def open(self, key: str) -> BinaryIO:
        """Open a file for reading; the caller closes it. What is read is one version, also if the key is replaced
        meanwhile.
        """
        ...

    def delete(self, key: str) -> bool:
        """Delete a file; whether there was one."""
        ...

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        """Files whose key lies below the folder `prefix` ('' = all), by key ascending."""
        ...

    def move(self, key: str, new_key: str) -> StoredFile:
        """Give a file another key, replacing what is there."""
        ...

    def drop_unfinished(self, prefix: str, before_ms: int) -> int:
        """Delete what writers that were killed left below the folder `prefix`, unfinished and untouched since
        `before_ms`; returns how many files. See `file_system.WritesBeside`: the time is the storage's, and may be that
        of a file's beginning.
        """
        ...


def check_key(key: str) -> tuple[str, ...]:
    """The parts of a key; raises UserError if it is none."""
    parts = tuple(key.split("/"))
    if len(parts) > KEY_PARTS_MAX or any(
        not _PART.fullmatch(part) or ".." in part or part.endswith((" ", ".")) for part in parts
    ):
        raise UserError(
            f"'{key[:120]}' is no name in the deep store: at most {KEY_PARTS_MAX} parts of letters, digits, blanks "
            "and _ . - : , = + @, no '..', joined by '/'",
            key=key[:500],
        )
    return parts


def check_prefix(prefix: str) -> tuple[str, ...]:
    """The parts of a folder, () for the whole store; raises UserError if it is none."""
    return check_key(prefix.removesuffix("/")) if prefix else ()
