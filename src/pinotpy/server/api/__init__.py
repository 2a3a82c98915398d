"""The server's admin REST: what it holds, by table and segment."""
