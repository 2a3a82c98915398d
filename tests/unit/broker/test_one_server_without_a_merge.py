"""Proves that an answer of one server alone is not merged by the broker, small or large, as JSON and as Arrow, and that
it has the bytes of the answer that is merged of two servers.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from built_segments import config_of
from in_process import InProcessCluster

from pinotpy.broker import reducing
from pinotpy.config.schema import Schema
from pinotpy.query.model.context import QueryContext
from pinotpy.query.result import combine
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.small_answers import SHORT_ROWS_MAX

SCHEMA: dict[str, Any] = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "key", "dataType": "INT"}, {"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "amount", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
ROWS = 6_000  # as groups more than 64 KiB, which are reduced on another thread


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> InProcessCluster:
    """A segment of each of four days, on two servers in turns."""
    some = InProcessCluster(tmp_path_factory.mktemp("t"), num_servers=2, prunes=True)
    splits = [
        [
            pa.record_batch(
                {
                    "key": pa.array(range(ROWS), pa.int32()),
                    "city": pa.array([b"c%d" % (number % 7) for number in range(ROWS)], pa.binary()),
                    "amount": pa.array([day + number / 8 for number in range(ROWS)], pa.float64()),
                    "day": pa.array([day] * ROWS, pa.int32()),
                }
            )
        ]
        for day in range(4)
    ]
    config = config_of({}, segmentsConfig={"replication": "1", "timeColumnName": "day"})
    some.add_table(Schema.from_json(SCHEMA), config, splits)
    return some


class Merges:
    """How often the broker brings answers together: `at_all` calls of the long way, by which one large answer is put in
    order, too; `rows` calls of what joins rows of several answers.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at_all = self.rows = 0
        self._is_broker = False
        whole, partitioned = reducing.merge_partials, reducing.merge_by_partitions

        def merge_partials(context: QueryContext, partials: list[PartialResult]) -> PartialResult:
            self.at_all, self._is_broker = self.at_all + 1, True
            try:
                return whole(context, partials)
            finally:
                self._is_broker = False

        def merge_by_partitions(*args: Any) -> PartialResult:
            self.rows += 1
            return partitioned(*args)

        patch.setattr(reducing, "merge_partials", merge_partials)
        patch.setattr(reducing, "merge_by_partitions", merge_by_partitions)
        for name in ("_grouped", "distinct_rows"):
            patch.setattr(combine, name, self._counted(getattr(combine, name)))
        patch.setattr(combine.pa, "concat_tables", self._counted(pa.concat_tables))

    def _counted(self, work: Any) -> Any:
        def counted(*args: Any, **more: Any) -> Any:
            self.rows += self._is_broker
            return work(*args, **more)

        return counted

    def of(self, ask: Any, text: str, options: str = "") -> tuple[Any, int, int]:
        """The answer, and how often this merged at all, and rows."""
        self.at_all = self.rows = 0
        return ask(text, query_options=options), self.at_all, self.rows


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> Merges:
    return Merges(monkeypatch)


SMALL = (
    "SELECT COUNT(*), SUM(amount), DISTINCTCOUNT(city) FROM t WHERE day = 1",
    "SELECT city, COUNT(*), AVG(amount) FROM t WHERE day = 1 GROUP BY city ORDER BY city",
    "SELECT DISTINCT city FROM t WHERE day = 1 ORDER BY city",
    "SELECT key, city, amount FROM t WHERE day = 1 ORDER BY city, key LIMIT 20",
)
LARGE = (
    f"SELECT key, city, SUM(amount), DISTINCTCOUNT(city) FROM t WHERE day = 1 GROUP BY key, city ORDER BY key "
    f"LIMIT {ROWS}",
    f"SELECT DISTINCT key, city FROM t WHERE day = 1 ORDER BY key LIMIT {ROWS}",
    f"SELECT key, city, amount FROM t WHERE day = 1 ORDER BY city, key LIMIT {ROWS}",
)


@pytest.mark.parametrize("text", [*SMALL, *LARGE])
def test_one_server_answers_without_a_merge(cluster: InProcessCluster, merges: Merges, text: str) -> None:
    merged, at_all, rows = merges.of(cluster.sql, text, "skipBrokerPruning=true")
    assert merged["numServersQueried"] == 2 and at_all == 1, "the test sees merges"
    for _ in range(3):  # compiled, known, as a template
        answer, at_all, rows = merges.of(cluster.sql, text)
        assert (answer["numServersQueried"], answer["numSegmentsPrunedByBroker"]) == (1, 3)
        assert rows == 0 and at_all == (text in LARGE)
        assert json.dumps(answer["resultTable"]) == json.dumps(merged["resultTable"])
    assert (len(merged["resultTable"]["rows"]) > SHORT_ROWS_MAX) == (text in LARGE)


@pytest.mark.parametrize("text", [*SMALL, *LARGE])
def test_one_server_answers_as_arrow_without_a_merge(cluster: InProcessCluster, merges: Merges, text: str) -> None:
    answer, _, rows = merges.of(cluster.ask_arrow, text)
    assert rows == 0
    merged, _, _ = merges.of(cluster.ask_arrow, text, "skipBrokerPruning=true")
    assert (answer.response["numServersQueried"], merged.response["numServersQueried"]) == (1, 2)
    assert answer.types == merged.types and [*answer.rows] == [*merged.rows] != []


def test_rows_of_two_servers_are_merged(cluster: InProcessCluster, merges: Merges) -> None:
    for text in SMALL[:3] + LARGE[:2]:
        answer, at_all, rows = merges.of(cluster.sql, text.replace("day = 1", "day < 2"))
        assert answer["numServersQueried"] == 2 and at_all == 1 and rows > 0, text
