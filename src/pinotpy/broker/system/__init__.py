"""What does the broker know about the cluster, as tables?

The tables of information_schema and system: their columns, and their rows for one caller. Servers run the queries over
them, as over any table: the broker sends the rows along (rpc/given_rows.py). Nothing here evaluates a query.

Read first: `tables`, then `system_table`.
Must not know: how queries are answered (handler), who the caller is beyond what it may see (viewer).
Background: docs/system-tables.md.
"""
