"""Floor 4: from a parsed statement to an answer. Knows pql, segment, functions, config and kernels; no service.

The straight line: compile (statement + table schema → QueryContext, names checked) → [broker: routing] → `execute`
(server: plan, filter, scan, combine over a set of segments → PartialResult) → result.reduce (broker: merge partials,
HAVING, ORDER BY, LIMIT → ReducedResult) → result.response (one writer per dialect).

Rooms from the ground up; each imports only rooms named before it (tests/test_architecture.py): model, runtime,
segments, expression, result, compile, filter, plan, project, aggregate, order, group, explain.
"""
