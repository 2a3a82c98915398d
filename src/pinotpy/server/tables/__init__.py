"""Which segments this server holds: registry (in memory), store (on disk)."""
