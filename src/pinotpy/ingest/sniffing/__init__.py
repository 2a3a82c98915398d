"""What does a file of somebody else hold, and how is it read into a table?

`sniff.sniff_file` is the place to start reading. Nothing here parses rows: the guesses are settings of the readers
(`ingest/readers`), a schema, and expressions of the table's transformConfigs, which the ordinary pipeline then follows.
"""
