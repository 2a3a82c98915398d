"""Which group is a row in, and how do groups of threads and segments become one table?

Tables addressed by the keys themselves where these are few, hash tables, radix partitioning, merging of rows by value,
the best groups of an ORDER BY with a limit.

Read first: `groups` (direct table), then `hashing`, then `dealing` (radix partitioning), then `merge`.
Must not know what the states mean: it moves their words and calls their merge functions.
Background: Leis et al., "Morsel-Driven Parallelism" (SIGMOD 2014); Müller et al., "Cache-Efficient Aggregation" (SIGMOD
2015).
"""
