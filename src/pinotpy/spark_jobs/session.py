"""The one door to pyspark: a session that ends when its job does, also by a signal or a deadline.

A session that is there already is used, and stays. Else, run by `spark-submit`, it is made of the JVM that is there;
else Spark's JVM is started here (`java`).
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pinotpy.errors import ClusterError, PinotError, ResourceError, UserError
from pinotpy.spark_jobs.failures import spark_failure
from pinotpy.spark_jobs.java import SparkJava, start_spark_java

# Four attempts of a task, as clusters have it; `local[2]` alone would have one.
DEFAULT_MASTER: Final = "local[*,4]"
_END_S: Final = 20.0
# A JVM that was trained writes its cache before it ends: 18 s of a core that has nothing else to do.
_TRAINED_END_S: Final = 300.0
_TERMINATED: Final = 128 + signal.SIGTERM
# What every job of ours relies on.
_SESSION_CONF: Final = {"spark.sql.session.timeZone": "UTC", "spark.sql.execution.arrow.maxRecordsPerBatch": "65536"}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How Spark runs; without meaning under `spark-submit`, which has been told, and in a session that is there
    already.

    Attributes:
        master: where executors are: local[N,attempts], spark://…, yarn, k8s://….
        conf: Spark's own settings; they win over ours.
        driver_memory: heap of the driver's JVM, which in local mode is the executors' as well.
        working_dir: folder for Spark's working files; None: the system's folder for temporary files.
        timeout_s: after that many seconds the job is cancelled; None: no limit.
        log_file: what the JVM says; None: a temporary file, deleted if all goes well.
        trains: file for the cache of later starts, written when the session ends (`java_training`).
        runs_spark_code: whether rows go through Spark's own code (tables, queries), which its JVM then compiles well.
    """

    master: str = DEFAULT_MASTER
    conf: Mapping[str, str] = field(default_factory=dict)
    driver_memory: str = "1g"
    working_dir: Path | None = None
    timeout_s: float | None = None
    log_file: Path | None = None
    runs_spark_code: bool = True
    trains: Path | None = None


@dataclass(slots=True)
class Deadline:
    """Whether the job was cancelled by its deadline."""

    passed: bool = False


@contextlib.contextmanager
def spark_session(settings: SparkSettings, name: str) -> Iterator[Any]:
    """A SparkSession for one job: the one of this process, with its settings put back at the end, or one that ends with
    the job. SIGTERM ends the process with status 143 after Spark's own files are gone.

    Raises:
        ResourceError: the deadline passed.
        ClusterError: Spark failed: the cause and where, in one line, and where its log is.
    """
    if settings.timeout_s is not None and settings.timeout_s <= 0:
        raise UserError(f"the time limit of the job is {settings.timeout_s:g} s, expected more than 0")
    with contextlib.ExitStack() as stack:
        stack.enter_context(_ended_by_sigterm())
        if _has_session():
            spark = stack.enter_context(_session_of_others())
        elif "PYSPARK_GATEWAY_PORT" in os.environ:
            spark = stack.enter_context(_submitted_session(name))
        else:
            spark = stack.enter_context(_own_session(settings, name))
        deadline = stack.enter_context(_deadline(spark, settings.timeout_s))
        for key, value in _SESSION_CONF.items():
            spark.conf.set(key, value)
        try:
            yield spark
        except PinotError:
            raise
        except Exception as error:
            if deadline.passed:
                raise ResourceError(
                    f"the Spark job was cancelled: it did not end within {settings.timeout_s:g} s"
                ) from error
            raise spark_failure(error, spark) from error


def attempts_of(spark: Any) -> int:
    """How often Spark tries a task: as its master says in local mode, else as its settings say."""
    local = re.fullmatch(r"local(?:\[[^,\]]*(?:,\s*(\d+))?\])?", str(spark.sparkContext.master))
    if local is not None:
        return int(local[1] or 1)
    return int(spark.sparkContext.getConf().get("spark.task.maxFailures", "4"))


def _has_session() -> bool:
    """Whether somebody else runs Spark in this process: a notebook, an application that calls us."""
    loaded = sys.modules.get("pyspark")
    return loaded is not None and loaded.SparkContext._active_spark_context is not None


@contextlib.contextmanager
def _session_of_others() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    before = {key: spark.conf.get(key, None) for key in _SESSION_CONF}
    try:
        yield spark
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


@contextlib.contextmanager
def _submitted_session(name: str) -> Iterator[Any]:
    _without_words_about_pandas()
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(name).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def _without_words_about_pandas() -> None:
    """Arrow alone goes through Spark here: what it says about versions of pandas is no concern of ours."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")


@contextlib.contextmanager
def _own_session(settings: SparkSettings, name: str) -> Iterator[Any]:
    _without_words_about_pandas()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(
        prefix="pinotpy-spark-", dir=settings.working_dir, ignore_cleanup_errors=True
    ) as folder:
        log_file = settings.log_file or Path(tempfile.gettempdir(), f"{Path(folder).name}.log")
        conf = {**_own_conf(settings.master, name, Path(folder)), **settings.conf}
        java = start_spark_java(
            settings.master,
            conf,
            settings.driver_memory,
            log_file,
            compiles_well=settings.runs_spark_code,
            trains=settings.trains,
        )
        spark = None
        failed = True
        try:
            with _gateway_of(java, _python_of(settings)):
                spark = SparkSession.builder.getOrCreate()
            yield spark
            spark.stop()
            failed = False
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, ClusterError):
                error.message += f"; Spark's log: '{log_file}'"
                error.args = (error.message,)
            raise
        finally:
            # The end of its input stops Spark from within; asking it over a connection that a signal interrupted could
            # hang.
            _forget(SparkContext, SparkSession)
            java.close(_END_S if settings.trains is None or failed else _TRAINED_END_S)
            if not failed and settings.log_file is None:
                log_file.unlink(missing_ok=True)


def _own_conf(master: str, name: str, folder: Path) -> dict[str, str]:
    conf = {
        "spark.app.name": name,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "WARN",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder),
        # Parcels come compressed.
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
    }
    cache = os.environ.get("PINOTPY_KERNEL_CACHE")
    if cache:
        conf["spark.executorEnv.PINOTPY_KERNEL_CACHE"] = cache
    if master.startswith("local"):
        conf |= {
            "spark.sql.shuffle.partitions": "16",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return conf


def _python_of(settings: SparkSettings) -> str:
    """The interpreter of the executors: of this machine ours, elsewhere as the settings or the environment say."""
    if settings.master.startswith("local"):
        return sys.executable
    return settings.conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or "python3"


@contextlib.contextmanager
def _gateway_of(java: SparkJava, python: str) -> Iterator[None]:
    """pyspark finds a running JVM, and the executors' interpreter, by variables of the environment."""
    given = {"PYSPARK_GATEWAY_PORT": str(java.port), "PYSPARK_GATEWAY_SECRET": java.secret, "PYSPARK_PYTHON": python}
    before = {name: os.environ.get(name) for name in given}
    os.environ |= given
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _forget(context_class: Any, session_class: Any) -> None:
    """pyspark remembers its JVM for the life of the process; the next job gets another one."""
    active = context_class._active_spark_context
    if active is not None:
        with contextlib.suppress(Exception):
            active._accumulatorServer.shutdown()
    gateway = context_class._gateway
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
    context_class._gateway = context_class._jvm = context_class._active_spark_context = None
    session_class._instantiatedSession = session_class._activeSession = None


@contextlib.contextmanager
def _deadline(spark: Any, timeout_s: float | None) -> Iterator[Deadline]:
    deadline = Deadline()
    context, tag = spark.sparkContext, f"pinotpy-{secrets.token_hex(8)}"

    def cancel() -> None:
        deadline.passed = True
        context.cancelJobsWithTag(tag)  # others may have jobs of their own here

    context.addJobTag(tag)
    timer = threading.Timer(timeout_s, cancel) if timeout_s is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield deadline
    finally:
        if timer is not None:
            timer.cancel()
        with contextlib.suppress(Exception):  # the JVM may be gone
            context.removeJobTag(tag)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM leaves by the way of all ends, so that nothing stays behind. Only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
