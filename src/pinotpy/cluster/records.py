"""Helix's ZNRecord: the one form of everything in the cluster store.

A record is JSON `{"id", "simpleFields": {k: text}, "mapFields": {k: {k: text}}, "listFields": {k: [text]}}`, pretty
printed so that operators can read it; over 64 kB it is gzip'd (readers tell by the first bytes 1f 8b, as Helix's
serializer does).
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from pinotpy.errors import DamagedRecordError, DecodeError

# Measured: 10 k segments x 3 replicas are 1.6 MB plain and 55–130 kB gzip'd; small records stay readable.
GZIP_FROM_BYTES = 64 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_LEVEL = 6
# Largest record that a reader unpacks: far above any that a writer can store, far below what would hurt a daemon.
_UNPACKED_BYTES_MAX = 256 * 1024 * 1024

SimpleFields = dict[str, str]
MapFields = dict[str, dict[str, str]]
ListFields = dict[str, list[str]]


@dataclass(slots=True)
class ZNRecord:
    """One record. Treat a record that came from a cache or a view as frozen; `copy` before changing it."""

    id: str
    simple_fields: SimpleFields = field(default_factory=dict)
    map_fields: MapFields = field(default_factory=dict)
    list_fields: ListFields = field(default_factory=dict)

    def copy(self) -> ZNRecord:
        return ZNRecord(
            self.id,
            dict(self.simple_fields),
            {k: dict(v) for k, v in self.map_fields.items()},
            {k: list(v) for k, v in self.list_fields.items()},
        )

    def to_json_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "simpleFields": self.simple_fields,
            "mapFields": self.map_fields,
            "listFields": self.list_fields,
        }

    def to_bytes(self) -> bytes:
        """Pretty JSON with sorted fields (equal records give equal bytes), gzip'd from 64 kB on."""
        document = {
            "id": self.id,
            "simpleFields": dict(sorted(self.simple_fields.items())),
            "mapFields": dict(sorted(self.map_fields.items())),
            "listFields": dict(sorted(self.list_fields.items())),
        }
        plain = orjson.dumps(document, option=orjson.OPT_INDENT_2)
        return plain if len(plain) < GZIP_FROM_BYTES else gzip.compress(plain, _GZIP_LEVEL, mtime=0)

    @staticmethod
    def from_bytes(data: bytes, where: str = "") -> ZNRecord:
        """Decode plain or gzip'd JSON; fields that are null are absent. Raises DamagedRecordError naming `where`."""
        try:
            return record_from_json(orjson.loads(_unpacked(data) if data[:2] == _GZIP_MAGIC else data), where)
        except DecodeError as error:
            raise damaged_record(error.message, where) from error
        except (orjson.JSONDecodeError, zlib.error, ValueError) as error:
            raise damaged_record(
                f"expected a cluster record at '{where}', found {len(data)} bytes that are none: {error}", where
            ) from error


def damaged_record(fault: str, where: str) -> DamagedRecordError:
    """What is wrong with a record of the cluster store, and what to do about it."""
    return DamagedRecordError(f"{fault}; the record is damaged: put back in ZooKeeper what it was", file=where)


def record_from_json(document: Any, where: str = "") -> ZNRecord:
    """A record from its parsed JSON; raises DecodeError if it has another shape."""
    if not isinstance(document, dict) or not isinstance(document.get("id"), str):
        raise DecodeError(
            f"expected a cluster record with an id at '{where}', found {type(document).__name__}", file=where
        )
    simple, maps, lists = (
        _object(document.get(key), key, where) for key in ("simpleFields", "mapFields", "listFields")
    )
    try:
        return ZNRecord(
            document["id"],
            _texts(simple),
            {key: _texts(value) for key, value in maps.items()},
            {key: [v if isinstance(v, str) else _text(v) for v in _as_list(value)] for key, value in lists.items()},
        )
    except (AttributeError, TypeError) as error:
        raise DecodeError(f"expected maps and lists of text in the record at '{where}': {error}", file=where) from error


def _object(value: Any, key: str, where: str) -> dict[str, Any]:
    # Only null means that there is none: an empty list in its place is damage, and must not read as no segments.
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DecodeError(
            f"expected {key} to be an object in the record at '{where}', found {type(value).__name__}", file=where
        )
    return value


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else _text(value) for key, value in fields.items() if value is not None
    }


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"found {type(value).__name__} instead of a list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, bool | int | float):
        raise TypeError(f"found {type(value).__name__} instead of a text")
    return "true" if value is True else "false" if value is False else str(value)


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    plain = unpacker.decompress(data, _UNPACKED_BYTES_MAX)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError(f"gzip stream is cut short or unpacks to more than {_UNPACKED_BYTES_MAX} bytes")
    return plain
