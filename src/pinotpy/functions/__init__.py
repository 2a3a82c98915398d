"""What queries and ingestion can compute: aggregations, scalar functions, and those that users add (`udf`)."""

from __future__ import annotations

from pinotpy.functions.user.user_functions import UserFunction, udf

__all__ = ["UserFunction", "udf"]
