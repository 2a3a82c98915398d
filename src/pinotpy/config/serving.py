"""`quota`, `routing` and `query`: how queries on a table are limited and spread."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from pinotpy.config.document import Document, Text, Truth, WholeNumber, named

# A day: what nobody waits for is no limit.
TIMEOUT_MS_MAX = 24 * 3600 * 1000

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)B?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


def bytes_from_text(text: str) -> int:
    """`10G` → bytes, units of 1024; raises ValueError whose text is what is allowed."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("a size such as 10G, 512M or 1.5T")
    return int(float(match[1]) * _SIZE_UNITS[match[2].upper()])


def _size_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a size such as 10G, 512M or 1.5T, as text")
    bytes_from_text(value)
    return value


def _rate_text(value: Any) -> Any:
    try:
        rate = float(value) if not isinstance(value, bool) else 0.0
    except (TypeError, ValueError):
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ValueError("a number of queries a second, greater than 0")
    return str(value)


class QuotaConfig(Document):
    """Limits of a table."""

    storage: Annotated[str, BeforeValidator(_size_text)] | None = Field(
        None, description="Largest size of one replica of the table, e.g. 10G."
    )
    max_queries_per_second: Annotated[str, BeforeValidator(_rate_text)] | None = Field(
        None, description="Not yet: queries per second over all brokers."
    )

    @property
    def storage_bytes(self) -> int | None:
        return None if self.storage is None else bytes_from_text(self.storage)


class InstanceSelector(StrEnum):
    """How a broker picks a replica of each segment."""

    BALANCED = "balanced"
    REPLICA_GROUP = "replicaGroup"
    STRICT_REPLICA_GROUP = "strictReplicaGroup"
    MULTI_STAGE_REPLICA_GROUP = "multiStageReplicaGroup"

    @property
    def is_strict(self) -> bool:
        """Whether segments that lie on the same servers are all answered by one of them, or not at all."""
        return self in (InstanceSelector.STRICT_REPLICA_GROUP, InstanceSelector.MULTI_STAGE_REPLICA_GROUP)


class SegmentPruner(StrEnum):
    """What a broker may leave out segments by."""

    PARTITION = "partition"
    TIME = "time"
    EMPTY = "empty"


def _known_pruner(value: Any) -> Any:
    """A pruner by its name in any case; another text as it is: the reference stores it, too."""
    if not isinstance(value, str):
        raise ValueError("one of " + ", ".join(SegmentPruner))
    return next((pruner for pruner in SegmentPruner if value.strip().lower() == pruner), value)


class RoutingConfig(Document):
    """How brokers route queries on a table."""

    routing_table_builder_name: Text | None = Field(
        None,
        description="A key of old documents. Brokers do for every table what its builders do: they balance over all "
        "replicas, and leave out segments of other partitions.",
    )
    segment_pruner_types: tuple[Annotated[SegmentPruner | str, BeforeValidator(_known_pruner)], ...] = Field(
        (),
        description="By what brokers leave out segments before they ask servers. They do so for every table by all of "
        "these, and by ranges of sorted columns, whatever is listed: a segment is left out only if its record proves "
        "that it has no matching row. Another name is kept, leaves out nothing, and is told by the answer to the "
        "document and by EXPLAIN.",
    )
    instance_selector_type: Annotated[InstanceSelector, named(InstanceSelector)] | None = Field(
        None,
        description="How brokers choose among the replicas of segments. balanced (the default): each segment by "
        "itself, so that a query spreads over all servers. replicaGroup: from as few replica groups as have all "
        "segments of the query, by the instance partitions of the table. strictReplicaGroup: also, all segments that "
        "lie on the same servers come from one of them; where none has all, they are unavailable. "
        "multiStageReplicaGroup: as strictReplicaGroup.",
    )
    use_fixed_replica: Truth | None = Field(
        None, description="Not yet: always the same replica for a table and broker."
    )

    @property
    def unknown_pruners(self) -> dict[int, str]:
        """Place in `segmentPrunerTypes` → what stands there and is no pruner."""
        return {
            place: pruner
            for place, pruner in enumerate(self.segment_pruner_types)
            if not isinstance(pruner, SegmentPruner)
        }

    @property
    def warnings(self) -> list[str]:
        """What stands in the document and turns off what it is to turn on: JSON path, expected, found."""
        expected = ", ".join(SegmentPruner)
        return [
            f"$.routing.segmentPrunerTypes[{place}]: expected one of {expected}, found '{found[:80]}': brokers leave "
            "out no segment by it"
            for place, found in self.unknown_pruners.items()
        ]


class QueryConfig(Document):
    """Limits and defaults of queries on a table."""

    timeout_ms: WholeNumber | None = Field(
        None,
        ge=1,
        le=TIMEOUT_MS_MAX,
        description="Query timeout in milliseconds, overriding pinot.broker.timeoutMs; "
        "the query option timeoutMs takes precedence.",
    )
    enable_null_handling: Truth | None = Field(
        None,
        description="SQL: nulls are nulls (true) or default values (false), overriding "
        "pinot.broker.query.enable.null.handling; the query option enableNullHandling takes precedence.",
    )
    disable_groovy: Truth | None = Field(None, description="Accepted; there is no Groovy.")
    use_approximate_function: Truth | None = Field(
        None, description="Not yet: rewrite DISTINCTCOUNT and PERCENTILE to approximate functions."
    )
    expression_override_map: dict[str, Text] | None = Field(
        None, description="Not yet: expression → column with its value."
    )
    max_query_response_size_bytes: WholeNumber | None = Field(
        None, ge=1, description="Not yet: largest response of a query over all servers, in bytes."
    )
    max_server_response_size_bytes: WholeNumber | None = Field(
        None,
        ge=1,
        description="Not yet: largest response of one server, in bytes; pinot.server.grpc.maxResponseBytes has it for "
        "all tables.",
    )
