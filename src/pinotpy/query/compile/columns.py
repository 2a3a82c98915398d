"""Names in expressions to columns of the schema, in the schema's spelling, and the list of columns that a query
reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, Protocol

from pinotpy.data_types import DataType
from pinotpy.errors import UnknownColumnError
from pinotpy.names import raw_table_name
from pinotpy.pql.ast import Call, Expression, Identifier, Literal
from pinotpy.query.compile.rewrite.map_items import value_type
from pinotpy.query.model.context import ColumnRef
from pinotpy.query.model.deadline import Check, no_deadline

VIRTUAL_COLUMNS: Final = {"$docId": DataType.INT, "$segmentName": DataType.STRING, "$hostName": DataType.STRING}

_NEAR_CHARACTERS_MAX: Final = 200
_SCHEMAS_MAX: Final = 256


class ColumnSpec(Protocol):
    """What compiling needs of config.field_spec.FieldSpec."""

    @property
    def data_type(self) -> DataType: ...
    @property
    def single_value(self) -> bool: ...
    @property
    def default_in_segments(self) -> int | float | bytes | None: ...
    @property
    def child_field_specs(self) -> dict[str, Any] | None: ...


class TableSchema(Protocol):
    """What compiling needs of config.schema.Schema."""

    @property
    def field_specs(self) -> Mapping[str, ColumnSpec]: ...


@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns of one schema: those of its fields, with the virtual ones, the spelling of each lower-case name, and the
    type of values in each MAP.
    """

    schema: TableSchema
    physical: dict[str, ColumnRef]
    known: dict[str, ColumnRef]
    folded: dict[str, str]
    map_values: dict[str, DataType]


# By identity: a schema is never changed, only replaced. The entry holds the schema, so that its id stays its own.
_columns_by_schema: dict[int, _Columns] = {}


def _columns_of(schema: TableSchema) -> _Columns:
    columns = _columns_by_schema.get(id(schema))
    if columns is None or columns.schema is not schema:
        physical = {
            name: ColumnRef(name, spec.data_type, spec.single_value, spec.default_in_segments)
            for name, spec in schema.field_specs.items()
        }
        known = physical | {name: ColumnRef(name, data_type) for name, data_type in VIRTUAL_COLUMNS.items()}
        map_values = {
            name: value_type(spec.child_field_specs)
            for name, spec in schema.field_specs.items()
            if spec.data_type is DataType.MAP
        }
        columns = _Columns(schema, physical, known, {name.lower(): name for name in known}, map_values)
        if len(_columns_by_schema) >= _SCHEMAS_MAX:
            _columns_by_schema.clear()
        _columns_by_schema[id(schema)] = columns
    return columns


class ColumnResolver:
    """Resolves names against one schema and remembers the columns that were read, in order of appearance. `check` is
    the query's deadline.
    """

    def __init__(self, schema: TableSchema, table: str, *, case_insensitive: bool, check: Check = no_deadline) -> None:
        self.check = check
        self._case_insensitive = case_insensitive
        columns = _columns_of(schema)
        self._columns, self._known, self._folded = columns.physical, columns.known, columns.folded
        self.map_values: Mapping[str, DataType] = columns.map_values
        prefixes = {table, raw_table_name(table)}
        self._prefixes = {prefix.lower() for prefix in prefixes} if case_insensitive else prefixes
        self._read: dict[str, ColumnRef] = {}

    def find(self, name: str) -> ColumnRef | None:
        """The column that a written name means; None if the table has none of it. A prefix `table.` is cut off."""
        column = self._named(name)
        if column is None and "." in name:
            prefix, _, rest = name.partition(".")
            if (prefix.lower() if self._case_insensitive else prefix) in self._prefixes:
                return self._named(rest)
        return column

    def _named(self, name: str) -> ColumnRef | None:
        column = self._known.get(name)
        if column is None and self._case_insensitive:
            column = self._known.get(self._folded.get(name.lower(), ""))
        return column

    def column(self, identifier: Identifier) -> ColumnRef:
        """The column of an identifier, not counted as read; raises UnknownColumnError."""
        column = self.find(identifier.name)
        if column is None:
            raise self._unknown(identifier)
        return column

    def resolve(self, expression: Expression) -> Expression:
        """The expression with every name in the schema's spelling; its columns count as read."""
        if isinstance(expression, Identifier):
            column = self.column(expression)
            self._read.setdefault(column.name, column)
            return expression if column.name == expression.name else Identifier(column.name, expression.position)
        if not isinstance(expression, Call):
            return expression
        self.check()
        condition = None if expression.filter is None else self.resolve(expression.filter)
        return replace(
            expression,
            args=tuple([arg if type(arg) is Literal else self.resolve(arg) for arg in expression.args]),
            filter=condition,
        )

    def spell(self, expression: Expression) -> Expression:
        """Like `resolve`, without counting the columns as read: for clauses that are checked and then ignored."""
        read = dict(self._read)
        spelled = self.resolve(expression)
        self._read = read
        return spelled

    def physical_columns(self) -> list[Identifier]:
        """`SELECT *`: the columns sorted by name, capitals first, without virtual ones."""
        return [Identifier(name) for name in sorted(self._columns) if not name.startswith("$")]

    def is_multi_value(self, expression: Expression) -> bool:
        """Whether the expression is a multi-value column."""
        if not isinstance(expression, Identifier):
            return False
        column = self.find(expression.name)
        return column is not None and not column.single_value

    def read_columns(self) -> tuple[ColumnRef, ...]:
        """The columns read so far, in order of first appearance."""
        return tuple(self._read.values())

    def _unknown(self, identifier: Identifier) -> UnknownColumnError:
        name = identifier.name
        known = list(self._columns) if not name.startswith("$") else list(VIRTUAL_COLUMNS)
        near = [c for c in known if c.lower() == name.lower()]
        if not near and len(name) <= _NEAR_CHARACTERS_MAX:
            near = get_close_matches(name, known, n=1, cutoff=0.6)
        shown = name if len(name) <= 80 else name[:80] + "…"
        position = identifier.position
        if near:
            hint = f"did you mean '{near[0]}'?"
        else:
            hint = f"the table has {', '.join(sorted(known)[:10])}{' …' if len(known) > 10 else ''}"
        message = (
            f"Unknown columnName '{shown}' found in the query (line {position.line}, column {position.column}); {hint}"
        )
        return UnknownColumnError(message, column=shown, line=position.line, position=position.column)
