"""What an aggregation function is. One function = one file in functions/aggregate/, found by folder scan.

An aggregation has two kinds of state:

 - while a thread scans, either slots, a distribution, registers, or the rows themselves: plans.py says what each is;
 - from then on **state columns**: Arrow columns with one row a group (`state_fields`). That is what threads, servers
   and the broker merge, and what travels. A null state means that nothing was seen.

    plan(argument) ─► kernels ─► collect ─► state columns ─► merge, merge … ─► finish ─► the result column

State columns say by their Arrow type what they hold, so `merge` and `finish` need no schema: a broker merges without
kernels. To add a function: one file with a module-level `FUNCTION = …`, and its test.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, ClassVar, Union

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.functions.state.plans import Plan
from pinotpy.pql.ast import Call, Dialect, Expression, Literal

Groups = Int64Array  # group number of every state row
Parameter = Union[
    int, float, Decimal, str, bool, None, tuple[Union[int, float, Decimal, str, bool, None], ...]
]  # a constant argument; ARRAY[…] is a tuple


@dataclass(frozen=True, slots=True)
class Argument:
    """What a function is applied to. `data_type` None is a bare NULL, or the `*` of COUNT(*), which nothing refuses.
    `further`: the other expressions of a function that reads several (`AggregateFunction.num_expressions`).
    """

    data_type: DataType | None
    single_value: bool = True
    further: tuple[Argument, ...] = ()

    @property
    def name(self) -> str:
        """As users read it: INT, STRING_ARRAY."""
        if self.data_type is None:
            return "NULL"
        return self.data_type.value if self.single_value else f"{self.data_type.value}_ARRAY"


@dataclass(frozen=True, slots=True)
class AggregateExample:
    """A call and its value in SQL over the table of functions/example_rows.py; shown in docs/generated."""

    call: str
    value: int | float | str | bool | list[float]


class AggregateFunction:
    """An aggregation. Stateless; one instance a name.

    Class attributes: `name` canonical (lower case, no underscores), `aliases`, `display_name` as PQL prints it,
    `multi_value`: takes a multi-value column and sees each of its values; `accepts_multi_value`: a plain function that
    answers for multi-value columns as well (by all their values); `result_type` (see `result_of`); `dictionary_only`:
    the answer without filter can be read off dictionaries; `extremes_only`: it can be read off the least and greatest
    value alone; `num_expressions`: so many arguments are expressions, what
    follows them are constants; `reads_rows`: its plan is a RowPlan; `counts_values`: of a state that is a list, a set,
    `finish` reads only how many values it has, and takes that number (int64) in its place; `sql_only`: PQL does not
    have it. For the table of functions: `summary`, one sentence; `parameters`, what may follow the first argument;
    `result_text`, where the result has not always one type; `accuracy`, how far the value may be off; `examples` by
    name.

    Under null handling a null counts for none of them.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    display_name: ClassVar[str]
    multi_value: bool = False
    accepts_multi_value: ClassVar[bool] = False
    result_type: ClassVar[DataType]
    result_text: ClassVar[str] = ""
    dictionary_only: ClassVar[bool] = False
    extremes_only: ClassVar[bool] = False
    num_expressions: ClassVar[int] = 1
    reads_rows: ClassVar[bool] = False
    counts_values: ClassVar[bool] = False
    sql_only: ClassVar[bool] = False
    summary: ClassVar[str]
    parameters: ClassVar[str] = ""
    accuracy: ClassVar[str] = "exact"
    examples: ClassVar[Mapping[str, AggregateExample]]

    @property
    def argument_type(self) -> DataType | None:
        """What the first argument is cast to; None: it is taken as it is."""
        return None

    def with_parameters(self, parameters: Sequence[Parameter]) -> AggregateFunction:
        """This function with the constants of its call after its expressions (the 95 of PERCENTILE(x, 95)); raises
        InvalidQueryError for constants that it does not take. Functions without parameters give themselves."""
        return self

    def check(self, arguments: Sequence[Argument], dialect: Dialect) -> None:
        """Raise if the function cannot take these arguments (further ones than the first are ignored, as in the
        reference).
        """
        if not arguments:
            raise InvalidQueryError(
                f"{self.display_name} needs one argument, found none: name a column or an expression"
            )
        argument = arguments[0]
        if self.multi_value and argument.single_value:
            raise QueryExecutionError(
                f"{self.display_name} takes a multi-value column, found "
                f"{argument.name}{_twin(self.display_name.removesuffix('MV'))}"
            )
        if not self.multi_value and not argument.single_value and not self.accepts_multi_value:
            raise QueryExecutionError(
                f"{self.display_name} takes single values, found {argument.name}{_twin(self.display_name + 'MV')}"
            )
        self.check_type(argument, dialect)
        if argument.data_type is None and self.name != "count":
            raise InvalidQueryError(
                f"{self.display_name} takes values of some type, found NULL: name a column or an expression",
                function=self.name,
            )

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        """Raise if the type of the argument is none that the function takes."""

    def result_of(self, argument: Argument) -> Argument:
        """The type of the result, and whether it is one value or a list of values of this type."""
        return Argument(self.result_type)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        """State columns, as they travel; their names are part of the wire format."""
        raise NotImplementedError

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        """How a scan fills the state. `sum_fits_long`: no unit's sum of integer magnitudes reaches 2^63."""
        raise NotImplementedError

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        """State columns of `num_groups` rows from state rows that belong to `groups`; associative and commutative."""
        raise NotImplementedError

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        """The result column (Arrow type of `result_of`); nulls only under null handling."""
        raise NotImplementedError

    def finish_values(self, states: Sequence[Sequence[Any]], *, null_handling: bool) -> list[Any] | None:
        """`finish` for few rows: state columns as lists of Python values (state_values.py) to the list that the result
        column would give; None: this function, or this state, is finished as columns only.
        """
        return None

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        """What PQL orders groups by: the result, unless that is the text of a sketch, which says nothing about its
        size.
        """
        return finished

    def from_dictionary(self, dictionary: pa.Array) -> list[pa.Array]:
        """One state row of a segment whose docs hold exactly these values (sorted, stored form); for
        dictionary_only. For extremes_only the least and the greatest of them are enough.
        """
        raise NotImplementedError

    def nothing_seen(self, argument: Argument) -> list[pa.Array]:
        """One state row of no rows at all."""
        return [
            pa.array([0 if pa.types.is_int64(f.type) and f.name == "count" else None], f.type)
            for f in self.state_fields(argument)
        ]


def _twin(name: str) -> str:
    """Advice to use the same function of the other kind of column, where there is one."""
    return f": use {name}" if canonical(name) in functions() else ""


NUMBERS = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.TIMESTAMP)

WHOLE_NUMBERS = (DataType.INT, DataType.LONG, DataType.BOOLEAN, DataType.TIMESTAMP)


def check_number(function: AggregateFunction, argument: Argument, dialect: Dialect) -> None:
    """Raise unless the argument is a number. BOOLEAN is 0 and 1 in SQL; in PQL it is text. Text is refused with the
    code that each dialect's reference gives (PQL 200, SQL 700)."""
    if argument.data_type in NUMBERS or (argument.data_type is DataType.BOOLEAN and dialect is Dialect.SQL):
        return
    message = (
        f"cannot compute {function.name} for values that are no numbers: found {argument.name}; use CAST or a "
        "numeric column"
    )
    if function.name in ("min", "max") and argument.data_type is DataType.STRING and dialect is Dialect.SQL:
        message += f", or {function.name.upper()}STRING"
    error: type[PinotError] = QueryExecutionError if dialect is Dialect.PQL else InvalidQueryError
    raise error(message, function=function.name)


def check_types(
    function: AggregateFunction, argument: Argument, taken: Sequence[DataType], what: str, dialect: Dialect
) -> None:
    """Raise unless the argument is of one of these types; `what` names them for people. Codes as those of
    `check_number`.
    """
    if argument.data_type not in taken:
        error: type[PinotError] = QueryExecutionError if dialect is Dialect.PQL else InvalidQueryError
        raise error(
            f"{function.display_name} takes {what}, found {argument.name}: use CAST or another column",
            function=function.name,
        )


@cache
def functions() -> dict[str, AggregateFunction]:
    """All aggregations by canonical name and alias."""
    folder = importlib.import_module("pinotpy.functions.aggregate")
    by_name: dict[str, AggregateFunction] = {}
    for module in sorted(pkgutil.iter_modules(folder.__path__), key=lambda m: m.name):
        loaded: Any = importlib.import_module(f"pinotpy.functions.aggregate.{module.name}")
        members = loaded.FUNCTIONS if hasattr(loaded, "FUNCTIONS") else (loaded.FUNCTION,)
        for function in members:
            for name in (function.name, *function.aliases):
                assert name not in by_name, f"two aggregations are called '{name}'"
                by_name[name] = function
    return by_name


def is_aggregation(name: str) -> bool:
    """Whether this is the name of an aggregation; letter case and underscores do not matter."""
    return canonical(name) in functions()


def canonical(name: str) -> str:
    """`MIN_MAX_RANGE` → `minmaxrange`."""
    return name.lower().replace("_", "")


def aggregation_function(name: str, args: Sequence[Expression]) -> AggregateFunction:
    """The function of an aggregation call, with the constants among its arguments; raises InvalidQueryError."""
    if len(args) == 1:
        return _with_parameters(name, (), ())
    constants = args[function_named(name).num_expressions :]
    parameters = tuple([_constant(arg) for arg in constants if isinstance(arg, Literal) or _is_constant_array(arg)])
    return _with_parameters(name, tuple([repr(value) for value in parameters]), parameters)


def _is_constant_array(arg: Expression) -> bool:
    return isinstance(arg, Call) and arg.name == "array" and all(isinstance(value, Literal) for value in arg.args)


def _constant(arg: Expression) -> Parameter:
    if isinstance(arg, Literal):
        return arg.value
    assert isinstance(arg, Call)
    return tuple([value.value for value in arg.args if isinstance(value, Literal)])


@lru_cache(maxsize=1024)
def _with_parameters(name: str, spelled: tuple[str, ...], parameters: tuple[Parameter, ...]) -> AggregateFunction:
    # `spelled` tells 1 from 1.0 and True, which are equal.
    return function_named(name).with_parameters(parameters)


def function_named(name: str) -> AggregateFunction:
    """The aggregation of this name or alias; raises InvalidQueryError."""
    named = functions().get(canonical(name))
    if named is None:
        known = ", ".join(sorted({function.display_name for function in functions().values()}))
        raise InvalidQueryError(f"no aggregation is called '{name}'; found: {known}")
    return named
