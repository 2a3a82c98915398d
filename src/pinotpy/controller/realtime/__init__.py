"""What does the lead controller do for tables that read a stream?

Read first: `service` (runs the decisions of `controller/completion` and answers replicas), then `next_segment` (which
segments there are to be, and where they consume), `files` (what a commit brings) and `stream_plug_ins` (what reads a
stream). Writes to the cluster's state are in `cluster/realtime_segments.py`. Reference: Pinot's
PinotLLCRealtimeSegmentManager.
"""
