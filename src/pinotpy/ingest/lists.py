"""Multi-valued columns: cast of the values below the lists, nulls and bad values mapped back to their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.config.field_spec import FieldSpec
from pinotpy.ingest.casting import cast_values
from pinotpy.ingest.conversion import Bad, Converted, by_branch, no_rows
from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.sanitizing import sanitize


def cast_lists(values: pa.Array, spec: FieldSpec) -> Converted:
    """list<storage type> of a multi-valued column.

    A single value is a list of one; null values inside lists are left out (Pinot: DataTypeTransformer); an empty list
    is null.
    """
    num_rows = len(values)
    item_type = spec.data_type.arrow
    values = plain(values)
    if pa.types.is_union(values.type):
        return by_branch(values, lambda branch: cast_lists(branch, spec), pa.list_(item_type))
    if pa.types.is_null(values.type):
        return Converted(pa.nulls(num_rows, pa.list_(item_type)))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type):
        items = values.flatten()
        parents: Int64Array = np.asarray(pc.list_parent_indices(values), dtype=np.int64)
    else:
        items = values
        parents = np.arange(num_rows, dtype=np.int64)
    valid = np.asarray(items.type_codes) > 0 if pa.types.is_union(items.type) else np.asarray(items.is_valid())
    dropped = no_rows()
    if not valid.all():
        dropped = parents[~valid] if items is not values else dropped
        parents = parents[valid]
        items = items.filter(pa.array(valid))
    cast = cast_values(items, spec.data_type, spec.date_time_format)
    clean = sanitize(cast.array, spec).after(cast)
    items = plain(clean.array)
    counts = np.bincount(parents, minlength=num_rows)
    offsets = np.zeros(num_rows + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    lists = pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(counts == 0))
    bad = [Bad(int(parents[bad.row]), bad.cause) for bad in clean.bad]
    return Converted(lists, bad, parents[clean.cut], parents[clean.replaced], dropped)
