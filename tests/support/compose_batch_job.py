"""The batch job of the compose trial: two CSV files become segments on Spark inside the service spark, are pushed as
user loader, and the table's answers are compared with sums over the same rows.
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections import Counter
from typing import TYPE_CHECKING, Any

from trial_checks import require

if TYPE_CHECKING:
    from compose_trial import Trial

TABLE = "orders"
MONTHS = (1, 2)
FOLDER = "/var/lib/pinotpy/orders"
CITIES = ("Berlin", "Oslo", "Lisbon", "Łódź")
SCHEMA: dict[str, Any] = {
    "schemaName": TABLE,
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
CONFIG: dict[str, Any] = {
    "tableName": TABLE, "tableType": "OFFLINE", "tenants": {}, "metadata": {},
    "segmentsConfig": {"timeColumnName": "day", "replication": "2"},
    "tableIndexConfig": {"invertedIndexColumns": ["city"]},
}  # fmt: skip
# The password comes from the service's environment, not from a file or a command line.
JOB = """
jobType: SegmentCreationAndTarPush
inputDirURI: /var/lib/pinotpy/orders/data
includeFileNamePattern: 'glob:**/*.csv'
outputDirURI: /var/lib/pinotpy/orders/segments
recordReaderSpec: {dataFormat: csv}
tableSpec: {tableName: orders}
pinotClusterSpecs: [{controllerURI: 'http://controller:9000'}]
authToken: ${AUTHORIZATION}
"""
AUTHORIZATION = 'export AUTHORIZATION="Basic $(printf %s:%s "$PINOTPY_USER" "$PINOTPY_PASSWORD" | base64 -w0)"'


def rows(month: int) -> list[tuple[int, str, int]]:
    """(day, city, amount) of a file; every file has other sums."""
    return [
        (20_000 + 31 * month + number % 28, CITIES[number * number % len(CITIES)], number * 7 + month)
        for number in range(500 + 100 * month)
    ]


def run_orders_job(trial: Trial) -> str:
    """Files in, schema and table by the admin, the job in the service; returns what it did, as its report says."""
    files = {"job.yaml": JOB, **{f"data/month-{month}.csv": _csv(rows(month)) for month in MONTHS}}
    trial.execute("spark", "sh", "-c", f"mkdir -p {FOLDER} && tar -x -C {FOLDER}", input=_tar(files), timeout_s=60)
    with trial.controller() as controller:
        controller.add_schema(SCHEMA)
        controller.add_table(CONFIG)
    job = f"{AUTHORIZATION}; pinotpy spark run {FOLDER}/job.yaml --master 'local[2,4]' --json"
    report = json.loads(trial.execute("spark", "sh", "-euc", job, timeout_s=400))
    num_rows = sum(len(rows(month)) for month in MONTHS)
    require(
        report["numRowsIndexed"] == num_rows, f"the job says {report['numRowsIndexed']} rows, the files have {num_rows}"
    )
    with trial.controller() as controller:
        controller.wait_until_online(TABLE, timeout_s=60)
    return f"{num_rows:,} rows in {len(report['segments'])} segments"


def check_orders(trial: Trial) -> None:
    """Raises TrialError unless the table answers as the files say."""
    count, total = Counter[str](), Counter[str]()
    for month in MONTHS:
        for _, city, amount in rows(month):
            count[city] += 1
            total[city] += amount
    answer = trial.ask(f"SELECT city, COUNT(*), SUM(amount) FROM {TABLE} GROUP BY city ORDER BY city LIMIT 10", "sql")
    require(not answer["exceptions"], f"the table {TABLE} answers {answer['exceptions']}")
    found = {city: (num, amount) for city, num, amount in answer["resultTable"]["rows"]}
    expected = {city: (count[city], total[city]) for city in count}
    require(found == expected, f"the table {TABLE} says {found}, the files {expected}")


def _csv(lines: list[tuple[int, str, int]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("day", "city", "amount"))
    writer.writerows(lines)
    return text.getvalue()


def _tar(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
