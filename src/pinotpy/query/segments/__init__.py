"""What do queries know of the segments that they run over?

`segment_set.SegmentSet` is an immutable set of segments with arrays of what planning asks of all of them: row counts,
column metadata, ranges, partitions. Other rooms attach typed caches to it (`SegmentSet.attached`).
A query runs over one or more of them (`segment_sets.SegmentSets`).

Read first: `segment_set`, then `column_metas`, then `values`.
Must not know: filters, plans and operators.
Background: ADR 7 on codes that segments share.
"""
