"""Functions that make multi-values of multi-values, or find one in them, in a variant for each type: arraySortInt,
arraySortString.

Positions count from 0, but arrayElementAt from 1, as in the reference, where an absent element is 0 or ''.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.arguments import constant_int
from pinotpy.functions.scalar.arrays import constant_of, element_type
from pinotpy.functions.scalar.conversions import converted
from pinotpy.functions.scalar.ragged import Ragged, ranges
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect

_TYPES: Final = {
    "int": DataType.INT,
    "long": DataType.LONG,
    "float": DataType.FLOAT,
    "double": DataType.DOUBLE,
    "string": DataType.STRING,
}
_COLUMNS: Final = {"int": "mi", "long": "ml", "float": "md", "double": "md", "string": "ms"}  # of the demo row
_VALUES: Final[dict[str, list[Any]]] = {
    "int": [1, 2, 3],
    "long": [10, 20],
    "float": [1.5, 2.5],
    "double": [1.5, 2.5],
    "string": ["a", "b", "a"],
}

_FAR: Final = 2**40  # beyond the end of any list

Compute = Callable[[Ragged, Sequence[Any]], Any]


def _rows(values: Value, source: DataType, target: DataType) -> Ragged:
    rows = Ragged.of(values)
    return Ragged(converted(rows.flat, source, target), rows.offsets)


def reversed_rows(rows: Ragged) -> Ragged:
    """Every row from its end."""
    last = rows.offsets[1:] - 1
    return rows.taken(np.repeat(last + rows.starts, rows.counts) - np.arange(len(rows.flat)), rows.counts)


def sorted_rows(rows: Ragged) -> Ragged:
    """Every row ascending; text by its bytes, NaN last."""
    return rows.taken(np.lexsort((rows.ranks, rows.row_of)), rows.counts)


def distinct_rows(rows: Ragged) -> Ragged:
    """Every value of a row once, where it came first."""
    order = np.lexsort((rows.ranks, rows.row_of))  # stable: equal values stay in their order
    row, rank = rows.row_of[order], rows.ranks[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (row[1:] != row[:-1]) | (rank[1:] != rank[:-1])
    keep = np.zeros(len(order), np.bool_)
    keep[order[is_new]] = True
    return rows.kept(keep)


def joined_rows(left: Ragged, right: Ragged) -> Ragged:
    """The values of the left row, then those of the right."""
    both = Ragged(
        pa.concat_arrays([left.flat, right.flat]), np.concatenate((left.offsets, left.offsets[-1] + right.offsets[1:]))
    )
    counts = left.counts + right.counts
    positions = np.empty(int(counts.sum()), np.int64)
    starts = np.cumsum(counts) - counts
    positions[ranges(starts, left.counts)] = np.arange(len(left.flat))
    positions[ranges(starts + left.counts, right.counts)] = len(left.flat) + np.arange(len(right.flat))
    return both.taken(positions, counts)


def _equal_to(rows: Ragged, value: pa.Scalar) -> Any:
    return pc.equal(rows.flat, value).to_numpy(zero_copy_only=False)


def _contains(rows: Ragged, constants: Sequence[Any]) -> pa.Array:
    return pa.array(rows.first(_equal_to(rows, constants[0])) >= 0)


def _index_of(rows: Ragged, constants: Sequence[Any]) -> pa.Array:
    first = rows.first(_equal_to(rows, constants[0]))
    return pa.array(np.where(first >= 0, first - rows.starts, -1).astype(np.int32))


def _without_first(rows: Ragged, constants: Sequence[Any]) -> pa.Array:
    first = rows.first(_equal_to(rows, constants[0]))
    keep = np.ones(len(rows.flat), np.bool_)
    keep[first[first >= 0]] = False
    return rows.kept(keep).lists()


def _slice(rows: Ragged, constants: Sequence[Any]) -> pa.Array:
    begin, end = (np.clip(constant, 0, rows.counts) for constant in constants)
    counts = np.maximum(end - begin, 0)
    return rows.taken(ranges(rows.starts + begin, counts), counts).lists()


def _element_at(rows: Ragged, constants: Sequence[Any]) -> pa.Array:
    index = constants[0] - 1
    absent = "" if pa.types.is_string(rows.flat.type) else 0
    positions = np.where((index >= 0) & (index < rows.counts), rows.starts + index, len(rows.flat))
    return pa.concat_arrays([rows.flat, pa.array([absent], rows.flat.type)]).take(pa.array(positions))


def _edit(
    name: str,
    suffix: str,
    arguments: str,
    summary: str,
    compute: Compute,
    example: tuple[str, Any],
    *,
    constants: tuple[str, ...] = (),  # "value" (of the type) or "position" for each further argument
    gives: DataType | None = None,
    gives_many: bool = True,
) -> ScalarFunction:
    full = f"{name.lower()}{suffix}"
    target = _TYPES[suffix]

    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        source = element_type(operands[0], full)
        _expect(source, target, operands[0], full)
        bound = [
            constant_of(operand, target, what, full)
            if what == "value"
            else max(min(constant_int(operand, what, full), _FAR), -_FAR)
            for operand, what in zip(operands[1:], constants, strict=True)
        ]
        return Bound(gives or target, lambda values: compute(_rows(values[0], source, target), bound), not gives_many)

    text, value = example
    shown = Example(f"{full}({text})", value)
    return ScalarFunction(
        full, f"{full.upper()}({arguments})", summary, bind, (shown,), 1 + len(constants), 1 + len(constants)
    )


def _expect(source: DataType, target: DataType, operand: Operand, function: str) -> None:
    if (source is DataType.STRING) != (target is DataType.STRING) or source in (
        DataType.BYTES,
        DataType.BIG_DECIMAL,
        DataType.JSON,
    ):
        raise InvalidQueryError(f"{function.upper()} takes {target.value} values, found {operand.name}")


def _of_two(
    name: str, suffix: str, summary: str, compute: Callable[[Ragged, Ragged], Ragged], example: tuple[str, Any]
) -> ScalarFunction:
    full = f"{name.lower()}{suffix}"
    target = _TYPES[suffix]

    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        sources = [element_type(operand, full) for operand in operands]
        for source, operand in zip(sources, operands, strict=True):
            _expect(source, target, operand, full)

        def evaluate(values: Sequence[Value]) -> pa.Array:
            left, right = (_rows(value, source, target) for value, source in zip(values, sources, strict=True))
            return compute(left, right).lists()

        return Bound(target, evaluate, single_value=False)

    return ScalarFunction(
        full, f"{full.upper()}(mv, mv2)", summary, bind, (Example(f"{full}({example[0]})", example[1]),), 2, 2
    )


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _family(suffix: str) -> tuple[ScalarFunction, ...]:
    column, values = _COLUMNS[suffix], _VALUES[suffix]
    last, once = values[-1], list(dict.fromkeys(values))
    column_and_value = f"{column}, {_literal(values[1])}"
    both = f"{column}, {column}"
    return (
        _edit(
            "arrayReverse",
            suffix,
            "mv",
            "The values from the last to the first.",
            lambda rows, _: reversed_rows(rows).lists(),
            (column, values[::-1]),
        ),
        _edit(
            "arraySort",
            suffix,
            "mv",
            "The values in ascending order.",
            lambda rows, _: sorted_rows(rows).lists(),
            (column, sorted(values)),
        ),
        _edit(
            "arrayDistinct",
            suffix,
            "mv",
            "Every value once, where it came first.",
            lambda rows, _: distinct_rows(rows).lists(),
            (column, once),
        ),
        _edit(
            "arrayRemove",
            suffix,
            "mv, value",
            "Without the first such value.",
            _without_first,
            (column_and_value, [values[0], *values[2:]]),
            constants=("value",),
        ),
        _edit(
            "arraySlice",
            suffix,
            "mv, from, to",
            "From one position up to another, which is left out.",
            _slice,
            (f"{column}, 1, 2", [values[1]]),
            constants=("position", "position"),
        ),
        _edit(
            "arrayContains",
            suffix,
            "mv, value",
            "Whether the value is there.",
            _contains,
            (column_and_value, True),
            constants=("value",),
            gives=DataType.BOOLEAN,
            gives_many=False,
        ),
        _edit(
            "arrayIndexOf",
            suffix,
            "mv, value",
            "The first position of the value from 0; -1 if it is absent.",
            _index_of,
            (column_and_value, 1),
            constants=("value",),
            gives=DataType.INT,
            gives_many=False,
        ),
        _edit(
            "arrayElementAt",
            suffix,
            "mv, n",
            "The n-th value, from 1; 0 or '' beyond the end.",
            _element_at,
            (f"{column}, {len(values)}", last),
            constants=("position",),
            gives_many=False,
        ),
        _of_two("arrayConcat", suffix, "All values of both.", joined_rows, (both, values + values)),
        _of_two(
            "arrayUnion",
            suffix,
            "All values of both, every one once.",
            lambda left, right: distinct_rows(joined_rows(left, right)),
            (both, once),
        ),
    )


FUNCTIONS = tuple(function for suffix in _TYPES for function in _family(suffix))
