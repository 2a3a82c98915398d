"""Sweeping the deep store: what controllers left there that died in the middle of an upload, or could not reach the
store when it ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from pinotpy.controller.context import Controller
from pinotpy.controller.upload_leftovers import drop_unfinished, finish_uploads
from pinotpy.names import raw_table_name


class DeepStoreSweep:
    """The task. A table's files are listed at a time; of archives only those are touched of which a record says that an
    upload may have left them.
    """

    name = "DeepStoreSweep"

    def __init__(self, controller: Controller, interval_s: float) -> None:
        self._controller, self.interval_s = controller, interval_s

    def tables(self) -> Sequence[str]:
        """One half of each table: both have their archives in one folder."""
        return list({raw_table_name(name): name for name in self._controller.catalog.table_names()}.values())

    def run_table(self, table_name_with_type: str) -> None:
        drop_unfinished(self._controller, table_name_with_type)

    def run_once(self) -> None:
        finish_uploads(self._controller)
