"""Avro values of types that contain themselves, such as trees, as JSON text: read value by value, since no array has
their shape.

Times are the numbers of the file.
"""

from __future__ import annotations

import json
import struct
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np

from pinotpy.ingest import json_text
from pinotpy.ingest.readers.avro_decimals import big_decimal_text
from pinotpy.ingest.readers.avro_schema import AvroType

_DECIMAL_BYTES_MAX: Final = 32
_ALL_DIGITS: Final = Context(prec=1000)


def json_of_value(of: AvroType, content: bytes) -> str:
    """The JSON text of one value, whose bytes were checked already; with NaN or infinity a text that JSON columns
    refuse.

    Raises:
        ValueError: a decimal of more than 32 bytes, a big-decimal that is none.
    """
    value = _Reader(content).value(of)
    try:
        return json_text.dumps(value)
    except ValueError:
        return json.dumps(
            value, ensure_ascii=False, default=lambda other: other.hex() if isinstance(other, bytes) else str(other)
        )


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def value(self, of: AvroType) -> Any:
        match of.kind:
            case "null":
                return None
            case "boolean":
                return self._take(1) == b"\x01"
            case "int" | "long":
                return self._number()
            case "float":
                return float(str(np.frombuffer(self._take(4), "<f4")[0]))  # 0.1, not 0.10000000149011612
            case "double":
                return struct.unpack("<d", self._take(8))[0]
            case "string":
                return self._take(self._number()).decode("utf-8", "replace")
            case "bytes":
                return self._scaled(of, self._take(self._number()))
            case "fixed":
                return self._scaled(of, self._take(of.size))
            case "enum":
                return of.symbols[self._number()]
            case "union":
                return self.value(of.children[self._number()])
            case "record":
                return {name: self.value(child) for name, child in zip(of.field_names, of.children, strict=True)}
            case "array":
                return [self.value(of.children[0]) for _ in self._items()]
        return {
            self._take(self._number()).decode("utf-8", "replace"): self.value(of.children[0]) for _ in self._items()
        }

    def _items(self) -> Any:
        while (count := self._number()) != 0:
            if count < 0:
                count = -count
                self._number()
            yield from range(count)

    def _scaled(self, of: AvroType, content: bytes) -> Any:
        if of.logical == "big-decimal":
            return big_decimal_text(content)
        if of.logical != "decimal":
            return content
        if len(content) > _DECIMAL_BYTES_MAX:
            raise ValueError(f"a decimal of {len(content)} bytes, expected at most {of.precision} digits")
        # By default a scaled decimal is rounded to 28 digits.
        return Decimal(int.from_bytes(content, "big", signed=True)).scaleb(-of.scale, _ALL_DIGITS)

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._content[self._at - size : self._at]

    def _number(self) -> int:
        word, shift = 0, 0
        while True:
            byte = self._content[self._at]
            self._at += 1
            word |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (word >> 1) ^ -(word & 1)
            shift += 7
