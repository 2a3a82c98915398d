"""Reads schema and table config from files, and reports the faults of both together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinotpy.config.document import parse_json
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig, check_against_schema
from pinotpy.errors import Fault, InvalidConfigError, UserError
from pinotpy.ingest.transform_checks import check_expressions


@dataclass(frozen=True, slots=True)
class FileFault:
    """A fault and the file that it is in. `summary` says what the document is and what became of it."""

    file: Path
    summary: str
    fault: Fault | None  # None: the summary says it


@dataclass(frozen=True, slots=True)
class Documents:
    """What the files say; a document with faults, or that was not asked for, is None."""

    schema: Schema | None
    table_config: TableConfig | None
    faults: tuple[FileFault, ...]

    def refuse(self) -> None:
        """Raise InvalidConfigError with the faults of all files, if there are any."""
        if self.faults:
            raise InvalidConfigError(
                "\n".join(fault_lines(self.faults)), documents=[str(fault.file) for fault in self.faults]
            )


def read_documents(
    schema_file: Path | None, table_config_file: Path | None, *, checks_plug_ins: bool = False
) -> Documents:
    """Read and check each file that is given, then the table config against the schema where both can stand.

    Args:
        checks_plug_ins: also whether the table can be read of its stream, with the plug-ins of this machine.

    Raises:
        UserError: a file cannot be read.
    """
    faults: list[FileFault] = []
    schema = table_config = None
    if schema_file is not None:
        try:
            schema = Schema.from_json(_text(schema_file))
        except InvalidConfigError as error:
            faults += _in_file(error, schema_file)
    if table_config_file is not None:
        try:
            table_config = TableConfig.from_json(_text(table_config_file))
            if schema is not None:
                check_against_schema(table_config, schema)
                check_expressions(schema, table_config)
            if checks_plug_ins:
                _check_as_controller(table_config, schema)
        except InvalidConfigError as error:
            faults += _in_file(error, table_config_file)
    return Documents(schema, table_config, tuple(faults))


def _check_as_controller(config: TableConfig, schema: Schema | None) -> None:
    """What a controller checks of a table besides, and for which it needs no cluster. Raises InvalidConfigError."""
    from pinotpy.controller.periods import ages_of, kept_after_deletion_ms

    try:
        ages_of(config)
        kept_after_deletion_ms(config)
    except UserError as error:
        raise InvalidConfigError(error.message) from None
    if (stream := config.stream_config) is not None:
        from pinotpy.clock import SystemClock
        from pinotpy.controller.realtime.stream_plug_ins import check_decoder, checked_factory

        checked_factory(config, stream, SystemClock())
        if schema is not None:
            check_decoder(stream, config, schema)


def read_object(file: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file. `what` names the document in messages ("reader config")."""
    try:
        document = parse_json(_text(file), what)
    except InvalidConfigError as error:
        raise InvalidConfigError("\n".join(fault_lines(_in_file(error, file)))) from error
    if not isinstance(document, dict):
        raise UserError(f"{what} '{file}' must hold a JSON object, found a {type(document).__name__}")
    return document


def fault_lines(faults: tuple[FileFault, ...] | list[FileFault]) -> list[str]:
    """A headline for each file and, below it, a line for each of its faults."""
    lines: list[str] = []
    last: tuple[Path, str] | None = None
    for fault in faults:
        if (fault.file, fault.summary) != last:
            lines.append(f"'{fault.file}': {fault.summary}")
            last = (fault.file, fault.summary)
        if fault.fault is not None:
            lines.append(f"  {fault.fault}")
    return lines


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"'{file}' cannot be read: {(error.strerror or str(error)).lower()}") from error


def _in_file(error: InvalidConfigError, file: Path) -> list[FileFault]:
    summary = error.message.split("\n", 1)[0].rstrip(":")
    return [FileFault(file, summary, fault) for fault in error.faults or (None,)]
