"""Proves what a stored range index refuses: damage with right CRCs, configs that cannot be, and that sorted columns
have none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from built_segments import config_of, opened, schema_of
from text_oracle import KeptBuffers

from pinotpy.errors import InvalidConfigError, SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.index.range import check_range_index, check_range_sizes

SCHEMA = schema_of({"id": "INT", "raw": "DOUBLE", "up": "INT", "text": "STRING"})
ROWS: dict[str, list[Any]] = {
    "id": [n * 7919 % 1000 for n in range(2000)],
    "raw": [n * 7919 % 1000 / 8 for n in range(2000)],
    "up": list(range(2000)),
    "text": [str(n % 77) for n in range(2000)],
}
CONFIG = config_of(
    {"rangeIndexColumns": ["id", "up"], "noDictionaryColumns": ["raw"]},
    fieldConfigList=[{"name": "raw", "indexType": "RANGE"}],
)


def wrong(what: str, expected: object, found: object) -> SegmentCorruptError:
    return SegmentCorruptError(what, file="f", expected=expected, found=found)


def test_columns_that_are_named_have_one_and_sorted_ones_need_none() -> None:
    segment = opened(SCHEMA, CONFIG, ROWS)
    assert {name: layout.RANGE_DOCS in {b.kind for b in segment.column(name).metadata.buffers} for name in ROWS} == {
        "id": True,
        "raw": True,
        "up": False,
        "text": False,
    }


def test_a_raw_text_has_no_range_index() -> None:
    with pytest.raises(InvalidConfigError, match="'text', a STRING column without dictionary"):
        resolve_indexing(SCHEMA, config_of({"rangeIndexColumns": ["text"], "noDictionaryColumns": ["text"]}))


def kept(kinds: Any, arrays: Any) -> Any:
    buffers = KeptBuffers()
    for kind, array in zip(kinds, arrays, strict=True):
        buffers.append(kind, array)
    return buffers


FAULTS: dict[str, Any] = {
    "bounds": lambda b, o, d: (b[::-1].copy(), o, d),
    "offsets": lambda b, o, d: (b, np.concatenate([o[:1], o[1:] + np.uint32(1)]).astype(np.uint32), d),
    "descending offsets": lambda b, o, d: (b, np.concatenate([o[:1], o[2:3], o[1:2], o[3:]]).astype(np.uint32), d),
    "docs beyond": lambda b, o, d: (b, o, d + np.int32(1)),
    "docs below": lambda b, o, d: (b, o, d - np.int32(1)),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["id", "raw"])
def test_a_damaged_index_is_refused(fault: str, name: str) -> None:
    column = opened(SCHEMA, CONFIG, ROWS).column(name)
    kinds = (layout.RANGE_BOUNDS, layout.RANGE_OFFSETS, layout.RANGE_DOCS)
    whole = [
        column._buffers.view(kind, dtype)
        for kind, dtype in zip(kinds, ("<u4" if name == "id" else "<f8", "<u4", "<i4"), strict=True)
    ]
    check_range_index(column.metadata, kept(kinds, whole), 2000, wrong)
    with pytest.raises(SegmentCorruptError, match="range index"):
        check_range_index(column.metadata, kept(kinds, FAULTS[fault](*whole)), 2000, wrong)


@pytest.mark.parametrize(
    "change", [{layout.RANGE_DOCS: None}, {layout.RANGE_BOUNDS: 4}, {layout.RANGE_DOCS: 3}, {layout.RANGE_DOCS: 8004}]
)
def test_sizes_that_do_not_fit_together_are_refused(change: dict[str, int | None]) -> None:
    metadata = opened(SCHEMA, CONFIG, ROWS).column("id").metadata
    sizes = {entry.kind: entry.size_bytes for entry in metadata.buffers}
    check_range_sizes(metadata, sizes, wrong)
    with pytest.raises(SegmentCorruptError, match="range index"):
        check_range_sizes(metadata, {k: v for k, v in (sizes | change).items() if v is not None}, wrong)
