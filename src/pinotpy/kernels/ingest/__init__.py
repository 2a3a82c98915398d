"""How are bytes of input parsed where no library does it fast enough: Avro records, odd dialects of CSV, JSON objects
of plain values.

Read first: `avro_records`. Used by `pinotpy.ingest` alone; knows nothing of segments and queries.
Background: the Avro specification 1.11; RFC 4180; RFC 8259.
"""
