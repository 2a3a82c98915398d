"""Keeps each table's brokers equal to those of its tenant: a new broker serves within seconds
(BrokerResourceValidationManager).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pinotpy.controller.context import Controller
from pinotpy.controller.table_rules import broker_candidates
from pinotpy.errors import PinotError

LOG = logging.getLogger(__name__)

LOOK_INTERVAL_S = 2.0  # how often brokers and their tags are looked at; the reference waits for up to an hour


class BrokerResourceValidation:
    """The task: compares all tables when a broker came, went or changed its tags, and now and then without cause."""

    name = "BrokerResourceValidationManager"
    interval_s = LOOK_INTERVAL_S

    def __init__(self, controller: Controller, full_interval_s: float) -> None:
        self._controller, self._full_interval_ns = controller, int(full_interval_s * 1e9)
        self._seen: frozenset[tuple[str, tuple[str, ...]]] | None = None
        self._next_full_ns = 0

    def tables(self) -> Sequence[str]:
        return ()

    def run_table(self, table_name_with_type: str) -> None:
        """Repair one table now."""
        repair_brokers(self._controller, table_name_with_type)

    def run_once(self) -> None:
        brokers = frozenset(
            (name, config.tags)
            for name, config in self._controller.catalog.instances().items()
            if name.startswith("Broker_")
        )
        now_ns = self._controller.clock.monotonic_ns()
        if brokers == self._seen and now_ns < self._next_full_ns:
            return
        failed = 0
        for table in self._controller.catalog.table_names():
            try:
                repair_brokers(self._controller, table)
            except PinotError as error:
                failed += 1
                LOG.warning("brokers of a table cannot be repaired table=%s reason=%s", table, error.message)
        if not failed:
            self._seen, self._next_full_ns = brokers, now_ns + self._full_interval_ns


def repair_brokers(controller: Controller, table: str) -> bool:
    """Set the table's brokers to those of its tenant; whether anything changed."""
    stored = controller.catalog.table_config(table)
    if stored is None:
        return False
    candidates = broker_candidates(controller.catalog, stored.config)
    if not candidates or candidates == controller.catalog.brokers_of(table):
        return False
    controller.catalog.set_brokers(table, candidates)
    LOG.info("brokers of a table repaired table=%s brokers=%s", table, ",".join(candidates))
    return True
