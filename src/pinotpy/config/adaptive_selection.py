"""Settings of a broker's choice of replicas by latency and queue: docs/partitions.md. Keys and defaults are Pinot's."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel

from pinotpy.config.document import Number, WholeNumber, named
from pinotpy.config.settings_loading import Flag, setting

_PREFIX: Final = "pinot.broker.adaptive.server.selector"


class AdaptiveType(StrEnum):
    """By what a broker prefers servers among the replicas of a segment."""

    NO_OP = "NO_OP"
    NUM_INFLIGHT_REQ = "NUM_INFLIGHT_REQ"
    LATENCY = "LATENCY"
    HYBRID = "HYBRID"


class AdaptiveSelectionSettings(BaseModel):
    """How a broker measures servers, and whether it prefers some."""

    adaptive_type: Annotated[AdaptiveType, named(AdaptiveType)] = setting(
        AdaptiveType.NO_OP,
        f"{_PREFIX}.type",
        about="By what replicas are preferred: NO_OP (replicas take turns), NUM_INFLIGHT_REQ (requests that a server "
        "has not answered), LATENCY (averages of its answers' times), HYBRID (both).",
    )
    adaptive_statistics: Flag = setting(
        False,
        f"{_PREFIX}.enable.stats.collection",
        about="Measure servers also where the type is NO_OP; any other type measures them anyway.",
    )
    adaptive_alpha: Number = setting(
        0.666,
        f"{_PREFIX}.ewma.alpha",
        about="Weight of the newest value in the averages of latency and of requests in flight.",
        gt=0,
        le=1,
    )
    adaptive_decay_ms: WholeNumber = setting(
        10_000,
        f"{_PREFIX}.autodecay.window.ms",
        about="Time after which an average without a new value falls as if 0 came, so that a server that was slow is "
        "tried again; 0: never.",
        unit="ms",
        ge=0,
    )
    adaptive_first_value: Number = setting(
        1.0,
        f"{_PREFIX}.avg.initialization.val",
        about="What both averages of a server begin at.",
        ge=0,
    )
    adaptive_exponent: Number = setting(
        3.0,
        f"{_PREFIX}.hybrid.score.exponent",
        about="HYBRID: weight of the queue: a server's score is (floor + requests in flight + their average) to the "
        "power of this, times its latency.",
        ge=0,
        le=100,
    )
    adaptive_queue_floor: Number = setting(
        0.0,
        f"{_PREFIX}.hybrid.score.queue.size.floor",
        about="HYBRID: floor of the score; above 0 the latency counts also of servers that nobody asks.",
        ge=0,
    )
