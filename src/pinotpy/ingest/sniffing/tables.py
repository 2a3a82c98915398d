"""Does a file fit a table that is there, and what do several files have in common?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.errors import UserError
from pinotpy.ingest.sniffing.documents import checked_documents, ingestion_document
from pinotpy.ingest.sniffing.guess import ColumnGuess, Wishes
from pinotpy.ingest.sniffing.sniff import Sniffed

_NUMBERS: Final = (DataType.INT, DataType.LONG, DataType.DOUBLE)
# What a column of another type takes without losing anything.
_TAKEN_BY: Final[dict[DataType, tuple[DataType, ...]]] = {
    DataType.INT: (DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.TIMESTAMP),
    DataType.LONG: (DataType.INT, DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.TIMESTAMP),
    DataType.FLOAT: (DataType.DOUBLE, DataType.BIG_DECIMAL),
    DataType.DOUBLE: (DataType.FLOAT, DataType.BIG_DECIMAL),
    DataType.BIG_DECIMAL: (DataType.DOUBLE, DataType.LONG),
    DataType.BOOLEAN: (DataType.INT,),
}


def types_of(schema: Schema) -> dict[str, str]:
    """Column → type of a table that is there, as `Wishes.types`."""
    return {spec.name: f"{spec.data_type}{'' if spec.single_value else '[]'}" for spec in schema.field_specs.values()}


def check_fits(file: str, guessed: Sniffed, schema: Schema, wishes: Wishes, *, allows_missing: bool) -> None:
    """Raise UserError, with every column that does not fit, unless the file's rows can be rows of the table.

    Args:
        guessed: of the file by itself, without the table's types.
    """
    by_name = {column.name: column for column in guessed.columns}
    shared = [name for name in schema.field_specs if name in by_name]
    if not shared:
        raise UserError(
            f"'{file}' has none of the columns of table '{schema.schema_name}', found "
            f"{', '.join(list(by_name)[:10])}, expected some of {', '.join(list(schema.field_specs)[:10])}; name "
            "another table by --table"
        )
    faults = []
    for name in shared:
        spec, column = schema.field_specs[name], by_name[name]
        if column.is_wished or column.confidence == 0.0 or _takes(spec.data_type, column, spec.single_value):
            continue
        wanted = f"{spec.data_type}{'' if spec.single_value else '[]'}"
        why = f" ({column.why})" if column.why else ""
        faults.append(
            f"column '{name}': the file has {column.type_text}{why}, the table {wanted}; --type {name}={wanted} reads "
            "it so, and rejects what is none"
        )
    missing = [name for name in schema.field_specs if name not in by_name]
    if missing and not allows_missing:
        faults.append(
            f"the file lacks {', '.join(repr(name) for name in missing[:10])}"
            f"{f' and {len(missing) - 10} more' if len(missing) > 10 else ''}; --missing-columns DEFAULT loads its "
            "rows without a value there"
        )
    if faults:
        lines = "\n".join(f"  {fault}" for fault in faults)
        raise UserError(f"'{file}' does not fit table '{schema.schema_name}', nothing was loaded:\n{lines}")


def _takes(data_type: DataType, column: ColumnGuess, single_value: bool) -> bool:
    if column.single_value != single_value and single_value:
        return data_type in (DataType.JSON, DataType.STRING)
    if data_type in (column.data_type, DataType.STRING):
        return True
    is_epoch = column.data_type is DataType.TIMESTAMP and "since 1970" in column.why
    return data_type in _TAKEN_BY.get(column.data_type, ()) or (is_epoch and data_type is DataType.LONG)


def for_existing(schema: Schema, config: TableConfig) -> Callable[[Sniffed], tuple[Schema, TableConfig]]:
    """Documents to build a file's segments with: the table's own, but that the file says how its fields become
    columns.
    """

    def documents(sniffed: Sniffed) -> tuple[Schema, TableConfig]:
        known = tuple(column for column in sniffed.columns if column.name in schema.field_specs)
        ingestion = ingestion_document(replace(sniffed, columns=known))
        plain = config.to_json_dict()
        own = plain.get("ingestionConfig") or {}
        kept = {name: value for name, value in own.items() if name not in ("transformConfigs", "complexTypeConfig")}
        plain["ingestionConfig"] = {**kept, **ingestion}
        document = schema.to_json_dict()
        return checked_documents(document, plain)

    return documents


def joined_columns(files: Sequence[Sniffed]) -> tuple[ColumnGuess, ...]:
    """The columns of several files: each with the type that takes the values of all of them."""
    joined: dict[str, ColumnGuess] = {}
    for sniffed in files:
        for column in sniffed.columns:
            before = joined.get(column.name)
            joined[column.name] = column if before is None else _wider(before, column)
    return tuple(joined.values())


def _wider(first: ColumnGuess, second: ColumnGuess) -> ColumnGuess:
    if first.type_text == second.type_text or second.confidence == 0.0:
        return first
    if first.confidence == 0.0:
        return second
    if first.data_type in _NUMBERS and second.data_type in _NUMBERS and first.single_value == second.single_value:
        return max(first, second, key=lambda column: _NUMBERS.index(column.data_type))
    why = f"the files have {first.type_text} and {second.type_text}"
    is_list = not first.single_value and not second.single_value
    return replace(first, data_type=DataType.STRING, single_value=not is_list, why=why)
