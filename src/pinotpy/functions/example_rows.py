"""The data of the examples in docs/generated/functions.md: one row for scalar functions, a small table for
aggregations.
"""

from __future__ import annotations

from typing import Any, Final

from pinotpy.data_types import DataType

# column → type and value; a list is a multi-value column. `ks` and `vs` are the keys and values of a map.
EXAMPLE_ROW: Final[dict[str, tuple[DataType, Any]]] = {
    "i": (DataType.INT, 7),
    "l": (DataType.LONG, 10_000_000_000),
    "f": (DataType.FLOAT, 1.5),
    "d": (DataType.DOUBLE, 2.25),
    "s": (DataType.STRING, "Hello, World"),
    "b": (DataType.BOOLEAN, True),
    "ts": (DataType.LONG, 1_577_934_245_678),
    "days": (DataType.LONG, 18_263),
    "by": (DataType.BYTES, b"\x0a\x0b"),
    "mi": (DataType.INT, [1, 2, 3]),
    "ml": (DataType.LONG, [10, 20]),
    "md": (DataType.DOUBLE, [1.5, 2.5]),
    "ms": (DataType.STRING, ["a", "b", "a"]),
    "j": (DataType.JSON, '{"a":{"b":[1,2]},"c":"x"}'),
    "m": (DataType.MAP, '{"a":4,"b":7}'),
    "ks": (DataType.STRING, ["a", "b"]),
    "vs": (DataType.INT, [1, 2]),
}

# HyperLogLogs with 2^3 registers, as DISTINCTCOUNTRAWHLL(x, 3) writes them: of one value, of another, of both.
_ONE, _OTHER, _BOTH = (
    bytes.fromhex(f"0000000300000008{registers}00000000") for registers in ("00000001", "00000020", "00000021")
)

# column → type and the values of its six rows.
EXAMPLE_TABLE: Final[dict[str, tuple[DataType, list[Any]]]] = {
    "team": (DataType.STRING, ["red", "red", "blue", "blue", "blue", "green"]),
    "points": (DataType.INT, [3, 1, 4, 1, 5, 9]),
    "score": (DataType.DOUBLE, [0.1, 0.2, 0.3, 1.5, 2.5, 4.0]),
    "rounds": (DataType.INT, [[1, 2], [3], [2, 2], [5], [4, 1], [3]]),
    "seen": (DataType.BYTES, [_ONE, _ONE, _OTHER, _OTHER, _BOTH, _BOTH]),
    "sightings": (DataType.BYTES, [[_ONE, _OTHER], [_ONE], [_OTHER], [_ONE], [_BOTH, _ONE], [_ONE]]),
}
