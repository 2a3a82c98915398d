"""Which rows of a block, or of a segment, pass a filter?

Predicates on dictionary ids, numbers and texts write byte masks; conjunctions of ranges write bitmaps of 4,096 rows
(`bitmap_scan`); indexes give lists of rows; `planner` decides for all segments in one call which are read, which rows
of them, and by which instructions.

Read first: `predicate_frame` (how a predicate's instruction looks), then `byte_masks`, `predicates`, `predicate_table`,
`planner`.
Must not know: aggregates and groups. What passes goes on as a selection vector.
Background: Abadi et al., "Column-Stores vs. Row-Stores" (SIGMOD 2008), on late materialisation; zone maps: Moerkotte
(VLDB 1998).
"""
