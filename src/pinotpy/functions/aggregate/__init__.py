"""Aggregations: one function a file, found by name through `functions.spec`.

Each says its result type, its kind of state (functions/state/plans.py), how states merge and how one is finished.

Read first: `sum`, then `distinctcount`, then `percentile`.
Must not know: how groups are found or states stored.
Background: docs/generated/functions.md.
"""
