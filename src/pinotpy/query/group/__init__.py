"""How are groups found and merged?

`group_by` runs a GROUP BY, `ungrouped` aggregations without keys, `distinct` SELECT DISTINCT. The tables: direct
tables over shared codes (`shared_direct_table`) or text codes (`text_direct_table`), a hash table per thread
(`hash_table`), radix partitioning (`radix_partition`), the merge of small results (`small_result`); `top_n_groups`
leaves out groups that cannot be shown. `choose` says which table a query takes, `eligibility` what tables need.

Read first: `group_by`, `choose`, then `shared_direct_table`, `hash_table`, `radix_partition`.
Must not know: what the states of aggregations mean.
Background: ADR 7, 11 and 16; Müller et al., "Cache-Efficient Aggregation: Hashing Is Sorting" (SIGMOD 2015).
"""
