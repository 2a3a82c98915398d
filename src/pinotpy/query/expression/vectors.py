"""What stands between the operations of an expression that kernels compute: vectors (registers, constants, null flags,
fused programs that are not emitted yet), and what instructions are emitted to.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from numpy.typing import NDArray

from pinotpy.data_types import DataType
from pinotpy.query.expression.fusion import FusedProgram
from pinotpy.query.model.context import Filter
from pinotpy.query.runtime.instructions import Word

NEVER: Final = -1  # no value is null
ALWAYS: Final = -2  # every value is null
INTEGERS: Final = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)


class Unsupported(Exception):
    """The expression is none for blocks; never leaves the query room."""


class Kind(Enum):
    """What a register holds."""

    LONG = "LONG"  # i64
    DOUBLE = "DOUBLE"  # f64
    FLAGS = "FLAGS"  # u8, 0 and 1


@dataclass(slots=True)
class Vector:
    """The values of one (sub)expression for the docs of a block.

    data_type: of the expression, None for a bare NULL. constant: its value where `register` is -1.
    fused: arithmetic that gives the values and is not emitted yet (fusion.py); `VectorOps.emitted` does it, for
    operations that know no fused programs. nulls: a register of flags, NEVER or ALWAYS. owned, owned_nulls: whoever is
    done with the vector gives the registers back to the target.
    """

    kind: Kind
    data_type: DataType | None
    register: int = -1
    constant: int | float | bool | str | None = None
    nulls: int = NEVER
    owned: bool = False
    owned_nulls: bool = False
    fused: FusedProgram | None = None

    @property
    def is_constant(self) -> bool:
        return self.register < 0 and self.fused is None


class Target(Protocol):
    """Where instructions go. `fetch…` give (register, whether the caller frees it)."""

    def allocate(self) -> int: ...

    def release(self, register: int) -> None: ...

    def emit(self, function: int, *args: Word) -> None: ...

    def fetch(self, column: str) -> tuple[int, bool]:
        """Values of a column: i64 or f64."""
        ...

    def holds(self, column: str) -> bool:
        """Whether a register has the column's values already, so that fetching them costs nothing."""
        ...

    def meta(self, column: str) -> Word:
        """Addresses of the column's meta rows."""
        ...

    def within_doubles(self, column: str) -> bool:
        """Whether doubles are known to hold all integers of the column."""
        ...

    def fetch_nulls(self, column: str) -> tuple[int, bool] | None:
        """Its null flags, None if nothing is null."""
        ...

    def fetch_filter(self, condition: Filter) -> tuple[int, bool]:
        """Flags: where the condition is true. Raises Unsupported in filters."""
        ...

    def keep(self, array: NDArray[Any]) -> int:
        """The address of an array that lives as long as the plan."""
        ...


class Probe:
    """A target that emits nothing and counts registers.

    has_nulls: whether a column may have null flags. filters: whether conditions on text can be asked of filters.
    """

    def __init__(self, has_nulls: Callable[[str], bool], *, filters: bool) -> None:
        self._has_nulls, self._filters = has_nulls, filters
        self._used: set[int] = set()
        self.most = 0

    def allocate(self) -> int:
        register = next(number for number in range(len(self._used) + 1) if number not in self._used)
        self._used.add(register)
        self.most = max(self.most, len(self._used))
        return register

    def release(self, register: int) -> None:
        self._used.remove(register)

    def emit(self, function: int, *args: Word) -> None:
        pass

    def fetch(self, column: str) -> tuple[int, bool]:
        return self.allocate(), True

    def holds(self, column: str) -> bool:
        return False

    def meta(self, column: str) -> Word:
        return 0

    def within_doubles(self, column: str) -> bool:
        return False  # takes more registers

    def fetch_nulls(self, column: str) -> tuple[int, bool] | None:
        return (self.allocate(), True) if self._has_nulls(column) else None

    def fetch_filter(self, condition: Filter) -> tuple[int, bool]:
        if not self._filters:
            raise Unsupported
        return self.allocate(), True

    def keep(self, array: NDArray[Any]) -> int:
        return 0


def word_of(value: int | float | bool, kind: Kind) -> int:
    """A constant as a word of an instruction."""
    if kind is Kind.DOUBLE:
        return int(struct.unpack("<q", struct.pack("<d", float(value)))[0])
    return int(value)


def constant_word(vector: Vector) -> int:
    """The constant of a vector as a word of an instruction; 0 of NULL."""
    assert not isinstance(vector.constant, str)
    return 0 if vector.constant is None else word_of(vector.constant, vector.kind)


def kind_of(data_type: DataType) -> Kind:
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        return Kind.DOUBLE
    if data_type in INTEGERS:
        return Kind.LONG
    if data_type is DataType.BOOLEAN:
        return Kind.FLAGS
    raise Unsupported
