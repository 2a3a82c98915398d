"""What state does each aggregation keep, and which instructions update it?

`layout` gives every aggregation its words of a group's row or a structure of its own: sets of values, bitmaps, lists
of values, sketches, lists of rows. `emit` writes the updates into the plan, `collect` turns what threads left into
state columns.

Read first: `layout`, then `emit`, then `collect`.
Must not know: how groups are found; a register of group numbers comes in.
Background: ADR 3 (sums), ADR 13 (aggregations that read rows).
"""
