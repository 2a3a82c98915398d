"""What does a statement mean for this table?

From a parsed statement and the table's schema to a `QueryContext`: columns are resolved, functions bound, constants
folded, rewrites applied; errors are those of the user's text, with positions. Statements that differ only in literals
share one prepared template.

Read first: `statement`, then `sql` or `pql`, then `templates`.
Must not know: segments and servers.
Background: docs/differences.md; Pinot's query rewriters.
"""
