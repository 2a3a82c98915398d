"""Which rows pass the filter, and by which index?

The condition becomes negation normal form (`normal_form`), segments whose smallest and largest values exclude it are
left out (`pruning`), each predicate is bound to all others at once (`bind`: dictionary lookups, zone maps, Bloom
filters), and one planner (`planner`) decides for every filter: the order of its conjuncts, the segments and docs that
are read, the index that answers each predicate (`index_choice`). What is left becomes instructions (`tree`, `compiled`,
`interpreted`). EXPLAIN reads the decisions of the same plan.

Read first: `normal_form`, then `planner`, `bound_predicate`, `bind`, `tree`, `index_choice`.
Must not know: aggregation, grouping and ordering.
Background: ADRs 2 and 17; Moerkotte, "Small Materialized Aggregates" (VLDB 1998), for zone maps.
"""
