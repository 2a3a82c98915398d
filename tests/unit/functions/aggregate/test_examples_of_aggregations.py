"""Proves that every aggregation says what it answers and shows it, that each example of the generated table gives the
value shown (asked as a whole query over the table of examples, in both dialects), and that the conditions of the page
keep as many rows as it says. The oracle of the sketches in text form is the datasketches library, and the distinct
values written down here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from datasketches import compact_theta_sketch
from example_table import NAME, example_cluster
from in_process import InProcessCluster

from pinotpy.data_types import DataType
from pinotpy.functions.spec import AggregateFunction, Argument, functions
from pinotpy.pql.aggregation_names import find_aggregation
from pinotpy.pql.ast import Dialect
from pinotpy.query.documentation import OPERATORS, Operator

FUNCTIONS = [function for name, function in sorted(functions().items()) if name == function.name]
# Error codes in PQL, which has no SUMPRECISION of numbers, and no conditions as arguments.
SQL_ONLY = {"sumprecision": 200, "booland": 150, "boolor": 150}
TYPES = {"anyvalue": Argument(DataType.STRING)}


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    cluster = example_cluster(tmp_path_factory.mktemp("examples"))
    yield cluster
    cluster.close()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_an_aggregation_says_what_it_answers_and_shows_it(function: AggregateFunction) -> None:
    assert function.summary.endswith(".")
    assert function.accuracy
    example = function.examples[function.name]
    named = find_aggregation(example.call.partition("(")[0])
    assert named is not None and (named[0].name == function.name or example.call.startswith("COUNT(DISTINCT"))
    assert (named[0].arguments_max > 1 or "(DISTINCT" in example.call) == bool(function.parameters), (
        "arguments that the signature does not show"
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_an_example_of_an_aggregation_gives_the_value_shown(
    function: AggregateFunction, games: InProcessCluster
) -> None:
    example = function.examples[function.name]
    table = games.sql(f"SELECT {example.call} FROM {NAME}")["resultTable"]
    argument = TYPES[function.name] if function.name in TYPES else Argument(DataType.INT)
    assert table["dataSchema"]["columnDataTypes"] == [function.result_of(argument).name] or function.result_text
    assert table["rows"] == [[example.value]]
    assert type(table["rows"][0][0]) is type(example.value)
    if function.sql_only:
        answer = games.pql(f"SELECT {example.call} FROM {NAME}")
        assert [exception["errorCode"] for exception in answer["exceptions"]] in ([150], [200])
        return
    answer = games.pql(f"SELECT {example.call} FROM {NAME}")
    if function.name in SQL_ONLY:
        assert [exception["errorCode"] for exception in answer["exceptions"]] == [SQL_ONLY[function.name]]
        return
    value = answer["aggregationResults"][0]["value"]
    assert value == (f"{example.value:.5f}" if isinstance(example.value, float) else str(example.value))


def test_the_sketches_shown_hold_the_distinct_values_of_the_table() -> None:
    theta = functions()["distinctcountrawthetasketch"].examples["distinctcountrawthetasketch"].value
    assert compact_theta_sketch.deserialize(base64.b64decode(str(theta))).get_estimate() == 3  # red, blue, green
    known = functions()["idset"].examples["idset"].value
    bitmap = base64.b64decode(str(known))
    assert [int.from_bytes(bitmap[at : at + 2], "little") for at in range(len(bitmap) - 10, len(bitmap), 2)] == [
        1,
        3,
        4,
        5,
        9,
    ]


@pytest.mark.parametrize(
    ("operator", "dialect"),
    [(one, dialect) for one in OPERATORS for dialect in one.dialects],
    ids=lambda value: getattr(value, "condition", str(value)),
)
def test_a_condition_shown_keeps_as_many_rows_as_the_page_says(
    operator: Operator, dialect: Dialect, games: InProcessCluster
) -> None:
    answer = games.ask(f"SELECT COUNT(*) FROM {NAME} WHERE {operator.condition}", dialect)
    assert answer["exceptions"] == []
    found = (
        answer["resultTable"]["rows"][0][0] if dialect is Dialect.SQL else int(answer["aggregationResults"][0]["value"])
    )
    assert found == operator.count


def test_what_stands_for_sql_only_is_refused_in_pql(games: InProcessCluster) -> None:
    for operator in OPERATORS:
        if Dialect.PQL not in operator.dialects:
            assert games.pql(f"SELECT COUNT(*) FROM {NAME} WHERE {operator.condition}")["exceptions"], operator.form
