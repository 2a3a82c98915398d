"""The types of columns: how each is stored, its Arrow and numpy form, its default null value.

A column's `DataType` is what users see; its `StoredType` is how the bytes lie in a segment and which kernels read it.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum, StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pinotpy.decimals import encode_decimal

if TYPE_CHECKING:
    import pyarrow as pa


class StoredType(Enum):
    """How values lie in a segment. VAR = UTF-8 or other bytes with offsets, ordered by bytes."""

    INT = "INT"
    LONG = "LONG"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    VAR = "VAR"

    @property
    def is_fixed(self) -> bool:
        return self is not StoredType.VAR

    @property
    def is_integer(self) -> bool:
        return self in (StoredType.INT, StoredType.LONG)

    @property
    def is_floating(self) -> bool:
        return self in (StoredType.FLOAT, StoredType.DOUBLE)

    @property
    def numpy(self) -> np.dtype[Any]:
        """Little-endian dtype of one value; only for fixed types."""
        return _NUMPY[self]


_NUMPY: Final[dict[StoredType, np.dtype[Any]]] = {
    StoredType.INT: np.dtype("<i4"),
    StoredType.LONG: np.dtype("<i8"),
    StoredType.FLOAT: np.dtype("<f4"),
    StoredType.DOUBLE: np.dtype("<f8"),
}


class FieldType(StrEnum):
    """What a column is for."""

    DIMENSION = "DIMENSION"
    METRIC = "METRIC"
    TIME = "TIME"
    DATE_TIME = "DATE_TIME"
    COMPLEX = "COMPLEX"


class DataType(StrEnum):
    """What users see."""

    INT = "INT"
    LONG = "LONG"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    BIG_DECIMAL = "BIG_DECIMAL"
    BOOLEAN = "BOOLEAN"
    TIMESTAMP = "TIMESTAMP"
    STRING = "STRING"
    JSON = "JSON"
    BYTES = "BYTES"
    MAP = "MAP"

    @property
    def stored(self) -> StoredType:
        """BOOLEAN is stored as INT 0/1, TIMESTAMP as LONG milliseconds since the epoch, BIG_DECIMAL as ordered
        bytes.
        """
        return _STORED[self]

    @property
    def arrow(self) -> pa.DataType:
        """Arrow type of one value between operators and on the wire: TIMESTAMP is int64 ms, BIG_DECIMAL is ordered
        binary.
        """
        return _arrow_types()[self]

    @property
    def is_numeric(self) -> bool:
        return self in (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL)

    @property
    def is_text(self) -> bool:
        """STRING, JSON and MAP, which is the text of a JSON object: the stored bytes are UTF-8."""
        return self in (DataType.STRING, DataType.JSON, DataType.MAP)


_STORED: Final[dict[DataType, StoredType]] = {
    DataType.INT: StoredType.INT,
    DataType.LONG: StoredType.LONG,
    DataType.FLOAT: StoredType.FLOAT,
    DataType.DOUBLE: StoredType.DOUBLE,
    DataType.BIG_DECIMAL: StoredType.VAR,
    DataType.BOOLEAN: StoredType.INT,
    DataType.TIMESTAMP: StoredType.LONG,
    DataType.STRING: StoredType.VAR,
    DataType.JSON: StoredType.VAR,
    DataType.BYTES: StoredType.VAR,
    DataType.MAP: StoredType.VAR,
}


@cache
def _arrow_types() -> dict[DataType, pa.DataType]:
    # Imported here: a controller knows types and never needs Arrow's 50 MB.
    import pyarrow as pa

    return {
        DataType.INT: pa.int32(),
        DataType.LONG: pa.int64(),
        DataType.FLOAT: pa.float32(),
        DataType.DOUBLE: pa.float64(),
        DataType.BIG_DECIMAL: pa.binary(),
        DataType.BOOLEAN: pa.bool_(),
        DataType.TIMESTAMP: pa.int64(),
        DataType.STRING: pa.string(),
        DataType.JSON: pa.string(),
        DataType.BYTES: pa.binary(),
        DataType.MAP: pa.string(),
    }


INT_MIN: Final = -(2**31)
LONG_MIN: Final = -(2**63)

# Stored form of the default for DIMENSION, TIME and DATE_TIME columns (reference: pql.md §4, sql-live.md §5).
_DIMENSION_DEFAULTS: Final[dict[DataType, int | float | bytes]] = {
    DataType.INT: INT_MIN,
    DataType.LONG: LONG_MIN,
    DataType.FLOAT: float("-inf"),
    DataType.DOUBLE: float("-inf"),
    DataType.BIG_DECIMAL: encode_decimal(Decimal(0)),
    DataType.BOOLEAN: 0,
    DataType.TIMESTAMP: 0,
    DataType.STRING: b"null",
    DataType.JSON: b"null",
    DataType.BYTES: b"",
    DataType.MAP: b"{}",
}

_METRIC_DEFAULTS: Final[dict[DataType, int | float | bytes]] = {
    **_DIMENSION_DEFAULTS,
    DataType.INT: 0,
    DataType.LONG: 0,
    DataType.FLOAT: 0.0,
    DataType.DOUBLE: 0.0,
}


def default_null_value(data_type: DataType, field_type: FieldType) -> int | float | bytes:
    """Stored form of the value that stands for null where the schema names none."""
    return (_METRIC_DEFAULTS if field_type is FieldType.METRIC else _DIMENSION_DEFAULTS)[data_type]
