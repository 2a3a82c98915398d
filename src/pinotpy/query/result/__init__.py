"""How do the partial results of servers become an answer?

`partial` is what a server sends (compact rows without Arrow, or Arrow), `combine` merges partials in any order, or
`partitioned_merge` does where that would take much memory (`merge_memory` says how much, and decides),
`reduce` applies HAVING, expressions over aggregations, ORDER BY and LIMIT, `response/` writes PQL's and SQL's JSON or
Arrow. `small_answers` writes small results of one server without Arrow.

Read first: `partial`, then `combine`, `reduce`, `response/sql`.
Must not know: kernels and segments. A broker runs this room without compiled code.
Background: ADR 11 (compact rows), ADR 12 (answers in pieces).
"""
