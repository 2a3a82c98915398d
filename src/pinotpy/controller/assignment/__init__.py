"""Which servers hold a segment: pure functions over names and counts, one strategy a file.

`candidates` orders a table's servers, `balanced` and `partition_aware` choose among them: all, or those that replica
groups (`group_shape`, `replica_group`) have for a segment's partition. Rules: Pinot's InstanceAssignmentDriver and
OfflineSegmentAssignment (reference "Segment assignment").
"""
