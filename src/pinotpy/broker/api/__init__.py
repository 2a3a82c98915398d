"""The broker's HTTP routes: query (the fast path) and debug."""
