"""A short suite in PQL over `ads`, the table without and with groups, in about a minute."""

from __future__ import annotations

import random
from typing import Final

from bench.data import FIRST_DAY
from bench.suites.query import Parameters, Query, Suite, matching, quoted


def _literals(rng: random.Random) -> Parameters:
    low, wide = FIRST_DAY + rng.randint(0, 334), FIRST_DAY + rng.randint(0, 164)
    campaigns = [f"campaign_{i:05d}" for i in rng.sample(range(10_000), 1_000)]
    countries = [f"country_{i:05d}" for i in rng.sample(range(150), 5)]
    return {
        "carrier": f"carrier_{rng.randint(0, 14):05d}", "low": low, "high": low + 30, "wide": wide,
        "wide_end": wide + 200, "discount": rng.randint(2, 6),
        "clicks": rng.randint(20, 30), "few": rng.randint(0, 3), "user": rng.randint(0, 1_499_999) * 7919,
        "campaigns": quoted(campaigns),
        "campaign_list": campaigns,
        "countries": quoted(countries), "country_list": countries, "a": rng.randint(0, 9), "b": rng.randint(0, 9),
    }  # fmt: skip


_QUERIES: Final = (
    Query(
        "count",
        _literals,
        "SELECT count(*) FROM ads",
        lambda pl, t, p: t.select(pl.len()),
        pql="SELECT COUNT(*) FROM ads",
    ),
    Query(
        "sum_of_carrier",
        _literals,
        "SELECT sum(price) FROM ads WHERE carrier = '{carrier}'",
        lambda pl, t, p: t.filter(pl.col("carrier") == p["carrier"]).select(pl.col("price").sum()),
        pql="SELECT SUM(price) FROM ads WHERE carrier = '{carrier}'",
    ),
    Query(
        "sum_of_days",
        _literals,
        "SELECT sum(price) FROM ads WHERE day BETWEEN {low} AND {high}",
        lambda pl, t, p: t.filter(pl.col("day").is_between(p["low"], p["high"])).select(pl.col("price").sum()),
        pql="SELECT SUM(price) FROM ads WHERE day BETWEEN {low} AND {high}",
    ),
    Query(
        "three_ranges",
        _literals,
        "SELECT sum(price), count(*) FROM ads WHERE day BETWEEN {wide} AND {wide_end} AND discount BETWEEN {discount} "
        "AND 8 AND clicks < {clicks}",
        lambda pl, t, p: t.filter(
            pl.col("day").is_between(p["wide"], p["wide_end"])
            & pl.col("discount").is_between(p["discount"], 8)
            & (pl.col("clicks") < p["clicks"])
        ).select(pl.col("price").sum(), pl.len()),
        pql="SELECT SUM(price), COUNT(*) FROM ads WHERE day BETWEEN {wide} AND {wide_end} AND discount BETWEEN "
        "{discount} AND 8 AND clicks < {clicks}",
    ),
    Query(
        "group_200",
        _literals,
        "SELECT country, sum(price), count(*), avg(cost) FROM ads WHERE clicks >= {few} GROUP BY country",
        lambda pl, t, p: (
            t.filter(pl.col("clicks") >= p["few"])
            .group_by("country")
            .agg(pl.col("price").sum(), pl.len(), pl.col("cost").mean())
        ),
        pql="SELECT SUM(price), COUNT(*), AVG(cost) FROM ads WHERE clicks >= {few} GROUP BY country TOP 1000",
    ),
    Query(
        "group_2d",
        _literals,
        "SELECT country, carrier, sum(cost), count(*) FROM ads WHERE day BETWEEN {wide} AND {wide_end} GROUP BY "
        "country, carrier",
        lambda pl, t, p: (
            t.filter(pl.col("day").is_between(p["wide"], p["wide_end"]))
            .group_by("country", "carrier")
            .agg(pl.col("cost").sum(), pl.len())
        ),
        pql="SELECT SUM(cost), COUNT(*) FROM ads WHERE day BETWEEN {wide} AND {wide_end} GROUP BY country, carrier "
        "TOP 5000",
    ),
    Query(
        "group_10k",
        _literals,
        "SELECT campaign, sum(price) AS total FROM ads WHERE discount >= {few} GROUP BY campaign ORDER BY total DESC "
        "LIMIT 10",
        lambda pl, t, p: (
            t.filter(pl.col("discount") >= p["few"])
            .group_by("campaign")
            .agg(pl.col("price").sum().alias("total"))
            .sort("total", descending=True)
            .head(10)
        ),
        pql="SELECT SUM(price) FROM ads WHERE discount >= {few} GROUP BY campaign TOP 10",
    ),
    Query(
        "group_1500k",
        _literals,
        "SELECT user_id, sum(price) AS total FROM ads WHERE clicks >= {few} GROUP BY user_id ORDER BY total DESC "
        "LIMIT 10",
        lambda pl, t, p: (
            t.filter(pl.col("clicks") >= p["few"])
            .group_by("user_id")
            .agg(pl.col("price").sum().alias("total"))
            .sort("total", descending=True)
            .head(10)
        ),
        pql="SELECT SUM(price) FROM ads WHERE clicks >= {few} GROUP BY user_id TOP 10",
    ),
    Query(
        "distinct",
        _literals,
        "SELECT count(DISTINCT user_id) FROM ads WHERE clicks <> {discount}",
        lambda pl, t, p: t.filter(pl.col("clicks") != p["discount"]).select(pl.col("user_id").n_unique()),
        pql="SELECT DISTINCTCOUNT(user_id) FROM ads WHERE clicks <> {discount}",
    ),
    Query(
        "extremes",
        _literals,
        "SELECT carrier, min(cost), max(cost), avg(cost) FROM ads WHERE country IN ({countries}) GROUP BY carrier",
        lambda pl, t, p: (
            t.filter(pl.col("country").is_in(p["country_list"]))
            .group_by("carrier")
            .agg(
                pl.col("cost").min().alias("least"),
                pl.col("cost").max().alias("greatest"),
                pl.col("cost").mean().alias("mean"),
            )
        ),
        pql="SELECT MIN(cost), MAX(cost), AVG(cost) FROM ads WHERE country IN ({countries}) GROUP BY carrier TOP 100",
    ),
    Query(
        "top_rows",
        _literals,
        "SELECT user_id, cost, price FROM ads WHERE discount = {discount} AND clicks > {clicks} ORDER BY cost DESC, "
        "user_id LIMIT 10",
        lambda pl, t, p: (
            t.filter((pl.col("discount") == p["discount"]) & (pl.col("clicks") > p["clicks"]))
            .select("user_id", "cost", "price")
            .sort("cost", "user_id", descending=[True, False])
            .head(10)
        ),
        pql="SELECT user_id, cost, price FROM ads WHERE discount = {discount} AND clicks > {clicks} ORDER BY cost "
        "DESC, user_id LIMIT 10",
        ordered=True,
    ),
    Query(
        "in_1000",
        _literals,
        "SELECT carrier, count(*) FROM ads WHERE campaign IN ({campaigns}) GROUP BY carrier",
        lambda pl, t, p: t.filter(pl.col("campaign").is_in(p["campaign_list"])).group_by("carrier").agg(pl.len()),
        pql="SELECT COUNT(*) FROM ads WHERE campaign IN ({campaigns}) GROUP BY carrier TOP 100",
    ),
    Query(
        "regexp",
        _literals,
        "SELECT carrier, count(*) FROM ads WHERE regexp_matches(url, 'item/\\d*{a}{b}\\d?$') GROUP BY carrier",
        lambda pl, t, p: (
            t.filter(pl.col("url").is_in(matching(pl, t, "url", f"item/\\d*{p['a']}{p['b']}\\d?$")))
            .group_by("carrier")
            .agg(pl.len())
        ),
        pql="SELECT COUNT(*) FROM ads WHERE regexp_like(url, 'item/\\d*{a}{b}\\d?$') GROUP BY carrier TOP 100",
        chdb="SELECT carrier, count(*) FROM ads WHERE match(url, 'item/\\\\d*{a}{b}\\\\d?$') GROUP BY carrier",
    ),
    Query(
        "needle",
        _literals,
        "SELECT sum(price), count(*) FROM ads WHERE user_id = {user}",
        lambda pl, t, p: t.filter(pl.col("user_id") == p["user"]).select(pl.col("price").sum(), pl.len()),
        pql="SELECT SUM(price), COUNT(*) FROM ads WHERE user_id = {user}",
    ),
    Query(
        "range_by_day",
        _literals,
        "SELECT day, max(price) - min(price) FROM ads WHERE clicks < {clicks} GROUP BY day",
        lambda pl, t, p: (
            t.filter(pl.col("clicks") < p["clicks"]).group_by("day").agg(pl.col("price").max() - pl.col("price").min())
        ),
        pql="SELECT MINMAXRANGE(price) FROM ads WHERE clicks < {clicks} GROUP BY day TOP 1000",
    ),
    Query(
        "multi_value",
        _literals,
        "SELECT tag, count(*) FROM (SELECT unnest(tags) AS tag FROM ads WHERE discount = {discount}) GROUP BY tag",
        lambda pl, t, p: (
            t.filter(pl.col("discount") == p["discount"]).select("tags").explode("tags").group_by("tags").agg(pl.len())
        ),
        pql="SELECT COUNT(*) FROM ads WHERE discount = {discount} GROUP BY tags TOP 1000",
        chdb="SELECT arrayJoin(tags) AS tag, count(*) FROM ads WHERE discount = {discount} GROUP BY tag",
    ),
)
ADS_SUITE: Final = Suite("ads", "ads", _QUERIES, {}, left_out=("count",))
