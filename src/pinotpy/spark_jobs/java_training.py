"""The training of Spark's JVM: small jobs of every kind, by the code of real ones; what they loaded is kept for later
starts.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pinotpy.errors import ClusterError, UserError
from pinotpy.ingest.jobs.context import open_context
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.spark_jobs.build import build_segments
from pinotpy.spark_jobs.commands import read_spec
from pinotpy.spark_jobs.java import FLAGS, can_be_used, find_spark_jars, find_spark_java
from pinotpy.spark_jobs.java_cache import cache_key, keep_cache, present_cache, training_folder, why_no_cache
from pinotpy.spark_jobs.session import SparkSettings, attempts_of, spark_session

_ROWS: Final = 400
_SCHEMA: Final = {
    "schemaName": "training",
    "dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}, {"name": "name", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "price", "dataType": "DOUBLE"}],
}
_TABLE: Final = {
    "tableName": "training",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {
        "segmentPartitionConfig": {"columnPartitionMap": {"id": {"functionName": "Murmur", "numPartitions": 2}}}
    },
    "metadata": {},
}
# Files one by one; files regrouped by a shuffle; and rows of Spark's own readers.
_JOBS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"repartition": True},
    {"sourceQuery": "SELECT id, concat('n', id % 7) AS name, id / 2 AS price FROM range(400)"},
)


@dataclass(frozen=True, slots=True)
class Warmup:
    """What a warmup did: the cache's file and size, and whether it was there already."""

    file: Path
    size_bytes: int
    took_s: float
    was_there: bool


def warm_up_java(settings: SparkSettings, *, force: bool = False) -> Warmup:
    """Make the cache for this Java and this pyspark, unless it is there; caches of others in its folder are removed.

    Raises:
        UserError: Java or SPARK_CONF_DIR allows no cache, or no folder can be written.
        ClusterError: a training job failed, or Java wrote no cache.
    """
    started = time.perf_counter()
    java = find_spark_java()
    why = why_no_cache(java)
    if why is not None:
        raise UserError(why)
    key = cache_key(java, FLAGS, find_spark_jars())
    present = None if force else present_cache(key)
    if present is not None:
        return Warmup(present, present.stat().st_size, time.perf_counter() - started, True)
    with training_folder() as folder:
        trained = folder / "trained.aot"
        with spark_session(replace(settings, trains=trained), "pinotpy spark warmup") as spark:
            _train(spark)
        if not trained.exists() or not can_be_used(trained):
            raise ClusterError(f"'{java}' wrote no cache that it can use: --spark-log keeps what it says of it")
        file = keep_cache(trained, key)
    return Warmup(file, file.stat().st_size, time.perf_counter() - started, False)


def _train(spark: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="pinotpy-spark-training-") as name:
        folder = Path(name)
        for number in range(2):
            rows = "".join(f"{i},n{i % 7},{i / 2}\n" for i in range(number, _ROWS, 2))
            file = folder / "in" / f"part-{number}.csv"
            file.parent.mkdir(exist_ok=True)
            file.write_text("id,name,price\n" + rows)
        for number, additions in enumerate(_JOBS):
            report = build_segments(spark, open_context(_job(folder, f"out-{number}", additions)), attempts_of(spark))
            if report.error is not None:
                raise ClusterError(f"the training job failed: {report.error}")


def _job(folder: Path, out: str, additions: dict[str, Any]) -> IngestionJobSpec:
    schema, table, job = (folder / f"{name}.json" for name in ("schema", "table", "job"))
    schema.write_text(json.dumps(_SCHEMA))
    table.write_text(json.dumps(_TABLE))
    files = {} if "sourceQuery" in additions else {"inputDirURI": str(folder / "in")}
    spec = {
        "jobType": "SegmentCreation",
        **files,
        "outputDirURI": str(folder / out),
        "recordReaderSpec": {"dataFormat": "csv"},
        "tableSpec": {"tableName": "training", "schemaURI": str(schema), "tableConfigURI": str(table)},
        "pinotpy": {"workingDir": str(folder), **additions},
    }
    job.write_text(json.dumps(spec))
    return read_spec(str(job), [])
