"""`segmentNameGeneratorSpec` → what makes the names of a job's segments, and what tells those of one time apart: a tag
or a number.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from pinotpy.config.date_time import TimeFormat
from pinotpy.config.document import describe, refuse
from pinotpy.config.schema import Schema
from pinotpy.config.segments_config import PushFrequency
from pinotpy.config.table import TableConfig
from pinotpy.errors import MISSING, Fault, UserError
from pinotpy.ingest.jobs.job_parts import SegmentNameGeneratorSpec
from pinotpy.ingest.segment_names import (
    FixedName,
    InputFileNames,
    NormalizedDateNames,
    SegmentNameGenerator,
    SimpleNames,
    compile_pattern,
)
from pinotpy.names import check_segment_name

TYPES: Final = ("simple", "normalizedDate", "fixed", "inputFile")
# 48 bits: among 50,000 files, one chance in 200,000 that two of them share a tag. Then the job ends and says so.
_TAG_DIGITS: Final = 12
_PATH: Final = "$.segmentNameGeneratorSpec"
_NAME, _PREFIX, _POSTFIX = "segment.name", "segment.name.prefix", "segment.name.postfix"
_EXCLUDE_ID, _UUID = "exclude.sequence.id", "append.uuid.to.segment.name"
_GLOBAL_ID, _LOCAL_ID = "use.global.directory.sequence.id", "local.directory.sequence.id"
# One setting under the names that it had.
_EXCLUDE_TIMES: Final = (
    "omit.timestamps.in.segment.name",
    "exclude.timestamps.in.segment.name",
    "exclude.time.in.segment.name",
)
_PATTERN, _TEMPLATE = "file.path.pattern", "segment.name.template"
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "simple": (_POSTFIX, _EXCLUDE_ID, *_EXCLUDE_TIMES, _UUID),
    "normalizedDate": (_PREFIX, _POSTFIX, _EXCLUDE_ID, _UUID),
    "fixed": (_NAME,),
    "inputFile": (_PATTERN, _TEMPLATE, _UUID),
}
_NUMBERING: Final = (_GLOBAL_ID, _LOCAL_ID)
_FLAGS: Final = frozenset([_EXCLUDE_ID, _UUID, _GLOBAL_ID, _LOCAL_ID, *_EXCLUDE_TIMES])


def segment_name_generator(
    spec: SegmentNameGeneratorSpec, schema: Schema, table_config: TableConfig | None
) -> SegmentNameGenerator:
    """The generator of a job.

    Without a type: fixed where segment.name stands, inputFile where file.path.pattern stands, normalizedDate where the
    time column holds dates as text, else simple (Pinot: SegmentGeneratorConfig.inferSegmentNameGeneratorType).

    Raises:
        InvalidConfigError: an unknown type or key, a key of another type, a missing one, a part that no name can have.
    """
    kind = _type(spec, schema, table_config)
    refuse("segment names", list(_faults(spec, kind)))
    configs = spec.configs

    def flag(*names: str) -> bool:
        return any(configs.get(name, "").strip().lower() == "true" for name in names)

    match kind:
        case "fixed":
            return FixedName(configs[_NAME])
        case "inputFile":
            return InputFileNames(configs[_PATTERN], configs[_TEMPLATE], flag(_UUID))
        case "normalizedDate":
            append, frequency = push_habits(table_config)
            return NormalizedDateNames(
                configs.get(_PREFIX), append, frequency, flag(_EXCLUDE_ID), configs.get(_POSTFIX), flag(_UUID)
            )
    return SimpleNames(configs.get(_POSTFIX), flag(_EXCLUDE_ID), flag(*_EXCLUDE_TIMES), flag(_UUID))


def numbers_by_folder(spec: SegmentNameGeneratorSpec) -> bool | None:
    """Whether sequence ids begin anew in each folder (and each time bucket) or run through; None: names have tags, not
    numbers.

    Numbers are asked for by `use.global.directory.sequence.id`, or `local.directory.sequence.id` of older jobs. A file
    that is added or removed changes those of the files after it, and with them the names.
    """
    configs = spec.configs
    if _GLOBAL_ID in configs:
        return configs[_GLOBAL_ID].strip().lower() != "true"
    if _LOCAL_ID in configs:
        return configs[_LOCAL_ID].strip().lower() == "true"
    return None


def tag_of(origin: str) -> str:
    """What stands for a file (its path below the input's folder) or a part of a group in a name: the same on every
    machine and in every run.
    """
    return hashlib.sha256(os.fsencode(origin)).hexdigest()[:_TAG_DIGITS]


def push_habits(table_config: TableConfig | None) -> tuple[bool, PushFrequency | None]:
    """Whether pushes append, and how often they come; the newer place of both settings wins (Pinot:
    IngestionConfigUtils).
    """
    if table_config is None:
        return True, None
    append, frequency = table_config.segments.is_append, table_config.segments.segment_push_frequency
    batch = table_config.ingestion.batch_ingestion_config if table_config.ingestion is not None else None
    if batch is not None:
        append = batch.segment_ingestion_type.value == "APPEND" if batch.segment_ingestion_type is not None else append
        frequency = batch.segment_ingestion_frequency or frequency
    return append, frequency


def _type(spec: SegmentNameGeneratorSpec, schema: Schema, table_config: TableConfig | None) -> str:
    if spec.type is not None:
        return next((name for name in TYPES if name.lower() == spec.type.replace("-", "").strip().lower()), spec.type)
    if _NAME in spec.configs:
        return "fixed"
    if _PATTERN in spec.configs:
        return "inputFile"
    time_column = schema.field_specs.get(
        (table_config.segments.time_column_name if table_config is not None else None) or ""
    )
    time_format = time_column.date_time_format if time_column is not None else None
    return (
        "normalizedDate" if time_format is not None and time_format.kind is TimeFormat.SIMPLE_DATE_FORMAT else "simple"
    )


def _faults(spec: SegmentNameGeneratorSpec, kind: str) -> Iterator[Fault]:
    if kind not in TYPES:
        yield Fault(f"{_PATH}.type", describe(kind), "one of " + ", ".join(TYPES))
        return
    known = {*(key for keys in _KEYS.values() for key in keys), *_NUMBERING}
    for key, value in spec.configs.items():
        path = f'{_PATH}.configs["{key}"]'
        if key not in known:
            near = get_close_matches(key, sorted(known), 1, 0.7)
            yield Fault(
                path,
                "an unknown key",
                f"'{near[0]}' (did you mean that?)" if near else "one of " + ", ".join(sorted(known)),
            )
        elif key not in _KEYS[kind] and key not in _NUMBERING:
            yield Fault(
                path,
                f"a key of other names than {kind}",
                "for " + " or ".join(name for name, keys in _KEYS.items() if key in keys),
            )
        elif key in _FLAGS and value.strip().lower() not in ("true", "false"):
            yield Fault(path, describe(value), "true or false")
        elif key in (_NAME, _PREFIX, _POSTFIX):
            try:
                check_segment_name(value.strip())
            except UserError as error:
                yield Fault(path, describe(value), error.message)
    for key in {"fixed": (_NAME,), "inputFile": (_PATTERN, _TEMPLATE)}.get(kind, ()):
        if key not in spec.configs:
            yield Fault(f'{_PATH}.configs["{key}"]', MISSING, f"a value: {kind} names need it")
    if kind == "inputFile" and _PATTERN in spec.configs:
        try:
            compile_pattern(spec.configs[_PATTERN], _PATTERN)
        except UserError as error:
            yield Fault(f'{_PATH}.configs["{_PATTERN}"]', describe(spec.configs[_PATTERN]), error.message)
