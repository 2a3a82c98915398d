"""Proves that after `warm()` a query compiles nothing: in a process of its own, so that no other test compiled it before."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import gc
from numba.core.dispatcher import Dispatcher
from pinotpy.query import execute

def compiled():
    return {(d.py_func.__module__, d.py_func.__name__): len(d.signatures) for d in gc.get_objects() if isinstance(d, Dispatcher)}

execute.warm()
before = compiled()
from fake_segment import FakeSegment, fake_column
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile import compile_query
from pinotpy.query.context import QueryOptions
from pinotpy.query.control import QueryControl
from pinotpy.config.schema import Schema

fields = [{"name": "a", "dataType": "INT"}, {"name": "s", "dataType": "STRING"}, {"name": "r", "dataType": "DOUBLE"}]
schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": fields})
segments = [
    FakeSegment(
        f"s{i}",
        [
            fake_column("a", DataType.INT, list(range(300)), inverted=True),
            fake_column("s", DataType.STRING, [b"%d" % (d % 40) for d in range(300)], inverted=True),
            fake_column("r", DataType.DOUBLE, [d / 7 for d in range(300)], dictionary=False),
        ],
    )
    for i in range(5)
]
for text in (
    "SELECT COUNT(*) FROM t WHERE a > 7 AND s IN ('1', '7', '9') AND r < 30",
    "SELECT s, SUM(r) FROM t WHERE a = 7 OR s LIKE '1%' GROUP BY s ORDER BY s",
    "SELECT a, s FROM t WHERE s = '7' ORDER BY s, r DESC LIMIT 4",
    "SELECT a FROM t WHERE r IN (1, 2) LIMIT 4",
):
    context = compile_query(parse_sql(text), schema, QueryOptions(), null_handling=False)
    assert execute.execute(context, segments, QueryControl()).rows is not None
print({name: count for name, count in compiled().items() if before.get(name) != count})
"""


def test_nothing_is_compiled_after_warm() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{}"
