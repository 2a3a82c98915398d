"""One shared dictionary of a column's values for all segments of a table: see docs/adr/0007-global-ids.md.

Reading order: values (lists of distinct values), dictionary (the shared dictionary of one column), cache (those of all
columns).
"""
