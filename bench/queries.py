"""The suite: each question in PQL and in DuckDB's SQL, with literals that differ in every repetition."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from bench.data import FIRST_DAY


@dataclass(frozen=True, slots=True)
class Query:
    """`texts(rng)` gives (PQL, SQL of the peer). `ordered`: rows come in a defined order; else compared as sets of values."""

    name: str
    texts: Callable[[random.Random], tuple[str, str]]


def _country(rng: random.Random) -> str:
    return f"country_{rng.randint(0, 150):05d}"


def _days(rng: random.Random, width: int) -> tuple[int, int]:
    low = FIRST_DAY + rng.randint(0, 364 - width)
    return low, low + width


def _sum_of_carrier(rng: random.Random) -> tuple[str, str]:
    where = f"carrier = 'carrier_{rng.randint(0, 14):05d}'"
    return f"SELECT SUM(price) FROM ads WHERE {where}", f"SELECT sum(price) FROM ads WHERE {where}"


def _sum_of_days(rng: random.Random) -> tuple[str, str]:
    low, high = _days(rng, 30)
    return f"SELECT SUM(price) FROM ads WHERE day BETWEEN {low} AND {high}", f"SELECT sum(price) FROM ads WHERE day BETWEEN {low} AND {high}"


def _three_ranges(rng: random.Random) -> tuple[str, str]:
    low, high = _days(rng, 180)
    discount = rng.randint(2, 6)
    where = f"day BETWEEN {low} AND {high} AND discount BETWEEN {discount} AND {discount + 2} AND clicks < {rng.randint(20, 30)}"
    return f"SELECT SUM(price), COUNT(*) FROM ads WHERE {where}", f"SELECT sum(price), count(*) FROM ads WHERE {where}"


def _group_country(rng: random.Random) -> tuple[str, str]:
    clicks = rng.randint(0, 3)
    return (
        f"SELECT SUM(price), COUNT(*), AVG(cost) FROM ads WHERE clicks >= {clicks} GROUP BY country TOP 1000",
        f"SELECT country, sum(price), count(*), avg(cost) FROM ads WHERE clicks >= {clicks} GROUP BY country",
    )


def _group_two(rng: random.Random) -> tuple[str, str]:
    low, high = _days(rng, 200)
    return (
        f"SELECT SUM(cost), COUNT(*) FROM ads WHERE day BETWEEN {low} AND {high} GROUP BY country, carrier TOP 5000",
        f"SELECT country, carrier, sum(cost), count(*) FROM ads WHERE day BETWEEN {low} AND {high} GROUP BY country, carrier",
    )


def _group_campaign(rng: random.Random) -> tuple[str, str]:
    discount = rng.randint(0, 2)
    return (
        f"SELECT SUM(price) FROM ads WHERE discount >= {discount} GROUP BY campaign TOP 10",
        f"SELECT campaign, sum(price) s FROM ads WHERE discount >= {discount} GROUP BY campaign ORDER BY s DESC LIMIT 10",
    )


def _group_user(rng: random.Random) -> tuple[str, str]:
    clicks = rng.randint(0, 5)
    return (
        f"SELECT SUM(price) FROM ads WHERE clicks >= {clicks} GROUP BY user_id TOP 10",
        f"SELECT user_id, sum(price) s FROM ads WHERE clicks >= {clicks} GROUP BY user_id ORDER BY s DESC LIMIT 10",
    )


def _distinct_users(rng: random.Random) -> tuple[str, str]:
    clicks = rng.randint(1, 9)
    return f"SELECT DISTINCTCOUNT(user_id) FROM ads WHERE clicks <> {clicks}", f"SELECT count(DISTINCT user_id) FROM ads WHERE clicks <> {clicks}"


def _extremes(rng: random.Random) -> tuple[str, str]:
    where = "country IN (" + ", ".join(f"'{_country(rng)}'" for _ in range(5)) + ")"
    return (
        f"SELECT MIN(cost), MAX(cost), AVG(cost) FROM ads WHERE {where} GROUP BY carrier TOP 100",
        f"SELECT carrier, min(cost), max(cost), avg(cost) FROM ads WHERE {where} GROUP BY carrier",
    )


def _top_rows(rng: random.Random) -> tuple[str, str]:
    text = f"SELECT user_id, cost, price FROM ads WHERE discount = {rng.randint(0, 10)} AND clicks > {rng.randint(30, 40)} ORDER BY cost DESC, user_id LIMIT 10"
    return text, text


def _thousand_campaigns(rng: random.Random) -> tuple[str, str]:
    where = "campaign IN (" + ", ".join(f"'campaign_{i:05d}'" for i in rng.sample(range(10_000), 1000)) + ")"
    return f"SELECT COUNT(*) FROM ads WHERE {where} GROUP BY carrier TOP 100", f"SELECT carrier, count(*) FROM ads WHERE {where} GROUP BY carrier"


def _regexp(rng: random.Random) -> tuple[str, str]:
    pattern = f"item/\\d*{rng.randint(0, 9)}{rng.randint(0, 9)}\\d?$"
    return (
        f"SELECT COUNT(*) FROM ads WHERE regexp_like(url, '{pattern}') GROUP BY carrier TOP 100",
        f"SELECT carrier, count(*) FROM ads WHERE regexp_matches(url, '{pattern}') GROUP BY carrier",
    )


def _needle(rng: random.Random) -> tuple[str, str]:
    user = rng.randint(0, 1_499_999) * 7919
    return f"SELECT SUM(price), COUNT(*) FROM ads WHERE user_id = {user}", f"SELECT sum(price), count(*) FROM ads WHERE user_id = {user}"


def _range_by_day(rng: random.Random) -> tuple[str, str]:
    clicks = rng.randint(10, 20)
    return (
        f"SELECT MINMAXRANGE(price) FROM ads WHERE clicks < {clicks} GROUP BY day TOP 1000",
        f"SELECT day, max(price) - min(price) FROM ads WHERE clicks < {clicks} GROUP BY day",
    )


def _tags(rng: random.Random) -> tuple[str, str]:
    discount = rng.randint(0, 10)
    return (
        f"SELECT COUNT(*) FROM ads WHERE discount = {discount} GROUP BY tags TOP 1000",
        f"SELECT t, count(*) FROM (SELECT unnest(tags) t FROM ads WHERE discount = {discount}) GROUP BY t",
    )


SUITE: tuple[Query, ...] = (
    Query("q01_count", lambda rng: ("SELECT COUNT(*) FROM ads", "SELECT count(*) FROM ads")),
    Query("q02_eq_sum", _sum_of_carrier),
    Query("q03_day_range", _sum_of_days),
    Query("q04_three_ranges", _three_ranges),
    Query("q05_group_200", _group_country),
    Query("q06_group_2d", _group_two),
    Query("q07_group_10k", _group_campaign),
    Query("q08_group_1500k", _group_user),
    Query("q09_distinct", _distinct_users),
    Query("q10_extremes", _extremes),
    Query("q11_top_rows", _top_rows),
    Query("q12_in_1000", _thousand_campaigns),
    Query("q13_regexp", _regexp),
    Query("q14_needle", _needle),
    Query("q15_range_by_day", _range_by_day),
    Query("q16_multi_value", _tags),
)
