"""Rows of many files, or of Spark's own sources, dealt anew to segments: by partition, by time, to a size.

    parcels (kept on the executors' disks) → cuts → parcels beside the segment that they are for → shuffle → segments

The driver gets a report a file, a cut a segment and a report a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pinotpy.ingest.jobs.plan import Unit
from pinotpy.ingest.jobs.report import UnitReport
from pinotpy.spark_jobs.cutting import CUTS_DDL, Cut, PlannedSegment, cut_batches
from pinotpy.spark_jobs.parcels import REPORT, ROWS
from pinotpy.spark_jobs.task import REPORTS_DDL, SparkJob, read_report
from pinotpy.spark_jobs.writing import PLACED_COLUMNS, write_segments

# Parcels have up to some MB: so few come to Python at once.
_PARCELS_PER_BATCH: Final = "4"
_ARROW_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True)
class Parcels:
    """A frame of parcels that is computed once, and the reports of the tasks that made them."""

    frame: Any
    reports: tuple[UnitReport, ...]

    @property
    def rows(self) -> Any:
        return self.frame.where(f"kind = '{ROWS}'")

    def num_rows(self) -> dict[str, int]:
        """Rows of each group."""
        from pyspark.sql import functions as F

        return {
            str(row["group"]): int(row["rows"])
            for row in self.rows.groupBy("group").agg(F.sum("num_rows").alias("rows")).collect()
        }

    def release(self) -> None:
        """Give the executors' disks back."""
        self.frame.unpersist()


def collect_parcels(frame: Any) -> Parcels:
    """Read the input: parcels stay with the executors, reports come here."""
    from pyspark import StorageLevel

    persisted = frame.persist(StorageLevel.DISK_ONLY)
    rows = persisted.where(f"kind = '{REPORT}'").select("position", "contents").collect()
    return Parcels(
        persisted, tuple(read_report(bytes(row["contents"])) for row in sorted(rows, key=lambda row: row["position"]))
    )


def plan_cuts(parcels: Parcels, units: Sequence[Unit], *, splits_cells: bool) -> list[Cut]:
    """Where the rows of GROUP units lie; each unit's one slice counts the rows of its whole group."""
    from pyspark.sql import functions as F

    planned: dict[str, list[PlannedSegment]] = {}
    for segment, unit in enumerate(units):
        (rows,) = unit.slices
        planned.setdefault(unit.group, []).append(PlannedSegment(segment, rows.first, rows.first + rows.count))
    cells = parcels.rows.groupBy("group", "position").agg(F.sum("num_rows").alias("num_rows"))
    arranged = cells.repartition("group").sortWithinPartitions("group", "position")
    cuts = arranged.mapInArrow(
        lambda batches: cut_batches(batches, planned, splits_cells=splits_cells), CUTS_DDL
    ).collect()
    return sorted((Cut(*row) for row in cuts), key=lambda cut: cut.segment)


def write_cuts(
    spark: Any, parcels: Parcels, cuts: Sequence[Cut], job: SparkJob, units: tuple[Unit, ...], *, puts: bool = True
) -> list[UnitReport]:
    """Bring the parcels of each cut together and write its segment in an executor."""
    from pyspark.sql import functions as F

    placed, count = _placed(spark, parcels.rows, cuts), len(units)
    # One task a segment where Spark can do so (4.1 on): the retry of a task repeats one segment. Else by hash: some
    # tasks get several.
    dealt = (
        placed.repartitionById(count, F.col("segment").cast("int"))
        if hasattr(placed, "repartitionById")
        else placed.repartition(count, "segment")
    )
    arranged = dealt.sortWithinPartitions("segment", "position").select(*PLACED_COLUMNS)
    spark.conf.set(_ARROW_ROWS, _PARCELS_PER_BATCH)
    written = arranged.mapInArrow(lambda batches: write_segments(batches, job, units, puts=puts), REPORTS_DDL).collect()
    return sorted((read_report(row["report"]) for row in written), key=lambda report: report.unit_id)


def _placed(spark: Any, rows: Any, cuts: Sequence[Cut]) -> Any:
    """Parcels with the number of their segment; one on a border stands with both."""
    from pyspark.sql import functions as F

    fields = "of_group STRING, segment LONG, first LONG, first_skip LONG, last LONG, last_take LONG"
    table = spark.createDataFrame(
        [(cut.group, cut.segment, cut.first, cut.skip, cut.last, cut.take) for cut in cuts], fields
    )
    belongs = (rows["group"] == table["of_group"]) & rows["position"].between(table["first"], table["last"])
    joined = rows.join(F.broadcast(table), belongs)
    skip = F.when(F.col("position") == F.col("first"), F.col("first_skip")).otherwise(F.lit(0))
    return joined.select("segment", "position", "offset", skip.alias("skip"), _take().alias("take"), "contents")


def _take() -> Any:
    """How far a parcel's rows are the segment's: of cells that stay whole several parcels share a position, all to
    their ends.
    """
    from pyspark.sql import functions as F

    return F.when(F.col("position") == F.col("last"), F.least(F.col("last_take"), F.col("num_rows"))).otherwise(
        F.col("num_rows")
    )
