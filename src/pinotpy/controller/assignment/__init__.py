"""Which servers hold a segment: pure functions over names and counts, one strategy a file.

`candidates` orders a table's servers, `balanced` and `replica_group` choose among them. Rules: Pinot's
InstanceAssignmentDriver and OfflineSegmentAssignment (reference "Segment assignment").
"""
