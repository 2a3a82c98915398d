"""Which docs of a block, or of a segment, pass a filter?

Predicates on ids, numbers and texts leave byte masks; conjunctions of ranges leave bitmaps of 4,096 docs
(`range_scan`); indexes give lists of docs; `planning` prunes segments and orders the predicates of a conjunction for
all segments in one call.

Read first: `predicates` (what a predicate tells its kernel), then `masks` and `filters`, then `planning`.
Must not know aggregates or groups: what passes goes on as docs.
Background: Abadi et al., "Column-Stores vs. Row-Stores" (SIGMOD 2008), on late materialisation; zone maps: Moerkotte
(VLDB 1998).
"""
