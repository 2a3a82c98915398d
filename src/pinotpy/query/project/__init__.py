"""Where do the values of group keys and arguments come from?

Sources are dictionary ids, raw values, or columns that are computed for this query only (`computed_columns`); raw
texts get codes (`text_codes`), which stay cached from query to query (`text_code_cache`). `decode` turns the words of
keys back into values, `rows` fetches the values of selected rows.

Read first: `sources`, then `computed_columns`, then `text_codes`.
Must not know: what is done with the values.
Background: ADR 6, ADR 9.
"""
