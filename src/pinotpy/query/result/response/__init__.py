"""Writers of answers: one a dialect and form. `pql` and `sql` write JSON, `arrow` a stream of record batches."""
