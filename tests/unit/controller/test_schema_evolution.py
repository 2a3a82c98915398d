"""Proves which schema changes keep old segments readable; the expectations are the table in Pinot's documents (columns
may be added, nothing else).
"""

from __future__ import annotations

from typing import Any

import pytest

from pinotpy.config.schema import Schema
from pinotpy.controller.schema_evolution import incompatibilities


def schema(*dimensions: dict[str, Any], metric: str = "LONG", time_format: str | None = None) -> Schema:
    document: dict[str, Any] = {
        "schemaName": "mini",
        "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}, *dimensions],
        "metricFieldSpecs": [{"name": "m", "dataType": metric}],
    }
    if time_format:
        document["dateTimeFieldSpecs"] = [
            {"name": "t", "dataType": "LONG", "format": time_format, "granularity": "1:DAYS"}
        ]
    return Schema.from_json(document)


def test_new_columns_and_other_spellings_are_compatible() -> None:
    old = schema(time_format="1:MILLISECONDS:EPOCH")
    new = schema({"name": "b", "dataType": "INT"}, time_format="EPOCH|MILLISECONDS|1")
    assert incompatibilities(old, old) == []
    assert incompatibilities(old, new) == []


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (schema(metric="INT"), "Incompatible field specifications: [m (old: METRIC LONG, new: METRIC INT)]"),
        (
            schema({"name": "tags", "dataType": "STRING"}),
            "Incompatible field specifications: [tags (old: DIMENSION STRING multi-valued, new: DIMENSION STRING)]",
        ),
        (schema(), "Missing columns: [tags]"),
    ],
)
def test_changed_and_missing_columns_are_not(new: Schema, reason: str) -> None:
    old = schema({"name": "tags", "dataType": "STRING", "singleValueField": False})
    assert reason in incompatibilities(old, new)


def test_another_meaning_of_the_times_is_not() -> None:
    (reason,) = incompatibilities(schema(time_format="1:MILLISECONDS:EPOCH"), schema(time_format="1:SECONDS:EPOCH"))
    assert (
        reason
        == "Incompatible field specifications: [t (old: DATE_TIME LONG 1:MILLISECONDS:EPOCH, new: DATE_TIME LONG "
        "1:SECONDS:EPOCH)]"
    )
