"""Proves that what Spark says of a failure becomes its cause and its place, never a line of source: texts as Spark 4
gives them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pinotpy.errors import ClusterError
from pinotpy.spark_jobs.failures import spark_failure

PLACE = "Lost task 1.3 in stage 0.0 (TID 7) (node7.example executor 3)"
ABORTED = """An error occurred while calling o64.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, \
most recent failure: @: {}
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:599)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.$anonfun$abortStage$2(DAGScheduler.scala:2935)
Caused by: {}
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:599)
""".replace("@", PLACE)
STACK = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1832, in main
    raise PySparkRuntimeError("Error: this Exception is a line of source, which failed")
  File "/opt/venv/pinotpy/fs/s3_files.py", line 88, in open
    return self._client.get_object(Bucket=bucket, Key=key)
KeyError: 'Body'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/opt/venv/pinotpy/fs/s3_files.py", line 90, in open
    raise StorageError(f"Exception of {{key}}") from error
{}
"""


def failed(text: str, *answers: tuple[str, str]) -> str:
    """`answers`: what executors say that are asked."""
    asked = SimpleNamespace(map=lambda ask: SimpleNamespace(collect=lambda: list(answers)))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec="python3", parallelize=lambda *_: asked))
    error = spark_failure(RuntimeError(text), spark)
    assert isinstance(error, ClusterError)
    return error.message


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            "some.package.StorageError: the bucket is gone\nand so are its keys",
            "Spark failed on {}: some.package.StorageError: the bucket is gone and so are its keys",
        ),
        (
            "pinotpy.errors.ClusterError: 's3://a/b': access denied",
            "a task failed in every attempt on {}: 's3://a/b': access denied",
        ),
        ("MemoryError", "Spark failed on {}: MemoryError"),
    ],
)
def test_what_a_worker_raised_is_the_cause(raised: str, told: str) -> None:
    stack = STACK.format(raised)
    assert failed(ABORTED.format(stack, stack)) == told.format("node7.example (executor 3)")
    assert failed(f"An exception was thrown from the Python worker:\n{stack.partition(': ')[2]}") == told.format(
        ""
    ).replace(" on :", ":")


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (
            "java.io.IOException: No space left on device",
            "Spark failed on node7.example (executor 3): IOException: No space left on device",
        ),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            "Spark failed on node7.example (executor 3): OutOfMemoryError: Java heap space",
        ),
    ],
)
def test_without_a_traceback_the_innermost_cause_of_the_jvm_is_told(cause: str, told: str) -> None:
    assert failed(ABORTED.format(cause, cause)) == told


def test_an_error_of_a_query_is_its_first_line() -> None:
    text = (
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `orders` cannot be found. SQLSTATE: 42P01; line 1 pos "
        "14;\n'Project [*]\n+- 'UnresolvedRelation [orders]"
    )
    assert (
        failed(text)
        == "Spark failed: [TABLE_OR_VIEW_NOT_FOUND] The table or view `orders` cannot be found. SQLSTATE: 42P01; line "
        "1 pos 14;"
    )


def test_a_package_that_executors_lack_is_told_with_their_python_and_what_to_set() -> None:
    stack = STACK.format("ModuleNotFoundError: No module named 'numba'")
    asked = (("'/usr/bin/python3' (3.9.2) on node7", "numba"), ("'/opt/python' (3.11.7) on node8", ""))
    told = failed(ABORTED.format(stack, stack), *asked)
    assert told.startswith(
        "the executors' Python has no package 'numba' on node7.example (executor 3): "
        "they run '/opt/python' (3.11.7) on node8, '/usr/bin/python3' (3.9.2) on node7, the driver "
    )
    assert "PYSPARK_PYTHON" in told and "spark.pyspark.python" in told and "--archives" in told
    # A worker that is gone says nothing itself: the executors are asked.
    gone = "java.net.SocketException: Connection reset"
    assert failed(ABORTED.format(gone, gone), *asked).startswith("the executors' Python has no package 'numba'")
    assert (
        failed(ABORTED.format(gone, gone))
        == "Spark failed on node7.example (executor 3): SocketException: Connection reset"
    )
    unanswered = failed(ABORTED.format(stack, stack))
    assert "Spark was told to run 'python3' there" in unanswered


def test_a_python_that_is_not_there_is_told_with_what_to_set() -> None:
    cause = 'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory'
    assert failed(ABORTED.format(cause, cause)).startswith(
        "the executors' Python cannot be started on node7.example (executor 3): IOException: Cannot run program"
    )
