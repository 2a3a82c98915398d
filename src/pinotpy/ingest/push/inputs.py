"""What a push does to the rows of its files: `plan_inputs`, pure, of the lists of the segments that come and of those
that are live.

Each row of a file shall be in the table once. A file is the same one if its URI is the same, or if its bytes are and
the old URI has no file any more (moved, renamed). Rules, by the files that have rows in a live segment:

    its files                              of another name than those that come    of the same name as one that comes
    all come                               replaced                                refreshed
    none comes                             stays                                   refused: its rows would be lost
    some come                              refused: rows would be there twice      refused: its rows would be lost
    one comes, perhaps not with all rows   refused: rows may be there twice        refreshed
    the bytes come, both files exist       refused: rows would be there twice      refused: its rows would be lost
    gone from a REFRESH job's folder       replaced                                refreshed

What comes of the same URI or moved from one that is gone is the file, with old bytes or corrected ones.

Of a live segment without a list only name, CRC, time range and rows are known: one that a new segment overlaps in time
may hold the same rows. The same CRC means the same name and content.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from pinotpy.segment.input_list import InputList, SegmentInput

Extent = tuple[int | None, int | None, int]  # time range and number of rows of a segment


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """A segment, live or to come: its CRC, the range of its time column in ms (None if it has none), its rows, its
    input files if they are known; `inputs_sha256`: of the list that its record names, "" if it names none.
    """

    crc: int
    start_ms: int | None
    end_ms: int | None
    num_docs: int = 0
    inputs: InputList | None = None
    inputs_sha256: str = ""

    @property
    def extent(self) -> Extent:
        return self.start_ms, self.end_ms, self.num_docs

    @property
    def files(self) -> tuple[SegmentInput, ...]:
        """Those that have rows in it."""
        return tuple(file for file in self.inputs.files if file.num_rows) if self.inputs is not None else ()


@dataclass(frozen=True, slots=True)
class Overlap:
    """Files with rows in a segment: rows that would be there twice, or would be lost."""

    segment: str
    files: tuple[SegmentInput, ...]

    @property
    def num_rows(self) -> int:
        return sum(file.num_rows for file in self.files)


@dataclass(frozen=True, slots=True)
class InputPlan:
    """What becomes of live segments.

    Attributes:
        replaced: those whose rows come anew with this push, or whose files are gone.
        twice: rows that would be in the table twice.
        versions: rows of files that come with two contents in one push.
        lost: rows that would go with a segment of the same name.
        unknown: live segments without a list that may hold rows of this push.
        listed: live segment → pushed one of the same rows, whose list it gets.
        adopted: pushed segments that are there under another name.
        alike: live segments of files that are gone, with the time range and number of rows of a new one: perhaps its
            file under an older name.
        kept: live segments of files that are not in this push.
        num_without_list: pushed segments without a list: nothing is known of their files.
    """

    replaced: tuple[str, ...] = ()
    twice: tuple[Overlap, ...] = ()
    versions: tuple[Overlap, ...] = ()
    lost: tuple[Overlap, ...] = ()
    unknown: tuple[str, ...] = ()
    listed: Mapping[str, str] = field(default_factory=dict)
    adopted: frozenset[str] = frozenset()
    alike: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    num_without_list: int = 0


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """What is known of files besides the lists.

    Attributes:
        exists: whether there is a file, of `files_in_question`; None or absent where nobody can tell.
        are_whole: the push has all rows of its files; else that is so where the lists say how many there are.
        refreshed_folder: of a REFRESH table, the folder whose files are the table, with '/' at its end; "" for none.
            What is gone from it goes.
        empty: files of the push that have no row, and so no segment; what the table has of them goes.
    """

    exists: Mapping[str, bool | None] = field(default_factory=dict)
    are_whole: bool = False
    refreshed_folder: str = ""
    empty: Collection[str] = ()


def plan_inputs(
    pushed: Mapping[str, LiveSegment], live: Mapping[str, LiveSegment], known: KnownFiles, *, adopts: bool = False
) -> InputPlan:
    """What a push does to the segments that are live.

    Args:
        pushed, live: by name.
        adopts: live segments without a list get that of a pushed one of the same time range and rows.
    """
    with_list = {name: segment for name, segment in pushed.items() if segment.inputs is not None}
    if not with_list:
        return InputPlan(num_without_list=len(pushed))
    listed, adopted = _adopted(pushed, live) if adopts else ({}, frozenset[str]())
    fate_of = _fates(with_list, live, known)
    new = {name: segment for name, segment in with_list.items() if name not in live and name not in adopted}
    extents = _timed_extents(new)
    replaced: list[str] = []
    alike: list[str] = []
    unchanged: list[str] = []
    twice: list[Overlap] = []
    lost: list[Overlap] = []
    for name, segment in live.items():
        fates = [(file, fate_of(file)) for file in segment.files]
        if name in with_list:
            is_same = pushed[name].crc == segment.crc
            # With the same CRC the table has the rows of a copy of which nobody can tell whether it is one, either way.
            spared = (_Fate.COMES, _Fate.COMES_PARTLY, _Fate.GOES, *((_Fate.MAY_BE_COPY,) if is_same else ()))
            others = tuple(file for file, fate in fates if fate not in spared)
            if others:
                lost.append(Overlap(name, others))
            elif is_same and segment.inputs != pushed[name].inputs:
                listed[name] = name
        elif name in pushed or not fates:
            continue
        elif all(fate in (_Fate.COMES, _Fate.GOES) for _, fate in fates):
            replaced.append(name)
        elif doubled := tuple(file for file, fate in fates if fate not in (_Fate.STAYS, _Fate.GOES)):
            twice.append(Overlap(name, doubled))
        elif segment.extent in extents and all(known.exists.get(file.uri) is False for file in segment.files):
            alike.append(name)
        else:
            unchanged.append(name)
    unknown = _unknown(
        new,
        {
            name: segment
            for name, segment in live.items()
            if segment.inputs is None and name not in pushed and name not in listed
        },
    )
    versions = tuple(_two_versions(with_list))
    return InputPlan(
        tuple(replaced),
        tuple(twice),
        versions,
        tuple(lost),
        tuple(unknown),
        listed,
        adopted,
        tuple(alike),
        tuple(unchanged),
        len(pushed) - len(with_list),
    )


def files_in_question(
    pushed: Mapping[str, LiveSegment], live: Mapping[str, LiveSegment], refreshed_folder: str = ""
) -> set[str]:
    """URIs of live segments' files of which it matters whether they exist: a push has the same bytes under an URI that
    is new, they lie in the folder of a REFRESH job and do not come, or their segment has the time range and number of
    rows of a new one.
    """
    uris = {file.uri for segment in pushed.values() for file in segment.files}
    copies = _new_contents(pushed, live)
    extents = _timed_extents({name: segment for name, segment in pushed.items() if name not in live})
    missing = [(segment, file) for name, segment in live.items() for file in segment.files if file.uri not in uris]
    return {
        file.uri
        for segment, file in missing
        if file.content in copies or segment.extent in extents or _lies_in(refreshed_folder, file.uri)
    }


def shared_rows(pushed: Mapping[str, LiveSegment], others: Mapping[str, LiveSegment]) -> list[Overlap]:
    """What other segments have of the files of a push."""
    uris = {file.uri for segment in pushed.values() for file in segment.files}
    overlaps = [
        Overlap(name, tuple(file for file in segment.files if file.uri in uris))
        for name, segment in others.items()
        if name not in pushed
    ]
    return [overlap for overlap in overlaps if overlap.files]


class _Fate(Enum):
    """What a push does to the rows that a live segment has of a file."""

    COMES = "all rows of the file come with the push"
    COMES_PARTLY = "rows of the file come, and nothing says that all do"
    COPY = "another file of the same bytes comes"
    MAY_BE_COPY = "another file of the same bytes comes, and nobody can tell whether this one exists"
    GOES = "the file is gone from the folder that the REFRESH job reads"
    STAYS = "the push has nothing of it"


def _fates(
    pushed: Mapping[str, LiveSegment], live: Mapping[str, LiveSegment], known: KnownFiles
) -> Callable[[SegmentInput], _Fate]:
    """What becomes of each file of live segments."""
    rows: Counter[str] = Counter()
    rows_by_uri: dict[str, int] = {}
    for segment in pushed.values():
        for file in segment.inputs.files if segment.inputs is not None else ():
            rows[file.uri] += file.num_rows
            rows_by_uri[file.uri] = file.file_rows
    rows_by_uri |= dict.fromkeys(known.empty, 0)
    copies = _new_contents(pushed, live)
    moved = _moved(
        copies, [file for segment in live.values() for file in segment.files if file.uri not in rows_by_uri], known
    )
    # Of equal files, each new one replaces one that is gone; the rest are copies.
    num_copies = {content: len(new) - sum(1 for uri in moved.values() if uri in new) for content, new in copies.items()}

    def comes(uri: str) -> _Fate:
        return _Fate.COMES if known.are_whole or rows[uri] == rows_by_uri[uri] else _Fate.COMES_PARTLY

    def fate(file: SegmentInput) -> _Fate:
        if file.uri in rows_by_uri:
            return comes(file.uri)
        if file.uri in moved:
            return comes(moved[file.uri])
        if num_copies.get(file.content, 0) > 0:
            return _Fate.COPY if known.exists.get(file.uri) is True else _Fate.MAY_BE_COPY
        is_gone = known.exists.get(file.uri) is False and _lies_in(known.refreshed_folder, file.uri)
        return _Fate.GOES if is_gone else _Fate.STAYS

    return fate


def _lies_in(folder: str, uri: str) -> bool:
    return bool(folder) and uri.startswith(folder)


def _new_contents(
    pushed: Mapping[str, LiveSegment], live: Mapping[str, LiveSegment]
) -> dict[tuple[int, str] | None, set[str]]:
    """Contents of the pushed files whose URIs the table does not have → their URIs."""
    known = {file.uri for segment in live.values() for file in segment.files}
    uris_by_content: dict[tuple[int, str] | None, set[str]] = {}
    for file in (file for segment in pushed.values() for file in segment.files):
        if file.uri not in known and file.content is not None:
            uris_by_content.setdefault(file.content, set()).add(file.uri)
    return uris_by_content


def _moved(
    copies: Mapping[tuple[int, str] | None, set[str]], others: Collection[SegmentInput], known: KnownFiles
) -> dict[str, str]:
    """Files that are gone → the new one of the same bytes, one each, by URI."""
    gone: dict[tuple[int, str] | None, set[str]] = {}
    for file in others:
        if file.content in copies and known.exists.get(file.uri) is False:
            gone.setdefault(file.content, set()).add(file.uri)
    return {
        old: new
        for content, uris in gone.items()
        for old, new in zip(sorted(uris), sorted(copies[content]), strict=False)
    }


def _timed_extents(segments: Mapping[str, LiveSegment]) -> set[Extent]:
    return {segment.extent for segment in segments.values() if segment.start_ms is not None and segment.num_docs}


def _two_versions(pushed: Mapping[str, LiveSegment]) -> Iterator[Overlap]:
    """Of files that two pushed segments have with different bytes, what the later ones have."""
    seen: dict[str, tuple[int, str]] = {}
    for name, segment in sorted(pushed.items()):
        other = tuple(
            file
            for file in segment.files
            if file.content is not None and seen.setdefault(file.uri, file.content) != file.content
        )
        if other:
            yield Overlap(name, other)


def _unknown(new: Mapping[str, LiveSegment], live: Mapping[str, LiveSegment]) -> list[str]:
    """Those live segments that may hold rows of new ones: their times overlap, or one of both has none."""
    ranges = [(segment.start_ms, segment.end_ms) for segment in new.values() if segment.num_docs]
    timed = sorted((start, end) for start, end in ranges if start is not None and end is not None)
    starts, latest = [start for start, _ in timed], list(itertools.accumulate((end for _, end in timed), max))

    def may_share(segment: LiveSegment) -> bool:
        if segment.start_ms is None or segment.end_ms is None or len(timed) < len(ranges):
            return bool(ranges)
        begun = bisect_right(starts, segment.end_ms)
        return begun > 0 and latest[begun - 1] >= segment.start_ms

    return sorted(name for name, segment in live.items() if segment.num_docs and may_share(segment))


def _adopted(
    pushed: Mapping[str, LiveSegment], live: Mapping[str, LiveSegment]
) -> tuple[dict[str, str], frozenset[str]]:
    """Live segments without a list that are a pushed one under another name: of the same time range and rows, where
    only one on each side is.
    """
    new, old = (
        _by_extent(pushed, live),
        _by_extent({name: segment for name, segment in live.items() if segment.inputs is None}, pushed),
    )
    pairs = {
        old[extent][0]: new[extent][0]
        for extent in new.keys() & old.keys()
        if len(new[extent]) == len(old[extent]) == 1
    }
    listed = {name: source for name, source in pairs.items() if pushed[source].inputs is not None}
    return listed, frozenset(listed.values())


def _by_extent(segments: Mapping[str, LiveSegment], others: Collection[str]) -> dict[Extent, list[str]]:
    """Names of those segments whose names the others do not have, by time range and rows."""
    names_by_extent: dict[Extent, list[str]] = {}
    for name, segment in segments.items():
        if name not in others:
            names_by_extent.setdefault(segment.extent, []).append(name)
    return names_by_extent
