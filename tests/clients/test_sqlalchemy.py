"""Proves that SQLAlchemy's dialect `pinot` works as it is, and what dashboards do with it: tables and columns are
found, statements compiled by SQLAlchemy are answered, and time is cut into grains as Superset cuts it. DuckDB computes
over the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pytest
import sqlalchemy as sa
from live_cluster import LiveCluster
from trips_table import NUM_TRIPS, TRIPS

pytestmark = pytest.mark.cluster

TYPES = {
    "tripId": sa.BigInteger,
    "city": sa.String,
    "order": sa.BigInteger,
    "paid": sa.Boolean,
    "payload": sa.LargeBinary,
    "details": sa.JSON,
    "tags": sa.String,
    "marks": sa.BigInteger,
    "distance": sa.BigInteger,
    "fare": sa.Numeric,
    "share": sa.Float,
    "price": sa.Numeric,
    "at": sa.TIMESTAMP,
    "atMillis": sa.BigInteger,
    "atSeconds": sa.BigInteger,
    "day": sa.String,
}


# The second is what Superset's form proposes: SQL at /query.
@pytest.fixture(scope="module", params=["pinot://{broker}/query/sql", "pinot+http://{broker}/query"])
def engine(trips_cluster: LiveCluster, request: pytest.FixtureRequest) -> Iterator[sa.Engine]:
    address = request.param.format(broker=urlsplit(trips_cluster.broker_url).netloc)
    made = sa.create_engine(f"{address}?controller={trips_cluster.controller_url}/")
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    names = ("tripId", "city", "order", "paid", "distance", "fare", "atMillis")
    rows = pa.table(
        {name: [row[name] for row in TRIPS] for name in names}
        | {"at": [row["at"].replace(tzinfo=None) for row in TRIPS]}
    )
    connection = duckdb.connect()
    connection.register("trips", rows)
    yield connection
    connection.close()


def asked(engine: sa.Engine, statement: Any) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [
            tuple(row) for row in connection.execute(sa.text(statement) if isinstance(statement, str) else statement)
        ]


# --- what a dashboard asks before the first query --------------------------------------------------------------------


def test_schemas_tables_and_columns_are_found(engine: sa.Engine) -> None:
    found = sa.inspect(engine)
    assert found.get_schema_names() == ["default"]
    assert found.get_table_names() == found.get_table_names(schema="default") == ["trips"]
    assert (found.has_table("trips"), found.has_table("trips", schema="default"), found.has_table("nosuch")) == (
        True,
        True,
        False,
    )
    assert {column["name"]: type(column["type"]) for column in found.get_columns("trips", schema="default")} == TYPES
    assert (
        found.get_pk_constraint("trips")["constrained_columns"] == []
        and found.get_view_names() == []
        and found.get_indexes("trips") == []
    )


def test_the_probe_of_a_connection_is_answered(engine: sa.Engine) -> None:
    assert asked(engine, "SELECT 1") == [(1,)]


def test_a_preview_of_all_columns_is_answered(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        preview = connection.execute(sa.text("SELECT * FROM trips LIMIT 100"))
        assert list(preview.keys()) == sorted(TYPES) and len(preview.fetchall()) == 100


# --- statements that SQLAlchemy compiles -----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[None, "default"])
def trips(engine: sa.Engine, request: pytest.FixtureRequest) -> sa.Table:
    return sa.Table("trips", sa.MetaData(), schema=request.param, autoload_with=engine)


def test_groups_with_labels_and_reserved_names(
    engine: sa.Engine, trips: sa.Table, duck: duckdb.DuckDBPyConnection
) -> None:
    count, fares = sa.func.count().label("COUNT(*)"), sa.func.sum(trips.c.fare).label("SUM(fare)")
    chosen = trips.c.city.in_(["Oslo", "O'Hare", "100 %"])
    statement = (
        sa.select(trips.c.order, count, fares)
        .where(chosen)
        .group_by(trips.c.order)
        .order_by(sa.func.count().desc(), trips.c.order)
        .limit(10)
    )
    expected = duck.execute(
        """SELECT "order", COUNT(*), SUM(fare) FROM trips WHERE city IN ('Oslo', 'O''Hare', '100 %')
           GROUP BY 1 ORDER BY 2 DESC, 1"""
    ).fetchall()
    assert [(key, number, float(total)) for key, number, total in asked(engine, statement)] == expected


def test_selections_with_offset_and_order(engine: sa.Engine, trips: sa.Table) -> None:
    statement = (
        sa.select(trips.c.tripId, trips.c.city, trips.c.at, trips.c.details)
        .order_by(trips.c.tripId.desc())
        .limit(5)
        .offset(2)
    )
    rows = TRIPS[-3:-8:-1]
    assert asked(engine, statement) == [
        (
            row["tripId"],
            row["city"],
            row["at"].replace(tzinfo=None),
            {"seat": row["tripId"] % 5, "name": f"n{row['tripId'] % 2}"},
        )
        for row in rows
    ]


def test_conditions_of_every_kind(engine: sa.Engine, trips: sa.Table) -> None:
    columns = trips.c
    conditions = [
        (columns.paid == sa.true(), lambda row: row["paid"]),
        (columns.city == "O'Hare", lambda row: row["city"] == "O'Hare"),
        (columns.city.like("100 %"), lambda row: (row["city"] or "").startswith("100 ")),
        (columns.city.is_(None), lambda row: row["city"] is None),
        (columns.city.is_not(None), lambda row: row["city"] is not None),
        (columns.tripId.between(10, 20), lambda row: 10 <= row["tripId"] <= 20),
        (columns.tripId.notin_([1, 2, 3]), lambda row: row["tripId"] not in (1, 2, 3)),
        (
            sa.or_(columns.order == 2, sa.and_(columns.tripId < 9, sa.not_(columns.paid == sa.true()))),
            lambda row: row["order"] == 2 or (row["tripId"] < 9 and not row["paid"]),
        ),
        (columns.price > sa.literal_column(str(10**20 + 1)), lambda row: row["price"] > 10**20 + 1),
        (columns.day >= "2024-01-03", lambda row: row["day"] >= "2024-01-03"),
    ]
    for condition, holds in conditions:
        statement = sa.select(sa.func.count()).select_from(trips).where(condition)
        assert asked(engine, statement) == [(sum(map(bool, map(holds, TRIPS))),)], str(condition)


def test_distinct_values_of_a_filter_box(engine: sa.Engine, trips: sa.Table) -> None:
    statement = sa.select(trips.c.city).where(trips.c.city.is_not(None)).distinct().limit(1000)
    assert {city for (city,) in asked(engine, statement)} == {row["city"] for row in TRIPS} - {None}


def test_having_on_an_aggregate(engine: sa.Engine, trips: sa.Table, duck: duckdb.DuckDBPyConnection) -> None:
    statement = (
        sa.select(trips.c.day, sa.func.max(trips.c.distance))
        .group_by(trips.c.day)
        .having(sa.func.count() < 15)
        .order_by(trips.c.day)
    )
    expected = duck.execute(
        "SELECT strftime(\"at\", '%Y-%m-%d') AS d, MAX(distance)::DOUBLE FROM trips GROUP BY 1 HAVING COUNT(*) < 15 "
        "ORDER BY 1"
    ).fetchall()
    assert expected and asked(engine, statement) == expected


def test_an_error_of_a_query_is_sqlalchemys_database_error(engine: sa.Engine) -> None:
    with pytest.raises(sa.exc.DatabaseError, match="UnknownColumnError"):
        asked(engine, "SELECT nosuch FROM trips")


# --- time as Superset cuts it: name → expression over {col}, and what DuckDB says for it ------------------------------

NAMED = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
BUCKETS = {"PT5M": 300_000, "PT10M": 600_000, "PT15M": 900_000, "PT30M": 1_800_000}
GRAINS = {
    **{
        name: (f"CAST(DATE_TRUNC('{name}', CAST({{col}} AS TIMESTAMP)) AS TIMESTAMP)", f"date_trunc('{name}', \"at\")")
        for name in NAMED
    },
    **{
        name: (
            f"CAST(ROUND(DATE_TRUNC('minute', CAST({{col}} AS TIMESTAMP)), {millis}) AS TIMESTAMP)",
            f"time_bucket(INTERVAL {millis} MILLISECONDS, \"at\", TIMESTAMP '1970-01-01')",
        )
        for name, millis in BUCKETS.items()
    },
}


@pytest.mark.parametrize("column", ['"at"', "atMillis"])
@pytest.mark.parametrize("grain", GRAINS)
def test_a_chart_over_time_in_every_grain(
    engine: sa.Engine, duck: duckdb.DuckDBPyConnection, grain: str, column: str
) -> None:
    template, of_duck = GRAINS[grain]
    time = sa.literal_column(template.format(col=column), sa.TIMESTAMP)
    fares, start, end = (
        sa.func.sum(sa.column("distance")).label("SUM(distance)"),
        "2024-01-01 00:00:00.000000",
        "2024-01-11 00:00:00.000000",
    )
    statement = (
        sa.select(time.label("__timestamp"), sa.func.count().label("count"), fares)
        .select_from(sa.table("trips"))
        .where(
            sa.literal_column('"at"') >= sa.literal_column(f"'{start}'"),
            sa.literal_column('"at"') < sa.literal_column(f"'{end}'"),
        )
        .group_by(time)
        .order_by(time)
        .limit(10_000)
    )
    expected = duck.execute(
        f'SELECT {of_duck} AS t, COUNT(*), SUM(distance)::DOUBLE FROM trips WHERE "at" >= \'{start}\' AND "at" < '
        f"'{end}' GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert expected and asked(engine, statement) == expected


OTHER_COLUMNS = {
    "DATETIMECONVERT(atSeconds, '1:SECONDS:EPOCH', '1:SECONDS:EPOCH', '1:HOURS')": "epoch_ms(date_trunc('hour', "
    '"at")) // 1000',
    "DATETIMECONVERT(atMillis, '1:MILLISECONDS:EPOCH', '1:MILLISECONDS:EPOCH', '15:MINUTES')": "atMillis // 900000 * "
    "900000",
    "DATETIMECONVERT(day, '1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd', '1:DAYS:EPOCH', '1:DAYS')": "atMillis // 86400000",
    "DATETRUNC('week', atSeconds, 'SECONDS', 'UTC', 'SECONDS')": "epoch_ms(date_trunc('week', \"at\")) // 1000",
    "DATETRUNC('month', atMillis, 'MILLISECONDS')": "epoch_ms(date_trunc('month', \"at\"))",
    "DATETRUNC('quarter', FROMDATETIME(day, 'yyyy-MM-dd'), 'MILLISECONDS')": "epoch_ms(date_trunc('quarter', \"at\"))",
    "TODATETIME(DATETRUNC('day', \"at\", 'MILLISECONDS'), 'yyyy-MM-dd HH:mm')": "strftime(\"at\", '%Y-%m-%d 00:00')",
    "CAST(DATE_TRUNC('day', CAST(DATETIMECONVERT(atMillis, '1:MILLISECONDS:EPOCH', '1:MILLISECONDS:EPOCH', "
    "'1:MILLISECONDS') AS TIMESTAMP)) AS TIMESTAMP)": ("date_trunc('day', \"at\")"),
    "CAST(DATE_TRUNC('week', CAST(\"day\" AS TIMESTAMP)) AS TIMESTAMP)": "date_trunc('week', \"at\")",
    "ROUND(atSeconds, 30)": "atMillis // 30000 * 30",
}


@pytest.mark.parametrize("expression", OTHER_COLUMNS)
def test_epochs_and_patterns_are_cut_too(engine: sa.Engine, duck: duckdb.DuckDBPyConnection, expression: str) -> None:
    expected = duck.execute(
        f"SELECT {OTHER_COLUMNS[expression]} AS t, COUNT(*) FROM trips GROUP BY 1 ORDER BY 1"
    ).fetchall()
    query = f"SELECT {expression} AS t, COUNT(*) FROM trips GROUP BY {expression} ORDER BY {expression} LIMIT 1000"
    assert asked(engine, query) == expected and sum(count for _, count in expected) == NUM_TRIPS


def test_nulls_are_nulls_unless_the_statement_asks_for_default_values(engine: sa.Engine) -> None:
    fares = [row["fare"] for row in TRIPS]
    values = [fare for fare in fares if fare is not None]
    assert 0 < len(values) < len(fares)
    query = "SELECT COUNT(fare), AVG(fare) FROM trips"
    first = "SELECT fare FROM trips WHERE fare IS NULL LIMIT 1"
    ((count, average),) = asked(engine, query)
    assert count == len(values) and average == pytest.approx(sum(values) / len(values))
    assert asked(engine, first) == [(None,)]
    # The default of a metric is 0.
    defaults = "SET enableNullHandling=false; "
    ((count, average),) = asked(engine, defaults + query)
    assert count == len(fares) and average == pytest.approx(sum(values) / len(fares))
    assert asked(engine, defaults + first) == [(0.0,)]
