"""What would a query do? EXPLAIN answers without doing it.

filter.planner (the plan that a query would run) → `access` (how each predicate is answered in a segment, and why not
otherwise) → `operators` (what is done with the selected rows) → `plans` (segments with the same plan together: a
server's part) → result.explained_answer (the broker's: parts of servers merged, as JSON and as SQL's table).

Read first: `plans`, then `operators`.
Must not know: how answers are written.
Background: Pinot's EXPLAIN PLAN; docs/differences.md.
"""
