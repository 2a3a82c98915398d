"""Avro schemas: from JSON to types, from types to the nodes that `kernels/ingest/avro_records.py` decodes by.

Named types may refer to themselves. What is not wanted is stepped over by nodes that all references to a type share.
What is wanted gets nodes of its own; of a field in which a type contains itself the bytes are noted and read later
(LAZY).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pinotpy.kernels.ingest import avro_records as kernel

NODES_MAX: Final = 20_000
_DEPTH_MAX: Final = 64
_PRIMITIVES: Final = {
    "null": kernel.NULL,
    "boolean": kernel.BOOLEAN,
    "int": kernel.INT,
    "long": kernel.LONG,
    "float": kernel.FLOAT,
    "double": kernel.DOUBLE,
    "bytes": kernel.TEXT,
    "string": kernel.TEXT,
}
_WIDTHS: Final = {"boolean": 1, "float": 4, "double": 8}
_TIME_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}


@dataclass(slots=True, eq=False)
class AvroType:
    """A type. `kind` is Avro's word; `logical` one of date, time, timestamp, local-timestamp, decimal, big-decimal,
    uuid, duration or ''.

    unit: of time and timestamps: ms, us, ns. children: fields of a record, branches of a union, items of an array,
    values of a map.
    """

    kind: str
    name: str = ""
    logical: str = ""
    unit: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    field_names: tuple[str, ...] = ()
    children: list[AvroType] = field(default_factory=list)


def parse_schema(text: str | bytes) -> AvroType:
    """The type that a schema's JSON text describes. Raises ValueError with what is wrong."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("a schema nested too deeply") from None
    return _Parser().parse(document, "", 0)


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}
        self._num_types = 0

    def parse(self, document: Any, namespace: str, depth: int) -> AvroType:
        self._num_types += 1
        if depth > _DEPTH_MAX or self._num_types > NODES_MAX:
            raise ValueError(f"a schema nested deeper than {_DEPTH_MAX}, or of more than {NODES_MAX} types")
        if isinstance(document, str):
            return self._by_name(document, namespace)
        if isinstance(document, list):
            if not document:
                raise ValueError("a union without branches")
            return AvroType("union", children=[self.parse(branch, namespace, depth + 1) for branch in document])
        if not isinstance(document, dict) or "type" not in document:
            raise ValueError(f"{str(document)[:60]!r} in the schema, expected a type")
        kind = document["type"]
        match kind:
            case "record" | "error":
                return self._record(document, namespace, depth)
            case "enum":
                symbols = document.get("symbols")
                if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
                    raise ValueError("an enum without a list of symbols")
                return self._named_type(document, namespace, AvroType("enum", symbols=tuple(symbols)))
            case "fixed":
                size = document.get("size")
                if not isinstance(size, int) or not 0 <= size < 1 << 31:
                    raise ValueError(f"a fixed of size {str(size)[:20]}")
                return self._named_type(document, namespace, _logical(AvroType("fixed", size=size), document))
            case "array":
                return AvroType("array", children=[self.parse(document.get("items"), namespace, depth + 1)])
            case "map":
                return AvroType("map", children=[self.parse(document.get("values"), namespace, depth + 1)])
            case str() if kind in _PRIMITIVES:
                return _logical(AvroType(kind), document)
        return self.parse(kind, namespace, depth + 1)

    def _record(self, document: Mapping[str, Any], namespace: str, depth: int) -> AvroType:
        fields = document.get("fields")
        if not isinstance(fields, list) or not all(
            isinstance(field, dict) and isinstance(field.get("name"), str) for field in fields
        ):
            raise ValueError("a record without a list of named fields")
        record = self._named_type(
            document, namespace, AvroType("record", field_names=tuple(field["name"] for field in fields))
        )
        inner = record.name.rpartition(".")[0]
        record.children.extend(self.parse(field.get("type"), inner, depth + 1) for field in fields)
        return record

    def _named_type(self, document: Mapping[str, Any], namespace: str, avro_type: AvroType) -> AvroType:
        name, own_namespace = document.get("name", ""), document.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own_namespace, str):
            raise ValueError("a name that is no text")
        avro_type.name = name if "." in name or not own_namespace else f"{own_namespace}.{name}"
        self._named[avro_type.name] = avro_type
        return avro_type

    def _by_name(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(name)
        known = self._named.get(f"{namespace}.{name}" if namespace and "." not in name else name) or self._named.get(
            name
        )
        if known is None:
            raise ValueError(f"the type '{name[:60]}', which the schema does not define")
        return known


def _logical(avro_type: AvroType, document: Mapping[str, Any]) -> AvroType:
    """The type with its logical type; one that does not fit is ignored, as Avro wants it."""
    name = document.get("logicalType")
    if not isinstance(name, str):
        return avro_type
    logical, _, unit = name.rpartition("-")
    match avro_type.kind, name:
        case "int", "date":
            avro_type.logical = "date"
        case ("int", "time-millis") | (
            "long",
            "time-micros" | "timestamp-millis" | "timestamp-micros" | "timestamp-nanos",
        ):
            avro_type.logical, avro_type.unit = logical, _TIME_UNITS[unit]
        case "long", "local-timestamp-millis" | "local-timestamp-micros" | "local-timestamp-nanos":
            avro_type.logical, avro_type.unit = logical, _TIME_UNITS[unit]
        case "bytes", "big-decimal":
            avro_type.logical = "big-decimal"
        case "bytes" | "fixed", "decimal":
            precision, scale = document.get("precision"), document.get("scale", 0)
            if (
                isinstance(precision, int)
                and isinstance(scale, int)
                and 0 < precision <= 76
                and 0 <= scale <= precision
                and avro_type.size <= 32
            ):
                avro_type.logical, avro_type.precision, avro_type.scale = "decimal", precision, scale
        case "string", "uuid":
            avro_type.logical = "uuid"
        case "fixed", "uuid" if avro_type.size == 16:
            avro_type.logical = "uuid"
        case "fixed", "duration" if avro_type.size == 12:
            avro_type.logical = "duration"
    return avro_type


@dataclass(slots=True)
class Node:
    """A wanted value: its type, the slot of its words (-1: none) and the nodes below. `key_slot` is that of a map's
    keys.
    """

    of: AvroType
    slot: int = -1
    children: list[Node] = field(default_factory=list)
    key_slot: int = -1
    is_lazy: bool = False


class Program:
    """The nodes that decode the wanted fields of a record.

    Attributes:
        fields: wanted field → its node.
        widths: words that a visit of each slot leaves.
    """

    def __init__(self, record: AvroType, wanted: set[str]) -> None:
        self.fields: dict[str, Node] = {}
        self.widths: list[int] = []
        self._kinds: list[int] = []
        self._counts: list[int] = []
        self._slots: list[int] = []
        self._children: list[list[int]] = []
        self._skipped: dict[int, int] = {}
        root = self._add(kernel.RECORD, 0)
        for name, child in zip(record.field_names, record.children, strict=True):
            if name in wanted and name not in self.fields:
                node = Node(child)
                self._children[root].append(self._lazy(node) if _contains_itself(child) else self._read(node))
                self.fields[name] = node
            else:
                self._children[root].append(self._skip(child))

    def nodes(self) -> kernel.Nodes:
        """As the kernel takes them."""
        firsts = np.cumsum([0, *(len(below) for below in self._children)])[:-1]
        # Children of FIXED and ENUM are none: their counts are sizes and numbers of symbols.
        counts = [len(below) or count for below, count in zip(self._children, self._counts, strict=True)]
        flat = [child for below in self._children for child in below]
        tables = (self._kinds, firsts, counts, self._slots, flat)
        return kernel.Nodes(*(np.array(table, dtype=np.int64) for table in tables))

    def _add(self, kind: int, count: int, slot: int = -1) -> int:
        if len(self._kinds) >= NODES_MAX:
            raise ValueError(f"a schema of more than {NODES_MAX} nested types")
        self._kinds.append(kind)
        self._counts.append(count)
        self._slots.append(slot)
        self._children.append([])
        return len(self._kinds) - 1

    def _new_slot(self, width: int) -> int:
        self.widths.append(width)
        return len(self.widths) - 1

    def _lazy(self, node: Node) -> int:
        """The number of a node that leaves where its bytes are."""
        node.is_lazy, node.slot = True, self._new_slot(2)
        number = self._add(kernel.LAZY, 1, node.slot)
        self._children[number].append(self._skip(node.of))
        return number

    def _read(self, node: Node) -> int:
        """The number of a node that leaves its values in slots."""
        of = node.of
        kind = _kernel_kind(of)
        if kind not in (kernel.NULL, kernel.RECORD):
            node.slot = self._new_slot(2 if kind == kernel.TEXT else 1)
        number = self._add(kind, _count(of), node.slot)
        if kind == kernel.MAP:
            node.key_slot = self._new_slot(2)
            self._children[number].append(self._add(kernel.TEXT, 0, node.key_slot))
        for child in of.children:
            below = Node(child)
            node.children.append(below)
            self._children[number].append(self._read(below))
        return number

    def _skip(self, of: AvroType) -> int:
        """The number of a node that only steps over values of the type."""
        if id(of) in self._skipped:
            return self._skipped[id(of)]
        kind = _kernel_kind(of)
        number = self._add(kind, _count(of))
        self._skipped[id(of)] = number
        if kind == kernel.MAP:
            self._children[number].append(self._add(kernel.TEXT, 0))
        self._children[number].extend([self._skip(child) for child in of.children])
        return number


def _contains_itself(of: AvroType) -> bool:
    """Whether a record lies within a record of its own type."""
    done: set[int] = set()
    above: list[AvroType] = []

    def leads_back(of: AvroType) -> bool:
        if any(of is ancestor for ancestor in above):
            return True
        if id(of) in done or not of.children:
            return False
        above.append(of)
        recursive = any(leads_back(child) for child in of.children)
        above.pop()
        done.add(id(of))
        return recursive

    return leads_back(of)


def _kernel_kind(of: AvroType) -> int:
    others = {
        "fixed": kernel.FIXED,
        "enum": kernel.ENUM,
        "record": kernel.RECORD,
        "union": kernel.UNION,
        "array": kernel.ARRAY,
        "map": kernel.MAP,
    }
    return _PRIMITIVES[of.kind] if of.kind in _PRIMITIVES else others[of.kind]


def _count(of: AvroType) -> int:
    """Bytes of a value of fixed width, symbols of an enum."""
    return len(of.symbols) if of.kind == "enum" else of.size if of.kind == "fixed" else _WIDTHS.get(of.kind, 0)
