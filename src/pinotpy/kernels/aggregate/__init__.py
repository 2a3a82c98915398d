"""How do values change the states of aggregations?

Counts, sums (whole numbers in 128 bits, doubles exactly), extremes, moments, histograms, sets of values, ranks,
functions of whole rows; and the records of star-trees, which hold such states.

Read first: `result_context`, then `updates`, then `exact_sums` (ADR 3) and `value_sets`.
Must not know how groups are found: a register of group numbers comes in, whatever made it.
Background: Neal, "Fast exact summation using small and large superaccumulators" (2015).
"""
