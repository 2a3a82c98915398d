"""Rewrites of a compiled query that keep its meaning: each a function from context to context."""
