"""Everything that a first query would have to compile, run once on tiny segments before a daemon says that it is
ready.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.kernels.aggregate import distinct_bitmaps, distinct_pairs, distinct_rows, double_digits, rank_select, ranks
from pinotpy.kernels.codec import bit_packing
from pinotpy.kernels.filter import dictionary_lookup, posting_bitmaps, postings, short_postings
from pinotpy.kernels.group import (
    compact_merge,
    merge_rows,
    number_keys,
    radix_partition,
    shared_codes,
    shared_direct_table,
    thread_hash_table,
    top_n_groups,
)
from pinotpy.kernels.runtime import partitioning
from pinotpy.kernels.scan import program
from pinotpy.kernels.sketch import hyperloglog, murmur, register_hashes
from pinotpy.kernels.text import block_blooms, segment_text_codes, substring_search, text_codes
from pinotpy.kernels.vector import gather
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.aggregate import sketches as hashes_of_texts
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import open_segment

# Values of this many segments are gathered by kernels of their own (operators.rows).
_SEGMENTS: Final = tuple(f"warm_{i}" for i in range(5))
_TYPES: Final = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.STRING, DataType.BIG_DECIMAL)
_VALUES: Final[dict[DataType, list[Any]]] = {
    DataType.STRING: ["a", "b", None, "d"],
    DataType.BIG_DECIMAL: [encode_decimal(Decimal(1)), encode_decimal(Decimal(2)), None, encode_decimal(Decimal(4))],
}
_OTHER_COLUMNS: Final = {
    "mv": pa.array([[1, 2], [2], [1], [3]], pa.list_(pa.int32())),
    "ascending": pa.array([1, 2, 3, 4], pa.int32()),
}
_SQL: Final = (
    "SELECT COUNT(*), SUM({n}), MIN({n}), MAX({n}), AVG({n}), MINMAXRANGE({n}), DISTINCTCOUNT({n}) FROM warm WHERE "
    "{n} > 1 AND {n} IN (1, 4) OR {n} IS NULL",
    "SELECT {n}, COUNT(*), SUM({n}), MAX({n}), DISTINCTCOUNT({n}) FROM warm WHERE {n} <> 3 GROUP BY {n} ORDER BY {n}",
    "SELECT s, COVAR_POP({n}, d), LASTWITHTIME(s, l, 'STRING') FILTER(WHERE {n} > 1) FROM warm GROUP BY s",
    "SELECT KURTOSIS(l), KURTOSIS(d), HISTOGRAM(d, 0, 4, 2) FROM warm",
    "SELECT * FROM warm WHERE {n} NOT IN (7, 8) ORDER BY {n} DESC, s LIMIT 9",
)
_TEXT_SQL: Final = (
    "SELECT {t}, COUNT(*), DISTINCTCOUNT({t}) FROM warm WHERE {t} IN ('a', 'd') OR {t} > 'c' OR {t} LIKE 'a%' GROUP "
    "BY {t}, d ORDER BY {t}",
    "SELECT DISTINCT {t} FROM warm WHERE {t} = 'a' ORDER BY {t} LIMIT 3",
    "SELECT {t} FROM warm WHERE {t} IN ('a', 'd') AND ascending > 1 ORDER BY {t}, d LIMIT 2",
    "SELECT COUNT(*) FROM warm WHERE {t} LIKE '%a' OR {t} LIKE '%b%' OR REGEXP_LIKE({t}, 'ab[0-9]')",
)
# Answered by a star-tree, whose records are walked and added up by kernels of their own.
_TREE: Final = {
    "dimensionsSplitOrder": ["s", "ascending"],
    "functionColumnPairs": ["SUM__l", "SUM__d", "MINMAXRANGE__d", "MINMAXRANGE__l"],
    "maxLeafRecords": 1,
}
_TREE_SQL: Final = (
    "SELECT SUM(l), SUM(d), MIN(d), MAX(l) FROM warm WHERE s IN ('a', 'd') AND ascending > 1",
    "SELECT s, SUM(l), AVG(d), MAX(d) FROM warm WHERE ascending <> 2 GROUP BY s",
)
_PQL: Final = ("SELECT COUNT(*), SUM(raw_d) FROM warm WHERE mv = 2 GROUP BY mv TOP 5", "SELECT s, mv FROM warm LIMIT 2")


def _no_step(done: int, total: int) -> None:
    """Nobody wants to know how far it is."""


def warm(step: Callable[[int, int], None] = _no_step) -> None:
    """Build segments of four rows in memory, of every stored type with and without dictionary, and query them.

    step: called after each query, with the number of those that are done and of all.
    """
    columns = {data_type.value[0].lower(): data_type for data_type in _TYPES}
    plain = [{"name": name, "dataType": data_type.value} for name, data_type in columns.items()]
    raw = [{"name": f"raw_{name}", "dataType": data_type.value} for name, data_type in columns.items()]
    schema = Schema.from_json(
        {
            "schemaName": "warm",
            "dimensionFieldSpecs": [
                *plain,
                *raw,
                {"name": "ascending", "dataType": "INT"},
                {"name": "mv", "dataType": "INT", "singleValueField": False},
            ],
        }
    )
    config = TableConfig.from_json(
        {
            "tableName": "warm",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {
                "starTreeIndexConfigs": [_TREE],
                "rangeIndexColumns": ["d"],
                "bloomFilterColumns": ["s", "d"],
                "noDictionaryColumns": [item["name"] for item in raw],
                "invertedIndexColumns": ["s", "mv"],
                "nullHandlingEnabled": True,
            },
        }
    )
    values = {
        name: pa.array(_VALUES.get(data_type, [1, 2, None, 4]), data_type.arrow) for name, data_type in columns.items()
    }
    batch = pa.record_batch(values | {f"raw_{name}": array for name, array in values.items()} | _OTHER_COLUMNS)
    segments = []
    for name in _SEGMENTS:
        directory = MemoryDirectory(name)
        build_segment_into(directory, schema, config, [batch], name)
        segments.append(open_segment(directory))
    # Kernels see integers and floats (other widths are other metas, not other code).
    numbers = [name for name, data_type in columns.items() if data_type in (DataType.INT, DataType.DOUBLE)]
    texts = [text.format(n=prefix + name) for name in numbers for prefix in ("", "raw_") for text in _SQL]
    texts += [text.format(t=name) for name in ("s", "raw_s") for text in _TEXT_SQL]
    statements = [parse_sql(text) for text in [*texts, *_TREE_SQL]] + [parse_pql(text) for text in _PQL]
    try:
        for number, statement in enumerate(statements, 1):
            for null_handling in (False, True):
                context = compile_query(statement, schema, QueryOptions(), null_handling=null_handling)
                partials = [execute(context, segments[i:], QueryControl()) for i in (0, len(_SEGMENTS) - 1)]
                reduce_partials(context, merge_partials(context, partials))
            step(number, len(statements))
        _warm_doc_sets(np.array([segments[0].column(name).meta for name in ("s", "mv", "d")]))
    finally:
        for segment in segments:
            segment.close()
    _warm_unpacking()
    number_keys.warm()
    segment_text_codes.warm()
    register_hashes.warm()
    block_blooms.warm()
    substring_search.warm()
    text_codes.warm()
    merge_rows.warm()
    shared_codes.warm()
    distinct_pairs.warm()
    distinct_rows.warm()
    partitioning.warm()
    double_digits.warm()
    ranks.warm()
    rank_select.warm()
    distinct_bitmaps.warm()
    murmur.warm()
    hyperloglog.warm()
    dictionary_lookup.warm()
    postings.warm()
    short_postings.warm()
    hashes_of_texts.warm()
    some = np.zeros(1, np.int64)
    distinct_pairs.bytes_at(some.ctypes.data, some.nbytes)
    shared_direct_table.warm()
    compact_merge.warm()
    gather.warm()
    program.warm()
    top_n_groups.warm()
    thread_hash_table.warm()
    radix_partition.warm()


def _warm_doc_sets(metas: Int64Array) -> None:
    # Used only in segments of many docs: columns with an inverted index (rows 0, 1) and with a range index (2).
    first, third, ids = np.zeros(1, np.int64), np.full(1, 2), np.array([[0, 1]] * 3)
    sets, spans, sizes = np.zeros(1, np.uint64), np.zeros((3, 3), np.int64), np.zeros(1, np.int64)
    addresses = np.full(1, sets.ctypes.data)
    posting_bitmaps.add_posting_ranges(metas, first, ids, addresses)
    posting_bitmaps.add_postings_of(metas, first, np.zeros(1, np.uint32), ids, addresses)
    posting_bitmaps.list_bitmaps(metas, first[:0], ids, np.zeros(1, np.int64), np.zeros(1, np.int32))
    posting_bitmaps.range_spans(metas, ids, 0, 0.0, 0, 0.0, spans)
    posting_bitmaps.add_ranges(metas, third, spans, ids, 0, 0.0, 0, 0.0, addresses)
    posting_bitmaps.set_sizes(addresses, ids[:1], sizes)
    posting_bitmaps.list_sets(addresses, ids[:1], np.zeros(2, np.int64), np.zeros(4, np.int32))


def _warm_unpacking() -> None:
    # As packed columns are mapped: read-only.
    packed, ids = np.zeros(bit_packing.packed_words(1, 1), np.uint32), np.zeros(1, np.uint32)
    packed.flags.writeable = False
    bit_packing.unpack(packed, 1, 0, ids)
