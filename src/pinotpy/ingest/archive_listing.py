"""The archives of segments in a folder, and what jobs write beside them:

    <segment>.tar.gz             the archive
    <segment>.inputs.json        the list of its input files (docs/format/input-list.md)
    <segment>.tar.gz.replaced    a mark: a later run of its job has put the archive's rows elsewhere. No push of the
                                 folder takes it.

A marked archive stays: the table may still serve it from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.segment.input_list import INPUT_LIST_SUFFIX

ARCHIVE_ENDING: Final = ".tar.gz"
REPLACED_ENDING: Final = f"{ARCHIVE_ENDING}.replaced"
JOBS_ENDINGS: Final = (ARCHIVE_ENDING, REPLACED_ENDING, INPUT_LIST_SUFFIX)


@dataclass(frozen=True, slots=True)
class ArchiveListing:
    """URIs of archives, ascending: `current` and those that are marked as replaced; `listed`: those that have a list of
    input files.
    """

    current: tuple[str, ...]
    replaced: tuple[str, ...]
    listed: frozenset[str]


def list_archives(folder_uri: str, file_systems: FileSystemSettings | None) -> ArchiveListing:
    """The archives below a folder. Raises as of `FileSystem.list`."""
    return archives_among(entry.uri for entry in file_system_for(folder_uri, file_systems).list(folder_uri))


def archives_among(uris: Iterable[str]) -> ArchiveListing:
    """The archives among files."""
    every = set(uris)
    archives = sorted(uri for uri in every if uri.endswith(ARCHIVE_ENDING))
    replaced = tuple(uri for uri in archives if mark_uri(uri) in every)
    marked = set(replaced)
    return ArchiveListing(
        tuple(uri for uri in archives if uri not in marked),
        replaced,
        frozenset(uri for uri in archives if input_list_uri(uri) in every),
    )


def input_list_uri(archive_uri: str) -> str:
    """Where the list of an archive's input files lies."""
    return archive_uri.removesuffix(ARCHIVE_ENDING) + INPUT_LIST_SUFFIX


def mark_uri(archive_uri: str) -> str:
    """Where the mark of a replaced archive lies."""
    return archive_uri.removesuffix(ARCHIVE_ENDING) + REPLACED_ENDING
