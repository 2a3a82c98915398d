"""Which rows does a selection show, and in which order?

`select` runs selections: without ORDER BY it stops at the limit; with it, kernels keep the best rows (`top_n`) behind
a threshold that all threads share, or segments are read in the order of their ranges (`segment_order`).

Read first: `select`, then `top_n`.
Must not know: groups and aggregations.
Background: DuckDB and ClickHouse push the threshold of a top-N into the scan in the same way.
"""
