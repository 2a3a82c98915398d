"""What is asked? The query as data, once names and types are known.

`context.QueryContext` is the compiled query that brokers send to servers: conditions, group keys, aggregations,
order, options. Beside it stand the types of expressions, typed predicates, literals that are bound per query, and the
codec of the wire.

Read first: `context`, then `predicate`, then `result_types`.
Must not know: segments, kernels and how anything is computed.
Background: docs/differences.md for the semantics of types and nulls.
"""
