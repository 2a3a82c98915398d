"""Floor 4: from a parsed statement to an answer. Knows pql, segment, functions, config; no service.

The straight line: compile (Statement + table schema → QueryContext, names checked) → [broker: routing] →
execute (server: prune, plan, filter, operators, combine over a list of segments → PartialResult) →
reduce (broker: merge partials, HAVING, ORDER BY, LIMIT → ReducedResult) → response (one writer per dialect).
"""
