"""How do the records of a stream become rows?

Read first: `spec` (the door), `registry` (which decoder a table has), `json_decoder`, `csv_decoder`, `avro_decoder`;
`ledger` counts what became of every record. Decoders parse payloads; everything that is done to files' rows
(transforms, filters, conversion) is done to theirs by the same `ingest.pipeline`. Reference: Pinot's
StreamMessageDecoder.
"""
