"""The config of a table. One definition for REST, CLI, store and documents.

`TableConfig.from_json` refuses a bad document with all its faults, also values that the reference stores without a word
although they cannot work (an unknown load mode, two sorted columns, replication 0: control-plane-live.md §5.6). Checks
that need the schema are `check_against_schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pinotpy.config import table_checks
from pinotpy.config.document import collect, read_object, refuse
from pinotpy.config.misspelt_keys import misspelt_keys
from pinotpy.config.partition_checks import assignment_faults
from pinotpy.config.schema import Schema
from pinotpy.config.table_sections import TableSections
from pinotpy.errors import Fault
from pinotpy.names import TableType, raw_table_name

DEFAULT_REPLICATION: Final = 1


class TableConfig(TableSections):
    """Config of one half (OFFLINE or REALTIME) of a table. Build it with `from_json`, which checks."""

    @classmethod
    def from_json(cls, document: str | bytes | Mapping[str, Any], *, is_stored: bool = False) -> TableConfig:
        """Read a table config from JSON text or an object; `tableName` may stand with or without its type.

        Args:
            is_stored: it was accepted before, perhaps by a release that took a key for unknown which this one takes
                for misspelt, or replica groups that cannot be for keys without effect: that is no fault then, for
                tables must outlive a change of these rules.

        Raises:
            InvalidConfigError: the document has faults; `faults` lists each with path, what was found, what is allowed.
        """
        raw = read_object(document, "table config")
        # The reference writes absent sections as null.
        raw = {key: value for key, value in raw.items() if value is not None}
        faults = [] if is_stored else misspelt_keys(TableConfig, raw)
        _fill_replication(raw)
        config = collect(TableConfig, raw, "$", faults)
        if config is not None:
            faults.extend(table_checks.faults_of(config, raw))
            # Releases before took replica groups as they were written, without effect.
            faults.extend(() if is_stored else assignment_faults(config))
        else:
            faults.extend(_faults_of_parts(raw))
        refuse("table config", faults)
        assert config is not None
        return config.model_copy(update={"table_name": raw_table_name(config.table_name)})


def _fill_replication(raw: dict[str, Any]) -> None:
    """Without a number, one server holds each segment. Consuming tables may give replicasPerPartition instead."""
    segments = raw.get("segmentsConfig")
    if not isinstance(segments, dict) or segments.get("replication") is not None:
        return
    is_realtime = str(raw.get("tableType", "")).strip().upper() == TableType.REALTIME
    if not is_realtime or segments.get("replicasPerPartition") is None:
        raw["segmentsConfig"] = segments | {"replication": DEFAULT_REPLICATION}


def _faults_of_parts(raw: dict[str, Any]) -> list[Fault]:
    """Cross checks of the sections that can stand where the document as a whole cannot."""
    patched = {
        "tableName": "unnamed",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": 1},
        "tenants": {},
        "tableIndexConfig": {},
    } | raw
    config = collect(TableConfig, patched, "$", [])
    return [] if config is None else table_checks.faults_of(config, raw)


def check_against_schema(config: TableConfig, schema: Schema) -> None:
    """Refuse a config that the schema contradicts: columns that do not exist, indexes that their type cannot have.

    Raises:
        InvalidConfigError: with every such fault.
    """
    refuse("table config", table_checks.faults_against_schema(config, schema))
