"""What does an aggregation keep between rows, servers and the answer?

`plans` names the kinds of state (words of a row, value sets, sketches, rows); the other modules are the shared
mechanics of one kind each: exact sums, power sums, extremes, percentiles, picked rows.

Read first: `plans`, then `states`, then `slots`.
Must not know: kernels' memory and how groups are found.
Background: ADR 3, ADR 13.
"""
