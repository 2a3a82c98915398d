"""Length limits of STRING, JSON and BYTES, and the cut of a STRING at its first NUL. Source: Pinot's
SanitizationTransformer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.config.field_spec import FieldSpec, MaxLengthExceedStrategy
from pinotpy.data_types import DataType
from pinotpy.ingest.conversion import Bad, Converted

_LIMITED = (DataType.STRING, DataType.JSON, DataType.BYTES)


def sanitize(values: pa.Array, spec: FieldSpec) -> Converted:
    """Apply `maxLength` (characters of text, bytes of BYTES) by its strategy to a flat array or a dictionary of
    text.
    """
    if spec.data_type not in _LIMITED:
        return Converted(values)
    if pa.types.is_dictionary(values.type):
        return _sanitize_dictionary(values, spec)
    if spec.data_type is DataType.STRING and pc.max(pc.find_substring(values, "\x00")).as_py() not in (None, -1):
        return _without_nul(values, spec)
    length = pc.binary_length(values) if spec.data_type is DataType.BYTES else pc.utf8_length(values)
    longest = pc.max(length).as_py()
    if longest is None or longest <= spec.max_length:
        return Converted(values)
    match spec.length_strategy:
        case MaxLengthExceedStrategy.NO_ACTION:
            return Converted(values)
        case MaxLengthExceedStrategy.TRIM_LENGTH:
            cut = pc.binary_slice if spec.data_type is DataType.BYTES else pc.utf8_slice_codeunits
            return Converted(cut(values, 0, spec.max_length), cut=_rows(pc.greater(length, spec.max_length)))
    too_long = pc.fill_null(pc.greater(length, spec.max_length), False)
    if spec.length_strategy is MaxLengthExceedStrategy.SUBSTITUTE_DEFAULT_VALUE:
        default = spec.default_null_stored
        assert isinstance(default, bytes)
        scalar = (
            pa.scalar(default, pa.binary())
            if spec.data_type is DataType.BYTES
            else pa.scalar(default.decode(), pa.string())
        )
        return Converted(pc.if_else(too_long, scalar, values), replaced=_rows(too_long))
    rows = _rows(too_long)
    unit = "bytes" if spec.data_type is DataType.BYTES else "characters"
    bad = [Bad(int(row), f"{length[int(row)].as_py()} {unit} long, allowed are {spec.max_length}") for row in rows]
    return Converted(values, bad)


def _without_nul(values: pa.Array, spec: FieldSpec) -> Converted:
    """A text with a NUL is treated like one that is too long; trimmed, and with NO_ACTION too, it ends before the
    NUL.
    """
    has_nul = pc.fill_null(pc.greater_equal(pc.find_substring(values, "\x00"), 0), False)
    match spec.length_strategy:
        case MaxLengthExceedStrategy.SUBSTITUTE_DEFAULT_VALUE:
            default = spec.default_null_stored
            assert isinstance(default, bytes)
            text = default.decode().partition("\x00")[0]
            rest = sanitize(pc.if_else(has_nul, pa.scalar(text, pa.string()), values), spec)
            return replace(rest, replaced=np.union1d(_rows(has_nul), rest.replaced))
        case MaxLengthExceedStrategy.ERROR:
            rest = sanitize(pc.if_else(has_nul, pa.scalar(None, pa.string()), values), spec)
            return Converted(
                rest.array, [*(Bad(int(row), "a NUL character in the text") for row in _rows(has_nul)), *rest.bad]
            )
    # (?s): a NUL may precede a line end
    rest = sanitize(pc.replace_substring_regex(values, pattern="(?s)\x00.*", replacement=""), spec)
    return replace(rest, cut=np.union1d(_rows(has_nul), rest.cut))


def _rows(mask: pa.Array) -> Int64Array:
    return np.flatnonzero(np.asarray(pc.fill_null(mask, False)))


def _sanitize_dictionary(values: pa.DictionaryArray, spec: FieldSpec) -> Converted:
    """The dictionary's texts stand for all rows; only where one of them changes are the rows looked at."""
    cleaned = sanitize(values.dictionary, spec)
    if not cleaned.bad and cleaned.array.equals(values.dictionary):
        return Converted(values)
    return sanitize(values.dictionary_decode(), spec)
