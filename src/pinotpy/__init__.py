"""pinotpy: a realtime distributed OLAP store in Python. Read ARCHITECTURE.md first."""

__version__ = "0.1.0"
