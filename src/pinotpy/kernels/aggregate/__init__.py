"""How do values change the states of aggregations?

Counts, sums (whole numbers in 128 bits, doubles exactly), extremes, moments, histograms, sets and lists of values,
ranks, functions of whole rows; and the records of star-trees, which hold such states.

Read first: `result_context` (the memory of one thread), then `counts_and_sums`, `exact_sums` (ADR 3), `value_sets`.
Must not know: how groups are found. A vector register of group numbers comes in, whatever filled it.
Background: Neal, "Fast exact summation using small and large superaccumulators" (2015).
"""
