"""Codes of a column's values that mean the same in all segments of a table.

`values` are lists of distinct values, `dictionary` gives them codes and each segment a code map, `cache` keeps the
dictionaries of all columns within a byte budget; queries make what is missing.

Read first: `dictionary`, then `cache`.
Must not know: plans and groups.
Background: ADR 7 (docs/adr/0007-global-ids.md).
"""
