"""Whole Arrow arrays as JSON texts, in the one form of `json_text`: no Python a row.

Structs and maps are objects, lists arrays; keys and items keep their order. Doubles, decimals and times are written
once a distinct value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.ingest import json_text
from pinotpy.ingest.conversion import shortest_doubles
from pinotpy.ingest.list_arrays import lists_of_lengths, map_entries, with_items
from pinotpy.ingest.time_values import iso_texts

_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))


def json_texts(values: pa.Array, *, omit_nulls: bool = False) -> pa.Array:
    """A JSON text a value; null where the value is null, "null" for nulls within.

    omit_nulls: fields of structs without a value are left out: of JSON it is not known whether an object had them.

    Raises:
        ValueError: a value that JSON cannot hold: NaN, infinities, times beyond the year 9999, a key twice in a map.
    """
    texts = _written(values, omit_nulls)
    return pc.if_else(values.is_null(), pa.scalar(None, pa.string()), texts) if values.null_count else texts


def _written(values: pa.Array, omit_nulls: bool) -> pa.Array:
    """Without nulls: they are written."""
    kind = values.type
    if pa.types.is_null(kind):
        return pa.repeat(pa.scalar("null"), len(values))
    if pa.types.is_union(kind):
        return _unions(values, omit_nulls)
    if pa.types.is_dictionary(kind):
        return pc.fill_null(_written(values.dictionary, omit_nulls).take(values.indices), "null")
    if pa.types.is_struct(kind):
        texts = _objects(values, omit_nulls)
    elif pa.types.is_map(kind):
        texts = _maps(values, omit_nulls)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        texts = _lists(values, omit_nulls)
    else:
        texts = _scalars(values)
    return pc.if_else(values.is_null(), "null", texts) if values.null_count else texts


def _objects(values: pa.Array, omit_nulls: bool) -> pa.Array:
    pieces: list[Any] = []
    if omit_nulls:
        for index, name in enumerate(values.type.names):
            field = values.field(index)
            piece = pc.binary_join_element_wise(
                f",{json.dumps(name, ensure_ascii=False)}:", _written(field, omit_nulls), ""
            )
            pieces.append(pc.if_else(field.is_null(), "", piece))
        return _braced(pc.binary_join_element_wise(*pieces, "")) if pieces else pa.repeat(pa.scalar("{}"), len(values))
    for index, name in enumerate(values.type.names):
        pieces += [
            f"{',' if index else '{'}{json.dumps(name, ensure_ascii=False)}:",
            _written(values.field(index), omit_nulls),
        ]
    if not pieces:
        return pa.repeat(pa.scalar("{}"), len(values))
    return pc.binary_join_element_wise(*pieces, "}", "")


def _unions(values: pa.Array, omit_nulls: bool) -> pa.Array:
    """Dense ones: the texts of all branches, in the rows that have them."""
    branches = [_written(values.field(number), omit_nulls) for number in range(values.type.num_fields)]
    begins = np.cumsum([0, *(len(branch) for branch in branches)])[np.asarray(values.type_codes)]
    return pa.concat_arrays(branches).take(pa.array(begins + np.asarray(values.offsets)))


def _braced(joined: pa.Array) -> pa.Array:
    """`,"a":1,"b":2` → `{"a":1,"b":2}`."""
    return pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")


def _lists(values: pa.Array, omit_nulls: bool) -> pa.Array:
    joined = pc.fill_null(pc.binary_join(with_items(values, _written(values.flatten(), omit_nulls)), ","), "")
    return pc.binary_join_element_wise("[", joined, "]", "")


def _maps(values: pa.Array, omit_nulls: bool) -> pa.Array:
    lengths, keys, items = map_entries(values)
    _refuse_equal_keys(lengths, keys)
    names = _scalars(keys if pa.types.is_string(keys.type) else keys.cast(pa.string()))
    pairs = pc.binary_join_element_wise(names, ":", _written(items, omit_nulls), "")
    return pc.binary_join_element_wise("{", pc.binary_join(lists_of_lengths(lengths, pairs), ","), "}", "")


def _refuse_equal_keys(lengths: Int64Array, keys: pa.Array) -> None:
    encoded = keys.dictionary_encode()
    numbers = np.repeat(np.arange(len(lengths)), lengths) * max(len(encoded.dictionary), 1) + np.asarray(
        encoded.indices
    )
    if len(np.unique(numbers)) < len(numbers):
        raise ValueError("a map with a key twice")


def _scalars(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return values.cast(pa.string())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        values = values.cast(pa.string())
    if pa.types.is_string(values.type):
        return _quoted(values)
    if pa.types.is_temporal(kind):
        converted = iso_texts(values)
        if converted.bad:
            raise ValueError(converted.bad[0].cause)
        return _quoted(converted.array)
    return _by_unique(shortest_doubles(values), json_text.dumps)


def _quoted(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, '["\\\\\\x00-\\x1f]')).as_py():
        for mark, escape in _ESCAPES:
            texts = pc.replace_substring(texts, mark, escape)
        if pc.any(pc.match_substring_regex(texts, "[\\x00-\\x1f]")).as_py():
            # The quotes and strokes of these texts are escaped already.
            texts = _by_unique(texts, _without_controls)
    return pc.binary_join_element_wise('"', texts, '"', "")


def _without_controls(text: str) -> str:
    return "".join(json.dumps(letter)[1:-1] if letter < " " else letter for letter in text)


def _by_unique(values: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    encoded = values.dictionary_encode()
    texts = [None if value is None else write(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)
