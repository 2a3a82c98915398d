"""How are bytes of input files parsed where no library does it fast enough: Avro records, odd dialects of CSV.

Read first: `avro_records`. Used by `pinotpy.ingest.readers` alone; knows nothing of segments and queries.
Background: the Avro specification 1.11; RFC 4180.
"""
