"""Whether the expressions of a table can be evaluated, for those who store or check documents and ingest nothing."""

from __future__ import annotations

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig


def check_expressions(schema: Schema, table_config: TableConfig) -> None:
    """Check every transformFunction and the filterFunction: syntax, functions, columns.

    Raises:
        InvalidConfigError: with every expression that cannot be evaluated.
    """
    ingestion = table_config.ingestion
    has_own = ingestion is not None and (ingestion.transform_configs or ingestion.filter_config is not None)
    if not has_own and not any(spec.transform_function for spec in schema.field_specs.values()):
        return
    # Arrow and the functions are loaded for tables with expressions only: a controller has no other use for them.
    from pinotpy.ingest.transforms import TransformPlan

    TransformPlan(schema, table_config)
