"""JSON documents as flat records, for JSON_MATCH: a record holds one value of each path, as terms `path NUL value`.

    {"name": "adam", "addresses": [{"city": "a", "types": ["x"]}, {"city": "b"}]}
        .name NUL adam   .addresses[#] NUL 0   .addresses[*].city NUL a
            .addresses[*].types[#] NUL 0   .addresses[*].types[*] NUL x
        .name NUL adam   .addresses[#] NUL 1   .addresses[*].city NUL b

Every element of an array makes a record of its own, several arrays every combination of their elements, so that
conditions joined by AND speak of the same element (Pinot: JsonUtils.flatten). `[#]` is the element's number. Null,
empty arrays and empty objects have no term. Values are texts: true, false, numbers as Java writes them. A text that is
no JSON has no record.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any, Final

import orjson

from pinotpy.pql.literals import java_double_text

SEPARATOR: Final = "\0"
ELEMENT: Final = "[*]"
NUMBER: Final = "[#]"
_NO_SEPARATOR: Final = "\ufffd"
SKIPPED: Final = "$SKIPPED$"
# Records of one document: beyond that arrays are no longer combined with each other, each makes records of its own.
RECORDS_MAX: Final = 10_000
# Deeper documents count as no JSON.
DEPTH_MAX: Final = 200

Record = list[str]


@dataclass(frozen=True, slots=True)
class JsonIndexing:
    """What of a document is indexed (Pinot's jsonIndexConfigs).

    Attributes:
        max_levels: objects and arrays below this many levels are left out; 0 = no limit. A path `.a.b` has two levels.
        exclude_array: arrays are left out.
        cross_arrays: several arrays make every combination of their elements; else each array makes records of its own.
        include_paths: if given, only these paths and what lies below them, as `$.a.b`, `$.a[*].b`.
        exclude_paths: paths that are left out, with all below. exclude_fields: keys that are left out wherever they
            stand.
        max_value_length: longer values are indexed as $SKIPPED$; 0 = no limit.
    """

    max_levels: int = 0
    exclude_array: bool = False
    cross_arrays: bool = True
    include_paths: tuple[str, ...] = ()
    exclude_paths: tuple[str, ...] = ()
    exclude_fields: tuple[str, ...] = ()
    max_value_length: int = 0

    @property
    def is_plain(self) -> bool:
        """Everything is indexed."""
        return self == JsonIndexing()


def records_of(text: bytes | str, indexing: JsonIndexing) -> list[Record]:
    """The records of a document as lists of terms; none if it is no JSON, or has nothing to index."""
    document = _document(text)
    try:
        records = _Flattener(indexing).records("", document, 0)
    except _TooDeepError:
        return []
    except _TooManyError:
        records = _Flattener(indexing, combine=False).records("", document, 0)
    return [record for record in records if record]


def float_text(value: float) -> str:
    """How a number with fraction or exponent is written in its term."""
    return java_double_text(value)


def _document(text: bytes | str) -> Any:
    """The document; None, like null, for text that is no JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass  # also for numbers beyond its range, which are JSON
    try:
        # Of bytes the reader would guess the encoding: zeros among them would make UTF-16 of what is no JSON.
        return json.loads(text if isinstance(text, str) else str(text, "utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class _TooDeepError(Exception):
    pass


class _TooManyError(Exception):
    pass


class _Flattener:
    def __init__(self, indexing: JsonIndexing, *, combine: bool = True) -> None:
        self._indexing = indexing
        self._combine = combine and indexing.cross_arrays
        self._fields = frozenset(indexing.exclude_fields)
        self._excluded = frozenset(path.removeprefix("$") for path in indexing.exclude_paths)
        self._included = tuple(path.removeprefix("$") for path in indexing.include_paths)
        self._plain = indexing.is_plain
        self._num_records = 0

    def records(self, path: str, value: Any, depth: int) -> list[Record]:
        """Records of the part of a document at `path`."""
        if isinstance(value, dict):
            return self._object(path, value, depth)
        if isinstance(value, list):
            return self._array(path, value, depth)
        return [] if value is None else [[self._term(path, value)]]

    def _object(self, path: str, value: dict[str, Any], depth: int) -> list[Record]:
        self._enter(depth)
        base: Record = []
        several: list[list[Record]] = []
        for key, child in value.items():
            below = f"{path}.{key}" if SEPARATOR not in key else f"{path}.{key.replace(SEPARATOR, _NO_SEPARATOR)}"
            if not self._plain and self._leaves_out(below, key, depth + 1):
                continue
            if isinstance(child, dict | list):
                child_records = self.records(below, child, depth + 1)
                if len(child_records) == 1:
                    base += child_records[0]
                elif child_records:
                    several.append(child_records)
            elif child is not None:
                base.append(self._term(below, child))
        if not several:
            return [base] if base else []
        if len(several) == 1:
            return [base + record for record in several[0]]
        return self._joined(base, several)

    def _joined(self, base: Record, several: list[list[Record]]) -> list[Record]:
        if not self._combine:
            return [base + record for alternatives in several for record in alternatives]
        product = 1
        for alternatives in several:
            product *= len(alternatives)
            if product > RECORDS_MAX:
                raise _TooManyError
        return [base + [term for record in combined for term in record] for combined in itertools.product(*several)]

    def _array(self, path: str, value: list[Any], depth: int) -> list[Record]:
        self._enter(depth)
        if self._indexing.exclude_array:
            return []
        below, number = path + ELEMENT, path + NUMBER + SEPARATOR
        if not self._plain and self._leaves_out(below, "", depth + 1):
            return []
        records: list[Record] = []
        for index, child in enumerate(value):
            mark = f"{number}{index}"
            records += [[*record, mark] for record in self.records(below, child, depth + 1)]
        return records

    def _enter(self, depth: int) -> None:
        if depth >= DEPTH_MAX:
            raise _TooDeepError

    def _leaves_out(self, path: str, key: str, level: int) -> bool:
        indexing = self._indexing
        if (indexing.max_levels and level > indexing.max_levels) or key in self._fields or path in self._excluded:
            return True
        # On the way to an included path, at it, or below it.
        return bool(self._included) and not any(leads(path, chosen) or leads(chosen, path) for chosen in self._included)

    def _term(self, path: str, value: Any) -> str:
        if isinstance(value, str):
            text = value
        elif isinstance(value, bool):
            text = "true" if value else "false"
        else:
            text = float_text(value) if isinstance(value, float) else str(value)
        if self._indexing.max_value_length and len(text) > self._indexing.max_value_length:
            text = SKIPPED
        return f"{path}{SEPARATOR}{text}"


def leads(shorter: str, longer: str) -> bool:
    """Whether `longer` is `shorter` or lies below it."""
    return longer.startswith(shorter) and (len(longer) == len(shorter) or longer[len(shorter)] in ".[")
