"""Columns of the schema that a file lacks: which they are, which of them are a fault, and what to say.

A file lacks a column where its header or schema names no field that fills it; where each record names its own fields
(JSON), where no record has one. Such a column is a fault unless the schema says what stands for it: a defaultNullValue,
or a transformFunction.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from pinotpy.config.ingestion import MissingColumns
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import FieldType

OTHER_FIELDS_MAX: Final = 50
_COLUMNS_SHOWN: Final = 10
_FIELDS_SHOWN: Final = 10
_NO_LETTER: Final = re.compile(r"[\W_]+")
REMEDY: Final = (
    "mend the files or the schema, give the column a defaultNullValue in the schema, or set missingColumns to WARN or "
    "DEFAULT "
    "(--missing-columns, pinotpy.missingColumns of the job, ingestionConfig.batchIngestionConfig.missingColumns of "
    "the table)"
)


@dataclass(frozen=True, slots=True)
class ExpectedColumns:
    """The columns of a schema, each with the fields of which any fills it, and those among them that no file may
    lack.
    """

    sources: Mapping[str, frozenset[str]]
    required: frozenset[str]

    def missing(self, fields: Collection[str]) -> tuple[str, ...]:
        """The columns that a file with these fields lacks."""
        return tuple(name for name, sources in self.sources.items() if sources.isdisjoint(fields))

    def faults(self, missing: Collection[str]) -> tuple[str, ...]:
        """Those of the missing columns that are a fault."""
        return tuple(name for name in missing if name in self.required)

    def others(self, fields: Collection[str]) -> tuple[str, ...]:
        """Fields that fill no column, of which one may be meant by a missing one."""
        used: set[str] = set().union(*self.sources.values())
        return tuple(sorted(name for name in fields if name not in used)[:OTHER_FIELDS_MAX])


def no_field_text(schema_name: str, columns: Collection[str], fields: Collection[str]) -> str:
    """That records have none of the fields of a schema: whatever missingColumns says, they are not what is meant."""
    found = f"fields {_names(sorted(fields))}" if fields else "no field at all"
    return (
        f"no record has a field of schema '{schema_name}': found {found}, expected some of {_names(columns)}; check "
        "that these are the records, the table and the schema that are meant"
    )


def _names(names: Collection[str]) -> str:
    shown = ", ".join(repr(name[:60]) for name in list(names)[:_FIELDS_SHOWN])
    return f"{shown} …" if len(names) > _FIELDS_SHOWN else shown


def expected_columns(
    schema: Schema, transformed: Collection[str], sources: Mapping[str, frozenset[str]]
) -> ExpectedColumns:
    """Of a schema, of which the columns `transformed` are computed; MAP columns of older schemas come as two."""
    optional = {
        spec.name
        for spec in schema.field_specs.values()
        if spec.default_null_value is not None or spec.field_type is FieldType.COMPLEX
    }
    return ExpectedColumns(sources, frozenset(schema.field_specs) - optional - frozenset(transformed))


def missing_columns_of(table_config: TableConfig | None) -> MissingColumns:
    """What the table says."""
    ingestion = table_config.ingestion if table_config is not None else None
    batch = ingestion.batch_ingestion_config if ingestion is not None else None
    return batch.missing_columns if batch is not None else MissingColumns.FAIL


def fault_text(columns: Sequence[str], others: Sequence[str]) -> str:
    """The columns that are missing, with the fields that may be meant, and what to do."""
    shown = ", ".join(f"'{name}'{_meant(name, others)}" for name in columns[:_COLUMNS_SHOWN])
    more = f" and {len(columns) - _COLUMNS_SHOWN} more" if len(columns) > _COLUMNS_SHOWN else ""
    fields = ", ".join(repr(name[:60]) for name in others[:_FIELDS_SHOWN])
    rest = f"; fields that fill no column: {fields}{' …' if len(others) > _FIELDS_SHOWN else ''}" if others else ""
    return f"{shown}{more}{rest}; {REMEDY}"


def _meant(column: str, fields: Sequence[str]) -> str:
    by_letters: dict[str, str] = {}
    for field in fields:
        by_letters.setdefault(_letters(field), field)
    near = get_close_matches(_letters(column), by_letters, n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(repr(by_letters[name][:60]) for name in near)}?)" if near else ""


def _letters(name: str) -> str:
    return _NO_LETTER.sub("", name).casefold()
