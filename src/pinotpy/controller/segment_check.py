"""What an uploaded segment must be to join a table: pure checks of its metadata against schema and table.

The reference takes almost anything and finds out on the servers (control-plane-live §5.3, §5.8); here a wrong segment
is a 4xx that lists every reason, and nothing is registered.
"""

from __future__ import annotations

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import PinotError, UserError
from pinotpy.names import check_segment_name, raw_table_name
from pinotpy.segment.metadata import ColumnMetadata, SegmentMetadata

# Times that a table may hold: 1971-01-01 to 2071-01-01, as Pinot's TimeUtils. A time outside was read in a wrong
# unit.
TIME_MIN_MS = 31_536_000_000
TIME_MAX_MS = 3_187_296_000_000
REASONS_MAX = 20


def check_segment(
    metadata: SegmentMetadata,
    schema: Schema,
    table_name_with_type: str,
    time_column_name: str | None,
    *,
    checks_years: bool = True,
    is_of_stream: bool = False,
) -> None:
    """Refuse a segment that does not fit its table.

    Args:
        checks_years: its times must lie in 1971..2071, see `checks_years_of`.
        is_of_stream: its times are not checked. Who pushes a file can mend it; a stream's record cannot be mended, and
            must not keep its partition from going on. The option rowTimeValueCheck rejects such records one by one.

    Raises:
        UserError: with every reason (at most 20 are listed).
    """
    reasons = [
        *_name_reasons(metadata, table_name_with_type),
        *_column_reasons(metadata, schema),
        *([] if is_of_stream else _time_reasons(metadata, time_column_name, checks_years)),
    ]
    if not reasons:
        return
    more = f"; and {len(reasons) - REASONS_MAX} more" if len(reasons) > REASONS_MAX else ""
    raise UserError(
        f"segment '{metadata.segment_name[:200]}' does not fit table '{table_name_with_type}': "
        + "; ".join(reasons[:REASONS_MAX])
        + more,
        segment=metadata.segment_name[:400],
        table=table_name_with_type,
    )


def checks_years_of(config: TableConfig) -> bool:
    """Whether segments of the table must lie in 1971..2071: segmentTimeValueCheck, by which they are built, too."""
    return config.ingestion is None or config.ingestion.segment_time_value_check


def missing_columns(metadata: SegmentMetadata, schema: Schema, config: TableConfig) -> tuple[str, ...]:
    """Columns of the schema that a segment lacks, and that no expression fills: its rows have no value there."""
    transforms = config.ingestion.transform_configs if config.ingestion is not None else ()
    computed = {transform.column_name for transform in transforms}
    return tuple(
        name
        for name, spec in schema.field_specs.items()
        if metadata.column(name) is None and name not in computed and not spec.transform_function
    )


def _name_reasons(metadata: SegmentMetadata, table_name_with_type: str) -> list[str]:
    reasons = []
    try:
        check_segment_name(metadata.segment_name)
    except PinotError as error:
        reasons.append(error.message)
    expected = raw_table_name(table_name_with_type)
    if raw_table_name(metadata.table_name) != expected:
        reasons.append(f"it was built for table '{metadata.table_name[:200]}', expected '{expected}'")
    return reasons


def _column_reasons(metadata: SegmentMetadata, schema: Schema) -> list[str]:
    reasons = []
    for column in metadata.columns:
        spec = schema.field_specs.get(column.name)
        if spec is None:
            reasons.append(f"column '{column.name[:100]}' is not in schema '{schema.schema_name}'")
            continue
        if (column.data_type, column.single_value) != (spec.data_type, spec.single_value):
            expected = _type_text(str(spec.data_type), spec.single_value)
            reasons.append(
                f"column '{column.name}' is {_found_text(column)}, schema '{schema.schema_name}' says {expected}"
            )
    return reasons


def _time_reasons(metadata: SegmentMetadata, time_column_name: str | None, checks_years: bool) -> list[str]:
    if time_column_name is None or metadata.num_docs == 0:
        return []
    time_range = metadata.time_range
    if time_range is None or time_range.column != time_column_name:
        actual = "none" if time_range is None else f"that of column '{time_range.column}'"
        return [f"expected the time range of the table's time column '{time_column_name}', found {actual}"]
    if not checks_years or TIME_MIN_MS <= time_range.start_ms <= time_range.end_ms <= TIME_MAX_MS:
        return []
    return [
        f"its times run from {time_range.start_raw} to {time_range.end_raw} ({time_range.start_ms} to "
        f"{time_range.end_ms} ms), "
        "allowed: 1971-01-01 to 2071-01-01; check the format of the time column, or set "
        "ingestionConfig.segmentTimeValueCheck to false"
    ]


def _found_text(column: ColumnMetadata) -> str:
    return _type_text(str(column.data_type), column.single_value)


def _type_text(data_type: str, single_value: bool) -> str:
    return data_type if single_value else f"multi-valued {data_type}"
