"""Indexes of every kind on random columns, built with the segments or by a reload, and prices that force each way of
using them: small test tables would otherwise always be scanned.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pinotpy.config.table import TableConfig
from pinotpy.query.filter import index_choice
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.immutable import ImmutableSegment, open_segment
from pinotpy.segment.index import inverted
from pinotpy.segment.reload import plan_reload, reload_segment

WAYS = ("as priced", "lists", "bits")


def random_indexes(seed: str, columns: Sequence[tuple[str, str]], raw: Sequence[str]) -> dict[str, Any]:
    """Keys of tableIndexConfig for columns by (name, type); a function of `seed` alone, so that the other choices of a
    test stay what they are.
    """
    rng = random.Random(seed)
    share = rng.choice([0.0, 0.4, 1.0])
    ranged = [
        name
        for name, kind in columns
        if (name not in raw or kind not in ("STRING", "BYTES", "BIG_DECIMAL")) and rng.random() < share
    ]
    filtered = [name for name, _ in columns if rng.random() < share]
    return {
        "rangeIndexColumns": ranged,
        "bloomFilterColumns": filtered,
        "bloomFilterConfigs": {name: {"fpp": 0.3, "maxSizeInBytes": 32} for name in filtered if rng.random() < 0.3},
        "columnMinMaxValueGeneratorMode": rng.choice(["ALL", "ALL", "NONE", "NON_METRIC"]),
    }


@contextmanager
def index_way(way: str) -> Iterator[None]:
    """Queries use lists, or bits, wherever an index is, however few docs there are."""
    changes: dict[str, float] = {"_NS_OVERHEAD": 0.0}
    if way == "lists":
        changes["_NS_SCAN_DOC"] = 1e6
    elif way == "bits":
        changes |= {"_NS_LIST_DOC": 1e6, "_NS_BITMAP_DOC": -1e6}
    before = {name: getattr(index_choice, name) for name in changes}
    for name, price in changes.items():
        setattr(index_choice, name, price)
    try:
        yield
    finally:
        for name, price in before.items():
            setattr(index_choice, name, price)


@contextmanager
def inverted_form(number: int) -> Iterator[None]:
    """Inverted indexes built meanwhile: in the form that their bytes speak for, all as lists, or all as Roaring
    bitmaps.
    """
    changes = ({}, {"_SHARE_OF_LISTS": 0.0}, {"_SHARE_OF_LISTS": float("inf"), "_MEAN_DOCS_MIN": 0})[number % 3]
    before = {name: getattr(inverted, name) for name in changes}
    for name, value in changes.items():
        setattr(inverted, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(inverted, name, value)


def without_indexes(config: TableConfig) -> TableConfig:
    """The config as it was before somebody named indexes."""
    keys = {
        "inverted_index_columns": (),
        "range_index_columns": (),
        "bloom_filter_columns": (),
        "bloom_filter_configs": None,
        "json_index_columns": (),
    }
    return config.model_copy(update={"indexing": config.indexing.model_copy(update=keys)})


def reloaded(segment: ImmutableSegment, schema: Any, config: TableConfig) -> ImmutableSegment:
    """The segment after a reload with `config`."""
    indexing = resolve_indexing(schema, config)
    plan = plan_reload(segment, schema, indexing)
    if plan.is_empty:
        return segment
    reload_segment(segment, plan, indexing)
    segment.close()
    return open_segment(segment.directory)
