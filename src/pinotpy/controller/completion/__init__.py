"""How do the replicas of a consuming segment agree on its end, and who of them stores it?

Read first: `fsm` (the decisions, one table), then `states` (what it knows, hears and asks for). `thresholds` says how
many rows the next segment should have. All of it is pure: no clock, thread, file or ZooKeeper in here.
Must not depend on the store or on HTTP. Reference: Pinot's SegmentCompletionManager; ADR 20 for what differs.
"""
