"""Names of segments built in batch. Source: Pinot's Simple-, Fixed-, NormalizedDate- and InputFileSegmentNameGenerator.

Equal input gives equal names, so that a job that runs again replaces what it made, and makes nothing twice. Where Pinot
appends a random UUID, ours is made of what the segment was built of (`SegmentFacts.identity`).
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from urllib.parse import unquote, urlsplit

from pinotpy.config.segments_config import PushFrequency
from pinotpy.errors import DataError, QueryExecutionError, UserError
from pinotpy.fs.uris import authority_and_path, scheme_of
from pinotpy.functions.text.patterns import TextPattern, regexp_pattern
from pinotpy.names import check_segment_name

_NAMESPACE = uuid.UUID("5b0f53c6-4b51-5a53-9d0c-0a6f0e3a7c11")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GROUP = re.compile(r"\$\{filePathPattern:\\(\d{1,2})\}")


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """What a name may tell: the range of the time column (as its values are, and in milliseconds), the input file, and
    what the segment is made of (`identity`, any text; equal texts mean equal content).

    tag: tells the segment from others by where its rows come from. sequence_id: its place among them, in names where
    `tag` is "".
    """

    table: str
    sequence_id: int
    min_time: int | str | None = None
    max_time: int | str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    input_uri: str | None = None
    identity: str = ""
    tag: str = ""


class SegmentNameGenerator(Protocol):
    """Facts of a segment → its name, which `names.check_segment_name` accepts."""

    def __call__(self, facts: SegmentFacts) -> str: ...


@dataclass(frozen=True, slots=True)
class SimpleNames:
    """`<table>_<minTime>_<maxTime>[_postfix][_<tag or sequence>][_uuid]`; without a time column `<table>[_postfix]_<tag
    or sequence>`.
    """

    postfix: str | None = None
    exclude_sequence_id: bool = False
    exclude_times: bool = False
    append_uuid: bool = False

    def __call__(self, facts: SegmentFacts) -> str:
        times = (None, None) if self.exclude_times else (facts.min_time, facts.max_time)
        return _joined(
            facts.table,
            *times,
            self.postfix,
            _sequence(facts, self.exclude_sequence_id),
            _uuid(facts, self.append_uuid),
        )


@dataclass(frozen=True, slots=True)
class FixedName:
    """One given name, for one segment."""

    name: str

    def __call__(self, facts: SegmentFacts) -> str:
        if facts.sequence_id:
            raise UserError(
                f"the fixed segment name '{self.name}' serves one input file, found more: use simple or "
                "normalizedDate names"
            )
        return _joined(self.name)


@dataclass(frozen=True, slots=True)
class NormalizedDateNames:
    """`<prefix>_<minDate>_<maxDate>[_postfix][_<tag or sequence>][_uuid]` with dates as yyyy-MM-dd, or yyyy-MM-dd-HH
    for HOURLY pushes.

    `append` false (REFRESH tables) leaves the dates out, so that the next push replaces the segment.
    """

    prefix: str | None = None
    append: bool = True
    push_frequency: PushFrequency | None = None
    exclude_sequence_id: bool = False
    postfix: str | None = None
    append_uuid: bool = False

    def __call__(self, facts: SegmentFacts) -> str:
        dates = (self._date(facts.start_ms), self._date(facts.end_ms)) if self.append else (None, None)
        prefix = self.prefix.strip() if self.prefix else facts.table
        return _joined(
            prefix, *dates, self.postfix, _sequence(facts, self.exclude_sequence_id), _uuid(facts, self.append_uuid)
        )

    def _date(self, millis: int | None) -> str | None:
        if millis is None:
            return None
        pattern = "%Y-%m-%d-%H" if self.push_frequency is PushFrequency.HOURLY else "%Y-%m-%d"
        try:
            return (_EPOCH + timedelta(milliseconds=millis)).strftime(pattern)
        except (OverflowError, ValueError) as error:
            raise DataError(
                f"{millis} ms since 1970 is in no year from 1 to 9999: no date of a segment's name; mend the data, or "
                "take simple names"
            ) from error


@dataclass(frozen=True, slots=True)
class InputFileNames:
    r"""A template filled with the groups of a pattern that the path of the input file matches as a whole:
    `.+/(.+)\.csv`, `${filePathPattern:\1}` → the file's name without its ending. A file that does not match is refused:
    Pinot names it after its whole path, which no one asked for.
    """

    pattern: str
    template: str
    append_uuid: bool = False

    def __call__(self, facts: SegmentFacts) -> str:
        if facts.input_uri is None:
            raise UserError(
                "names after input files need one input file a segment: use simple or normalizedDate names where rows "
                "are regrouped"
            )
        path = path_of(facts.input_uri)
        matches = compile_pattern(self.pattern, "file.path.pattern")
        if matches.extract(path, 0) is None:
            raise UserError(
                f"file.path.pattern '{self.pattern}' does not match the path '{path}': it must match the whole path, "
                "as in '.+/(.+)\\.csv'"
            )
        groups = [matches.extract(path, number) or "" for number in range(1, matches.num_groups + 1)]
        wrong = [number for number in _GROUP.findall(self.template) if not 1 <= int(number) <= len(groups)]
        if wrong:
            raise UserError(
                f"segment.name.template '{self.template}' names group {wrong[0]}, file.path.pattern has {len(groups)}"
            )
        name = _GROUP.sub(lambda group: groups[int(group[1]) - 1], self.template)
        return _joined(re.sub(r"\s+", "_", name), _uuid(facts, self.append_uuid))


def path_of(uri: str) -> str:
    """The path of a URI as patterns see it: decoded where the scheme encodes, with a '/' at its front where there is a
    host.
    """
    scheme = scheme_of(uri)
    if scheme == "":
        return uri
    return unquote(urlsplit(uri).path) if scheme in ("file", "http", "https") else f"/{authority_and_path(uri)[1]}"


def compile_pattern(pattern: str, what: str) -> TextPattern:
    """A pattern that takes whole texts; RE2's, so that no input makes it slow. Raises UserError for one that RE2 cannot
    read.
    """
    try:
        return regexp_pattern(f"\\A(?:{pattern})\\z", ignore_case=False)
    except QueryExecutionError as error:
        cause = error.message.rpartition(" cannot be used: ")[2]
        raise UserError(f"{what} '{pattern[:200]}' cannot be used: {cause}") from error


def _sequence(facts: SegmentFacts, excluded: bool) -> int | str | None:
    return None if excluded else facts.tag or facts.sequence_id


def _uuid(facts: SegmentFacts, has_uuid: bool) -> str | None:
    # Names of files may have bytes that are no UTF-8.
    identity = f"{facts.table}\n{facts.identity}".encode("utf-8", "backslashreplace").decode()
    return str(uuid.uuid5(_NAMESPACE, identity)) if has_uuid else None


def _joined(*parts: object) -> str:
    return check_segment_name("_".join(str(text) for text in parts if text is not None))
