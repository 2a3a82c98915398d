"""Which schema changes are allowed: columns may be added, never removed or changed, since segments on disk keep the old
ones.
"""

from __future__ import annotations

from pinotpy.config.field_spec import FieldSpec
from pinotpy.config.schema import Schema


def incompatibilities(old: Schema, new: Schema) -> list[str]:
    """Why segments of `old` could not be read with `new`; empty if they can (Pinot:
    Schema.isBackwardCompatibleWith).
    """
    reasons = []
    missing = [name for name in old.field_specs if name not in new.field_specs]
    if missing:
        reasons.append(f"Missing columns: [{', '.join(missing)}]")
    changed = [
        f"{name} (old: {_describe(spec)}, new: {_describe(new.field_specs[name])})"
        for name, spec in old.field_specs.items()
        if name in new.field_specs and _meaning(spec) != _meaning(new.field_specs[name])
    ]
    if changed:
        reasons.append(f"Incompatible field specifications: [{', '.join(changed)}]")
    return reasons


def _meaning(spec: FieldSpec) -> tuple[object, ...]:
    # Two spellings of one time format are equal; granularity is documentation only.
    return spec.field_type, spec.data_type, spec.single_value, spec.date_time_format


def _describe(spec: FieldSpec) -> str:
    parts = [str(spec.field_type), str(spec.data_type)]
    if not spec.single_value:
        parts.append("multi-valued")
    if spec.is_time and spec.format is not None:
        parts.append(spec.format)
    return " ".join(parts)
