"""The schema of a table: its columns and their types. One definition for REST, CLI, store and documents.

`Schema.from_json` reads every spelling that was ever documented (plural and singular lists, `timeFieldSpec` of the old
manual, both time format syntaxes, defaults as text or number) and refuses a bad document with all its faults at once.
`to_json_dict` answers the one form that GET /schemas of Pinot 1.5.1 has; reading that again gives an equal schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from pydantic import Field

from pinotpy.config.date_time import DateTimeFormat, TimeFormat, parse_format, parse_granularity
from pinotpy.config.document import (
    Document,
    Text,
    Truth,
    child_path,
    collect,
    describe,
    name_fault,
    read_object,
    refuse,
)
from pinotpy.config.field_spec import FieldSpec, TimeGranularitySpec, allowed_format, json_from_stored, stored_from_json
from pinotpy.config.misspelt_keys import misspelt_keys
from pinotpy.config.unread_keys import unrecognized
from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.errors import A_VALUE, MISSING, Fault
from pinotpy.names import check_column_name, check_table_name

VIRTUAL_COLUMNS: Final = ("$docId", "$hostName", "$segmentName")
COLUMNS_MAX: Final = 10_000

# list key → kind of its columns; the singular spelling is that of the schema page's table and of the old proposal
_LISTS: Final[dict[str, FieldType]] = {
    "dimensionFieldSpecs": FieldType.DIMENSION,
    "metricFieldSpecs": FieldType.METRIC,
    "dateTimeFieldSpecs": FieldType.DATE_TIME,
    "complexFieldSpecs": FieldType.COMPLEX,
}
_SCALARS: Final = tuple(t for t in DataType if t is not DataType.MAP)
_TYPES: Final[dict[FieldType, tuple[DataType, ...]]] = {
    FieldType.DIMENSION: _SCALARS,
    FieldType.METRIC: (
        DataType.INT,
        DataType.LONG,
        DataType.FLOAT,
        DataType.DOUBLE,
        DataType.BIG_DECIMAL,
        DataType.BYTES,
    ),
    FieldType.TIME: (DataType.INT, DataType.LONG, DataType.STRING, DataType.TIMESTAMP),
    FieldType.DATE_TIME: (DataType.INT, DataType.LONG, DataType.STRING, DataType.TIMESTAMP),
    FieldType.COMPLEX: (DataType.MAP,),
}


class Schema(Document):
    """A table's columns. Build it with `from_json`, which checks; a schema that exists is valid."""

    schema_name: Text = Field(description="Name of the schema; equals the table name without its type.")
    enable_column_based_null_handling: Truth = Field(
        False, description="Nulls by column (notNull) instead of by table config."
    )
    dimension_field_specs: tuple[FieldSpec, ...] = Field((), description="Columns to filter and group by.")
    metric_field_specs: tuple[FieldSpec, ...] = Field((), description="Numbers to aggregate.")
    time_field_spec: FieldSpec | None = Field(None, description="The one time column of the old manual.")
    date_time_field_specs: tuple[FieldSpec, ...] = Field((), description="Time columns with format and granularity.")
    complex_field_specs: tuple[FieldSpec, ...] = Field((), description="MAP columns; kept, not built yet.")
    primary_key_columns: tuple[Text, ...] = Field(
        (), description="Columns whose values identify a row, for upsert, dedup and dimension tables."
    )

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any], *, is_stored: bool = False) -> Schema:
        """Read a schema from JSON text or an object.

        Args:
            is_stored: as of TableConfig.from_json.

        Raises:
            InvalidConfigError: the document has faults; `faults` lists each with path, what was found, what is allowed.
        """
        raw = read_object(document, "schema")
        faults = [] if is_stored else misspelt_keys(Schema, raw)
        columns: dict[str, tuple[FieldSpec, ...]] = {}
        # path of each column by name, for duplicates and primary keys
        names: dict[str, str] = {}
        for key, field_type in _LISTS.items():
            columns[key] = tuple(_read_list(raw, key, field_type, names, faults))
        time_field_spec = _read_time(raw.pop("timeFieldSpec", None), "$.timeFieldSpec", names, faults)
        head = collect(Schema, raw, "$", faults)
        if head is not None:
            _check_head(head, raw, names, faults)
        if not names and not faults:
            faults.append(
                Fault(
                    "$",
                    "no columns",
                    "at least one column in dimensionFieldSpecs, metricFieldSpecs, timeFieldSpec or dateTimeFieldSpecs",
                )
            )
        if len(names) > COLUMNS_MAX:
            faults.append(Fault("$", f"{len(names)} columns", f"at most {COLUMNS_MAX}"))
        refuse("schema", faults)
        assert head is not None
        return head.model_copy(
            update={
                "dimension_field_specs": columns["dimensionFieldSpecs"],
                "metric_field_specs": columns["metricFieldSpecs"],
                "time_field_spec": time_field_spec,
                "date_time_field_specs": columns["dateTimeFieldSpecs"],
                "complex_field_specs": columns["complexFieldSpecs"],
            }
        )

    @cached_property
    def field_specs(self) -> dict[str, FieldSpec]:
        """All columns by name in schema order: dimensions, metrics, time, date-times, complex."""
        return {spec.name: spec for spec in self._columns()}

    @cached_property
    def columns_without_nulls(self) -> frozenset[str]:
        """Those of which no nulls are kept where the table config does not keep them for all columns
        (nullHandlingEnabled): rows without a value hold the default like any other value.
        """
        by_column = self.enable_column_based_null_handling
        return frozenset(name for name, spec in self.field_specs.items() if not by_column or spec.not_null)

    @cached_property
    def dates_as_texts(self) -> dict[str, DateTimeFormat]:
        """Columns of texts whose format is a pattern of dates, or ISO 8601; most schemas have none."""
        texts = (spec for spec in self._columns() if spec.data_type is DataType.STRING)
        formats = ((spec.name, spec.date_time_format) for spec in texts)
        return {name: found for name, found in formats if found and found.kind is TimeFormat.SIMPLE_DATE_FORMAT}

    @cached_property
    def unrecognized(self) -> dict[str, Any]:
        """Keys that nobody reads: JSON pointer → value. Kept, and answered as `unrecognizedProperties`."""
        return unrecognized(self)

    def _columns(self) -> Iterator[FieldSpec]:
        yield from self.dimension_field_specs
        yield from self.metric_field_specs
        if self.time_field_spec is not None:
            yield self.time_field_spec
        yield from self.date_time_field_specs
        yield from self.complex_field_specs

    def to_json_dict(self) -> dict[str, Any]:
        """The schema as GET /schemas/{name} of Pinot 1.5.1 answers it: same keys, same order, defaults and unknown keys
        left out.
        """
        document: dict[str, Any] = {
            "schemaName": self.schema_name,
            "enableColumnBasedNullHandling": self.enable_column_based_null_handling,
        }
        for key, specs in (
            ("dimensionFieldSpecs", self.dimension_field_specs),
            ("metricFieldSpecs", self.metric_field_specs),
        ):
            if specs:
                document[key] = [spec.to_json_dict() for spec in specs]
        if self.time_field_spec is not None:
            document["timeFieldSpec"] = self.time_field_spec.to_json_dict()
        for key, specs in (
            ("dateTimeFieldSpecs", self.date_time_field_specs),
            ("complexFieldSpecs", self.complex_field_specs),
        ):
            if specs:
                document[key] = [spec.to_json_dict() for spec in specs]
        if self.primary_key_columns:
            document["primaryKeyColumns"] = list(self.primary_key_columns)
        return document


def _check_head(head: Schema, raw: dict[str, Any], names: dict[str, str], faults: list[Fault]) -> None:
    if "schemaName" in raw or "schema_name" in raw:
        _add(faults, name_fault(check_table_name, head.schema_name, "$.schemaName"))
    seen: set[str] = set()
    for index, column in enumerate(head.primary_key_columns):
        path = f"$.primaryKeyColumns[{index}]"
        if column not in names:
            faults.append(Fault(path, describe(column), "a column of this schema"))
        elif column in seen:
            faults.append(Fault(path, f"{describe(column)} again", "each column once"))
        seen.add(column)


def _read_list(
    raw: dict[str, Any], key: str, field_type: FieldType, names: dict[str, str], faults: list[Fault]
) -> Iterator[FieldSpec]:
    singular = key[:-1]
    if key in raw and singular in raw:
        faults.append(Fault(f"$.{singular}", f"both '{key}' and '{singular}'", f"'{key}' alone"))
    used = key if key in raw else singular
    items = raw.pop(key, None)
    items = raw.pop(singular, None) if items is None else items
    if isinstance(items, dict) and used == singular:
        items = [items]
    if items is None:
        return
    if not isinstance(items, list):
        faults.append(Fault(f"$.{used}", describe(items), "a list of columns"))
        return
    for index, item in enumerate(items):
        path = f"$.{used}[{index}]"
        spec = _read_column(item, path, field_type, faults)
        _claim_name(item.get("name") if isinstance(item, dict) else None, f"{path}.name", names, faults)
        if spec is not None:
            yield spec


def _claim_name(name: object, path: str, names: dict[str, str], faults: list[Fault]) -> None:
    if not isinstance(name, str):
        return  # reported as a missing or wrong key already
    fault = name_fault(check_column_name, name, path)
    if fault is None and name in VIRTUAL_COLUMNS:
        fault = Fault(path, describe(name), "another name: this is a built-in virtual column")
    if fault is None and name in names:
        fault = Fault(path, f"{describe(name)}, which stands at {names[name]} already", "each column once")
    _add(faults, fault)
    names.setdefault(name, path)


def _read_column(item: Any, path: str, field_type: FieldType, faults: list[Fault]) -> FieldSpec | None:
    raw = dict(item) if isinstance(item, dict) else item
    if isinstance(raw, dict):
        written = raw.pop("fieldType", field_type)
        if written not in (field_type, None):
            faults.append(Fault(f"{path}.fieldType", describe(written), f"{field_type}, as the list says"))
        raw["field_type"] = field_type
        if raw.get("defaultNullValue", ...) is None:
            del raw["defaultNullValue"]
    spec = collect(FieldSpec, raw, path, faults)
    if spec is None or not isinstance(item, dict):
        return None
    return _checked(spec, item, path, faults)


def _checked(spec: FieldSpec, raw: dict[str, Any], path: str, faults: list[Fault]) -> FieldSpec:
    """Check what depends on several keys of one column; returns the column with its default in canonical form."""
    allowed = _TYPES[spec.field_type]
    type_ok = spec.data_type in allowed
    if not type_ok:
        what = "metric columns" if spec.field_type is FieldType.METRIC else f"{spec.field_type} columns"
        faults.append(Fault(f"{path}.dataType", describe(spec.data_type), f"for {what} one of " + ", ".join(allowed)))
    if not spec.single_value and spec.field_type is not FieldType.DIMENSION:
        faults.append(
            Fault(
                f"{path}.singleValueField",
                "false",
                f"true: only dimensions hold several values, not {spec.field_type} columns",
            )
        )
    if spec.field_type is FieldType.DATE_TIME:
        _check_date_time(spec, path, type_ok, faults)
    else:
        for key in ("format", "granularity"):
            if spec.field_type is not FieldType.TIME and getattr(spec, key) is not None:
                faults.append(Fault(f"{path}.{key}", describe(raw.get(key)), "this key in dateTimeFieldSpecs only"))
    if spec.child_field_specs is not None and spec.field_type is not FieldType.COMPLEX:
        faults.append(
            Fault(f"{path}.childFieldSpecs", describe(spec.child_field_specs), "this key in complexFieldSpecs only")
        )
    return _with_canonical_default(spec, path, faults)


def _with_canonical_default(spec: FieldSpec, path: str, faults: list[Fault]) -> FieldSpec:
    if spec.default_null_value is None:
        return spec
    try:
        stored = stored_from_json(spec.default_null_value, spec.data_type)
    except ValueError as error:
        faults.append(
            Fault(f"{path}.defaultNullValue", describe(spec.default_null_value), f"for {spec.data_type}: {error}")
        )
        return spec
    plain = default_null_value(spec.data_type, spec.field_type)
    # repr tells NaN from NaN and -0.0 from 0.0 the way values do not
    shown = None if repr(stored) == repr(plain) else json_from_stored(stored, spec.data_type)
    return spec.model_copy(update={"default_null_value": shown})


def _check_date_time(spec: FieldSpec, path: str, type_ok: bool, faults: list[Fault]) -> None:
    if spec.format is None:
        faults.append(Fault(f"{path}.format", MISSING, A_VALUE))
    elif _parses(parse_format, spec.format, f"{path}.format", faults) and type_ok:
        allowed = allowed_format(spec)
        if allowed is not None:
            faults.append(Fault(f"{path}.dataType", describe(spec.data_type), allowed))
    if spec.granularity is None:
        faults.append(Fault(f"{path}.granularity", MISSING, A_VALUE))
    else:
        _parses(parse_granularity, spec.granularity, f"{path}.granularity", faults)


def _parses(parse: Callable[[str], Any], text: str, path: str, faults: list[Fault]) -> bool:
    try:
        parse(text)
    except ValueError as error:
        faults.append(Fault(path, describe(text), str(error)))
        return False
    return True


def _read_time(item: Any, path: str, names: dict[str, str], faults: list[Fault]) -> FieldSpec | None:
    """`timeFieldSpec` of the old manual: incoming and outgoing granularity, or the flat form of its first days."""
    if item is None:
        return None
    if not isinstance(item, dict):
        faults.append(Fault(path, describe(item), "an object"))
        return None
    raw = dict(item)
    flat = "incomingGranularitySpec" not in raw and "name" in raw
    if flat:
        raw = {key: value for key, value in item.items() if key in ("defaultNullValue", "transformFunction")}
        raw["incomingGranularitySpec"] = {key: value for key, value in item.items() if key not in raw}
    incoming_path = path if flat else f"{path}.incomingGranularitySpec"
    incoming = _read_granularity(raw.pop("incomingGranularitySpec", ...), incoming_path, faults)
    outgoing_path = (
        f"{path}.outgoingGranularitySpec" if raw.get("outgoingGranularitySpec") is not None else incoming_path
    )
    written = raw.pop("outgoingGranularitySpec", None)
    outgoing = incoming if written is None else _read_granularity(written, outgoing_path, faults)
    if outgoing is not None:
        _claim_name(outgoing.name, f"{outgoing_path}.name", names, faults)
    if raw.get("defaultNullValue", ...) is None:
        del raw["defaultNullValue"]
    if incoming is None or outgoing is None:
        return None
    raw.pop("fieldType", None)
    raw |= {"name": outgoing.name, "data_type": outgoing.data_type, "field_type": FieldType.TIME}
    raw |= {"format": outgoing.format_text, "granularity": f"{outgoing.time_unit_size}:{outgoing.time_type}"}
    spec = collect(FieldSpec, raw, path, faults)
    if spec is None:
        return None
    spec = spec.model_copy(update={"incoming": incoming, "outgoing": None if outgoing == incoming else outgoing})
    return _with_canonical_default(spec, path, faults)


def _read_granularity(raw: Any, path: str, faults: list[Fault]) -> TimeGranularitySpec | None:
    if raw is ...:
        faults.append(Fault(path, MISSING, A_VALUE))
        return None
    spec = collect(TimeGranularitySpec, raw, path, faults)
    if spec is None:
        return None
    if spec.data_type not in _TYPES[FieldType.TIME]:
        faults.append(
            Fault(f"{path}.dataType", describe(spec.data_type), "one of " + ", ".join(_TYPES[FieldType.TIME]))
        )
    _parses(parse_format, spec.format_text, child_path(path, "timeFormat"), faults)
    return spec


def _add(faults: list[Fault], fault: Fault | None) -> None:
    if fault is not None:
        faults.append(fault)
