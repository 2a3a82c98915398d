"""EXPLAIN: what a query would do, without doing it.

notes (what planning decided, left by scan.build_scan) → access (how each predicate is answered in a segment, and why
not otherwise) → operators (what is done with the selected docs) → plans (segments with the same plan together: a
server's part) → answer (the broker's: parts of servers merged, as JSON and as SQL's table of operators).
"""
