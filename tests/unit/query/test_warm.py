"""Proves that after `warm()` a wide set of queries compiles nothing: in a process of its own, so that no other test
compiled it before.
"""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import gc
import numpy as np
from numba.core.dispatcher import Dispatcher
from pinotpy.query.execute import execute
from pinotpy.query.warm import warm

def compiled():
    dispatchers = [d for d in gc.get_objects() if isinstance(d, Dispatcher)]
    return {(d.py_func.__module__, d.py_func.__name__): len(d.signatures) for d in dispatchers}

warm()
before = compiled()
from fake_segment import FakeSegment, fake_column
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.kernel_threads import KernelThreads
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.config.schema import Schema

kinds = {"a": "INT", "s": "STRING", "r": "DOUBLE", "l": "LONG", "f": "FLOAT", "t": "STRING"}
fields = [{"name": name, "dataType": kind} for name, kind in kinds.items()]
fields.append({"name": "m", "dataType": "STRING", "singleValueField": False})
schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": fields})
segments = [
    FakeSegment(
        f"s{i}",
        [
            fake_column("a", DataType.INT, [None if d % 13 == 5 else d for d in range(300)], inverted=True),
            fake_column("s", DataType.STRING, [b"%d" % (d % 40) for d in range(300)], inverted=True),
            fake_column("r", DataType.DOUBLE, [d / 7 for d in range(300)], dictionary=False),
            fake_column("l", DataType.LONG, [i * 300 + d for d in range(300)]),
            fake_column("f", DataType.FLOAT, [float(d % 9) for d in range(300)]),
            fake_column("t", DataType.STRING, [b"text %d" % (d % 11) for d in range(300)], dictionary=False),
            fake_column("m", DataType.STRING, [[b"%d" % (d % 4), b"x"] for d in range(300)], single_value=False),
        ],
    )
    for i in range(5)
]
whole = SegmentSet(segments)
executor = KernelThreads(2)
texts = (
    "SELECT COUNT(*) FROM t WHERE a > 7 AND s IN ('1', '7', '9') AND r < 30",
    "SELECT s, SUM(r) FROM t WHERE a = 7 OR s LIKE '1%' GROUP BY s ORDER BY s",
    "SELECT a, s FROM t WHERE s = '7' ORDER BY s, r DESC LIMIT 4",
    "SELECT a FROM t WHERE r IN (1, 2) LIMIT 4",
    "SELECT SUM(l), MIN(f), MAX(r), AVG(a), COUNT(*) FROM t WHERE l BETWEEN 310 AND 700 AND NOT (f = 3 OR r >= 40)",
    "SELECT s, f, COUNT(*), SUM(l) FROM t WHERE t <> 'text 3' GROUP BY s, f LIMIT 1000",
    "SELECT l, r, COUNT(*) FROM t WHERE a IS NOT NULL GROUP BY l, r LIMIT 10000",
    "SELECT m, COUNT(*), MIN(l) FROM t WHERE m = '2' AND l > 5 GROUP BY m",
    "SELECT DISTINCT s, f FROM t WHERE t IN ('text 1', 'text 2') LIMIT 10",
    "SELECT DISTINCTCOUNT(s), DISTINCTCOUNT(l), DISTINCTCOUNTHLL(s) FROM t WHERE r > 2",
    "SELECT f, DISTINCTCOUNT(s), PERCENTILE(l, 95) FROM t WHERE a < 250 GROUP BY f",
    "SELECT s, SUM(l * 2 + a), COUNT(*) FROM t WHERE a + 1 > 20 AND t LIKE '%1' GROUP BY s",
    "SELECT upper(s), SUM(r) FROM t WHERE REGEXP_LIKE(t, 'text [5-9]') GROUP BY upper(s)",
    "SELECT SUM(l) FILTER (WHERE s = '3'), COUNT(*) FROM t WHERE f > 1.5",
    "SELECT $segmentName, COUNT(*) FROM t WHERE l > 400 GROUP BY $segmentName",
    "SELECT l, t FROM t WHERE t >= 'text 2' ORDER BY l DESC LIMIT 3",
)
for text in texts:
    for null_handling in (False, True):
        context = compile_query(parse_sql(text), schema, QueryOptions(), null_handling=null_handling)
        for part in (whole, whole.take(np.array([3, 1]))):
            assert execute(context, part, QueryControl(), threads=2, executor=executor).rows is not None, text
print({name: count for name, count in compiled().items() if before.get(name) != count})
"""


def test_nothing_is_compiled_after_warm() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{}"
