"""Settings of a broker's query log: docs/system-tables.md."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from pinotpy.config.document import WholeNumber
from pinotpy.config.settings_loading import Flag, Size, setting

MIB = 1 << 20


class QueryLogSettings(BaseModel):
    """What a broker keeps and writes of the queries that it answered."""

    query_log_file: Path | None = setting(
        None,
        "pinot.broker.query.log.file",
        about="File of the query log, a JSON line a query; slow ones also in a file of the same name with -slow. "
        "Without it nothing is written; system.queries has the last queries all the same.",
    )
    query_log_bytes_max: Size = setting(
        64 * MIB,
        "pinot.broker.query.log.maxBytes",
        about="Size at which a file of the query log is replaced by a new one.",
        unit="bytes",
        ge=4_096,
    )
    query_log_files_max: WholeNumber = setting(
        5,
        "pinot.broker.query.log.maxFiles",
        about="Files of the query log that are kept, the current one among them; of slow queries as many.",
        ge=1,
        le=1_000,
    )
    query_log_slow_ms: WholeNumber = setting(
        1_000,
        "pinot.broker.query.log.slowThresholdMs",
        about="From this time on a query is slow.",
        unit="ms",
        ge=0,
    )
    query_log_mask_literals: Flag = setting(
        False,
        "pinot.broker.query.log.maskLiterals",
        about="Show ? for each literal of a query's text, in the file and in system.queries.",
    )
    query_log_text_length: WholeNumber = setting(
        4_096,
        "pinot.broker.query.log.length",
        about="Characters of a query's text that are kept; the rest is cut, and the cut is shown.",
        unit="characters",
        ge=16,
        le=MIB,
    )
    query_log_recent: WholeNumber = setting(
        1_000,
        "pinot.broker.query.log.recent",
        about="Queries that system.queries shows, of each broker; 0: none.",
        unit="queries",
        ge=0,
        le=100_000,
    )
