"""How does this server read streams, and what becomes of the segments that it reads?

Read first: `consuming_tables` (transitions go in here), `partition_runner` (runs the machines of one partition and does
what they ask for), `consumer_states` (one pure machine per replica and segment). Behind the door `ingest_worker` rows
are fetched, decoded and appended (`partition_reader`): on threads (`local_worker`) or in processes that share the
rows' memory (`workers`). Reference: Pinot's RealtimeTableDataManager and LLRealtimeSegmentDataManager; ADR 19 and 20.
"""
