"""The suites of queries, by name."""

from __future__ import annotations

from typing import Final

from bench.suites.ads import ADS_SUITE
from bench.suites.own import OWN_SUITE
from bench.suites.query import Query, Suite
from bench.suites.selective import SELECTIVE_SUITE
from bench.suites.ssb import SSB_SUITE
from bench.suites.study import STUDY_SUITE

SUITES: Final[dict[str, Suite]] = {
    suite.name: suite for suite in (SSB_SUITE, OWN_SUITE, STUDY_SUITE, ADS_SUITE, SELECTIVE_SUITE)
}

__all__ = ["SUITES", "Query", "Suite"]
