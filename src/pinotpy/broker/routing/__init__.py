"""Which server answers for which segment: pure decisions over one snapshot of the cluster."""
