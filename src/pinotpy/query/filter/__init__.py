"""Which rows pass the filter, and by which index?

The condition becomes negation normal form (`normal_form`), each predicate is bound to all segments at once (`bind`:
dictionary lookups, zone maps, Bloom filters), segments that cannot match are pruned, indexes are chosen, and what is
left becomes instructions (`compiled`, `interpreted`). `planner` does all of it in kernels for plain conjunctions.

Read first: `normal_form`, then `bound_predicate`, `bind`, `tree`, `index_choice`.
Must not know: aggregation, grouping and ordering.
Background: ADR 2; Moerkotte, "Small Materialized Aggregates" (VLDB 1998), for zone maps.
"""
