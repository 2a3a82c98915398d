"""Which group is a row in, and how do the groups of threads and segments become one table?

Direct tables (addressed by the keys themselves), hash tables, radix partitioning, merging of rows by value, the best
groups of an ORDER BY with a limit.

Read first: `direct_table`, then `hash_table`, `radix_partition`, `merge_rows`.
Must not know: what the states mean. It moves their words and calls their merge functions.
Background: Leis et al., "Morsel-Driven Parallelism" (SIGMOD 2014); Müller et al., "Cache-Efficient Aggregation"
(SIGMOD 2015).
"""
