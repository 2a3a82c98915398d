"""What Spark says when it fails, in a sentence: the cause, where it happened, and what to set where the executors'
Python lacks a package.

Spark's text is a stack of stacks: of the driver's JVM, of the executor's JVM, of the Python worker with its lines of
source.
"""

from __future__ import annotations

import contextlib
import re
import sys
from typing import Any, Final

from pinotpy.errors import ClusterError, PinotError

_TEXT_MAX: Final = 1_000
_PROBES: Final = 8
_TRACEBACK: Final = "Traceback (most recent call last):"
# The last line of a traceback: `package.Name: message`, which may go on below. Its frames and lines of source are
# indented.
_RAISED: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?::.*)?$")
_LOST_TASK: Final = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\w+)\)")
_JAVA_RAISED: Final = re.compile(r"^(?:Caused by: |: )(?:[\w$]+\.)+([\w$]+): (.*)$", re.MULTILINE)
_NO_MODULE: Final = re.compile(r"No module named '?([\w.]+)'?")
# A worker that ends before it has read its task may leave this alone in place of what it raised.
_WORKER_GONE: Final = ("SocketException", "EOFException", "Python worker exited unexpectedly")
_SET: Final = (
    "Executors need the driver's Python and its packages: where they are installed on all machines, set "
    "spark.pyspark.python (or PYSPARK_PYTHON) to "
    "that interpreter; else ship them, --archives venv.tar.gz#venv --conf spark.pyspark.python=./venv/bin/python "
    "(docs/spark.md)"
)


def spark_failure(error: Exception, spark: Any) -> PinotError:
    """The failure as one of ours. `spark`: the session, to ask the executors which Python they run."""
    text = str(error)
    cause = _cause(text) or type(error).__name__
    name, _, message = cause.partition(": ")
    if name.startswith("pinotpy.errors."):
        return ClusterError(f"a task failed in every attempt{_where(text)}: {message.strip()[:_TEXT_MAX]}")
    missing = _NO_MODULE.search(cause)
    lacking = missing[1] if missing is not None and name.endswith(("ModuleNotFoundError", "ImportError")) else ""
    if lacking or any(word in cause for word in _WORKER_GONE):
        pythons, absent = _executors(spark)
        if lacking or absent:
            return ClusterError(
                f"the executors' Python has no package '{lacking or absent}'{_where(text)}: {pythons}. {_SET}"
            )
    if "Cannot run program" in cause:
        return ClusterError(f"the executors' Python cannot be started{_where(text)}: {cause[:_TEXT_MAX]}. {_SET}")
    return ClusterError(f"Spark failed{_where(text)}: {cause[:_TEXT_MAX]}")


def _cause(text: str) -> str:
    """What a Python worker raised; else the innermost cause that the JVM names; else the first line."""
    raised = _raised_in_python(text)
    if raised:
        return raised
    # The text of an aborted stage names the task's failure; everything below are the driver's own frames.
    named = [f"{name}: {message.strip()}" if message.strip() else name for name, message in _JAVA_RAISED.findall(text)]
    if named:
        return named[-1]
    return next(
        (line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "File "))),
        "",
    )


def _raised_in_python(text: str) -> str:
    """The end of the first traceback, which may be a chain of several: the last error of it, with the lines of its
    message.
    """
    begin = text.find(_TRACEBACK)
    if begin < 0:
        return ""
    stack = re.split(r"\n\s+at \S", text[begin:], maxsplit=1)[0].splitlines()
    ends = [
        number
        for number, line in enumerate(stack)
        if _RAISED.match(line) and not line.startswith(("Traceback", "During", "The above"))
    ]
    if not ends:
        return ""
    message = [stack[ends[-1]]]
    for line in stack[ends[-1] + 1 :]:
        if not line.strip():
            break
        message.append(line.strip())
    return " ".join(message)


def _where(text: str) -> str:
    """` on host … (executor …)` of the task whose loss ended the job; empty where Spark does not say."""
    lost = _LOST_TASK.search(text)
    return "" if lost is None else f" on {lost[1]} (executor {lost[2]})"


def _executors(spark: Any) -> tuple[str, str]:
    """(which interpreters the executors run, and where; a package that one of them lacks, or ""). What they do not
    answer is as Spark was told.
    """

    def running(_: int) -> tuple[str, str]:
        # A function inside a function travels whole: executors may lack this very package.
        import importlib
        import platform
        import socket
        import sys

        try:
            importlib.import_module("pinotpy.spark_jobs.executing")
            lacking = ""
        except ImportError as error:
            lacking = str(error.name)
        return f"'{sys.executable}' ({platform.python_version()}) on {socket.gethostname()}", lacking

    interpreters: list[tuple[str, str]] = []
    with contextlib.suppress(Exception):
        interpreters = sorted(set(spark.sparkContext.parallelize(range(_PROBES), _PROBES).map(running).collect()))
    pythons = dict.fromkeys(python for python, _ in interpreters)
    theirs = (
        f"they run {', '.join(pythons)}"
        if pythons
        else f"Spark was told to run '{spark.sparkContext.pythonExec}' there"
    )
    return f"{theirs}, the driver '{sys.executable}'", next((lacking for _, lacking in interpreters if lacking), "")
