"""Names in expressions to columns of the schema, in the schema's spelling, and the list of columns that a query
reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from pinotpy.data_types import DataType
from pinotpy.errors import UnknownColumnError
from pinotpy.names import raw_table_name
from pinotpy.pql.ast import Call, Expression, Identifier, Literal, Position
from pinotpy.query.compile.rewrite.json_fields import JsonField
from pinotpy.query.compile.rewrite.map_items import value_type
from pinotpy.query.compile.unknown_columns import unknown_column, wrong_qualifier
from pinotpy.query.model.context import ColumnRef
from pinotpy.query.model.deadline import Check, no_deadline

VIRTUAL_COLUMNS: Final = {"$docId": DataType.INT, "$segmentName": DataType.STRING, "$hostName": DataType.STRING}

# A database and a table, or `default`, a database and a table.
_QUALIFIER_PARTS_MAX: Final = 3
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
    """Columns of one schema: those of its fields, with the virtual ones, the spelling of each lower-case name where
    there is one, the names that differ in letter case alone, the type of values in each MAP, and which are JSON
    documents, one a row.
    """

    schema: TableSchema
    physical: dict[str, ColumnRef]
    known: dict[str, ColumnRef]
    folded: dict[str, str]
    ambiguous: dict[str, list[str]]
    map_values: dict[str, DataType]
    json: frozenset[str]


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
        documents = frozenset(
            name for name, ref in physical.items() if ref.data_type is DataType.JSON and ref.single_value
        )
        spellings: dict[str, list[str]] = {}
        for name in known:
            spellings.setdefault(name.lower(), []).append(name)
        folded = {lower: names[0] for lower, names in spellings.items() if len(names) == 1}
        ambiguous = {lower: names for lower, names in spellings.items() if len(names) > 1}
        columns = _Columns(schema, physical, known, folded, ambiguous, map_values, documents)
        if len(_columns_by_schema) >= _SCHEMAS_MAX:
            _columns_by_schema.clear()
        _columns_by_schema[id(schema)] = columns
    return columns


class ColumnResolver:
    """Resolves names against one schema and remembers the columns that were read, in order of appearance.

    Args:
        table: the table as the query names it; it may stand before its columns, `flights.carrier`.
        alias: what the query calls it instead, which then alone may stand there.
        has_fields: whether `payload.user` means a field of the JSON column payload, as in SQL.
        check: the query's deadline.
    """

    def __init__(
        self,
        schema: TableSchema,
        table: str,
        *,
        case_insensitive: bool,
        check: Check = no_deadline,
        alias: str | None = None,
        has_fields: bool = False,
    ) -> None:
        self.check = check
        self._case_insensitive = case_insensitive
        columns = _columns_of(schema)
        self._columns, self._known, self._folded = columns.physical, columns.known, columns.folded
        self._ambiguous = columns.ambiguous
        self.map_values: Mapping[str, DataType] = columns.map_values
        self.json_columns = columns.json if has_fields else frozenset()
        self._has_fields = has_fields
        self._called = table if alias is None else alias
        raw = raw_table_name(table)
        names = {table, raw} if alias is None else {alias}
        if alias is None and has_fields:
            names |= {raw.rpartition(".")[2], f"default.{raw}"}
        self._qualifiers = {name.lower() for name in names} if case_insensitive else names
        self._read: dict[str, ColumnRef] = {}

    def find(self, name: str) -> ColumnRef | None:
        """The column that a written name means; None if the table has none of it. What the table is called is cut off
        before it.
        """
        column = self._named(name)
        if column is None and "." in name:
            rest = self._unqualified(name)
            return None if rest is None else self._named(rest)
        return column

    def _unqualified(self, name: str) -> str | None:
        """What follows the table's name or alias in a name; None if it does not begin with one."""
        parts = name.split(".", _QUALIFIER_PARTS_MAX)
        for count in range(1, len(parts)):
            if self._is_qualifier(".".join(parts[:count])):
                return ".".join(parts[count:])
        return None

    def _is_qualifier(self, name: str) -> bool:
        return (name.lower() if self._case_insensitive else name) in self._qualifiers

    def check_qualifier(self, name: str, position: Position) -> None:
        """Raises UnknownColumnError unless the table is called so: the f of SELECT f.*."""
        if not self._is_qualifier(name):
            sentence = f"nothing is called '{name[:80]}' here, the table is called '{self._called}'"
            raise unknown_column(Identifier(f"{name}.*", position), (), sentence)

    def field(self, name: str) -> JsonField | None:
        """The field of a JSON column that a name with dots means; None if it means none, or is a column itself."""
        if not self.json_columns or "." not in name or self.find(name) is not None:
            return None
        rest = self._unqualified(name)
        return (None if rest is None else self._json_field(rest)) or self._json_field(name)

    def _json_field(self, name: str) -> JsonField | None:
        first, _, keys = name.partition(".")
        column = self._named(first) if keys else None
        if column is None or column.name not in self.json_columns:
            return None
        return JsonField(column.name, tuple(keys.split(".")))

    def without_qualifier(self, name: str) -> str:
        """A name as an answer shows it: without the table or alias before it."""
        return self._unqualified(name) or name

    def is_name(self, name: str) -> bool:
        """Whether a name means a column, or a field of one."""
        return self.find(name) is not None or self.field(name) is not None

    def column_names(self) -> list[str]:
        """The columns that a message may name: without virtual ones."""
        return list(self._columns)

    def _named(self, name: str) -> ColumnRef | None:
        column = self._known.get(name)
        if column is None and self._case_insensitive:
            column = self._known.get(self._folded.get(name.lower(), ""))
        return column

    def column(self, identifier: Identifier) -> ColumnRef:
        """The column of an identifier, not counted as read; raises UnknownColumnError."""
        column = self.find(identifier.name)
        if column is None:
            raise self.unknown(identifier)
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

    def unknown(self, identifier: Identifier) -> UnknownColumnError:
        """The error for a name that no column has, with the nearest name, or what is wrong with what stands before
        it.
        """
        name = identifier.name
        same = self._ambiguous.get((self._unqualified(name) or name).lower(), []) if self._case_insensitive else []
        if same:
            several = " and ".join(f"'{column}'" for column in same[:10])
            return unknown_column(identifier, (), f"it may be {several}: write one of them letter by letter")
        known = list(VIRTUAL_COLUMNS) if name.startswith("$") else self.column_names()
        if not self._has_fields or "." not in name:
            return unknown_column(identifier, known)
        rest = self._unqualified(name)
        if rest is None:
            return unknown_column(identifier, known, wrong_qualifier(name, self._called, self._known))
        qualifier = name[: len(name) - len(rest)]
        return unknown_column(identifier, [f"{qualifier}{column}" for column in known])
