"""Which segments hold no row that a filter passes, by what their records say of them?

A broker asks before it asks any server: of each segment it knows how many docs there are, between which values some
columns lie, and into which partitions the values of one fall (`facts`). All of it lies in arrays over the segments of a
table (`facts_table`, `bounds`), and the filter is walked once for all of them (`walk`): a leaf excludes segments by its
column's bounds, its partitions or its nulls (`leaves`), a leaf over a function of time by that function of the bounds
(`monotone`). These are all the rules. Segments are compared with a leaf in arrays (`prune`), or one by one where there
are few (`few`), and where a filter keeps few of many, indexes find some that hold them (`kept`, `indexes`).

Read first: `facts`, then `walk`, `leaves`, `kept`.
Must not know: segments' own bytes, kernels, where records are kept.
Background: ADR 28; docs/format/segment-record.md.
"""
