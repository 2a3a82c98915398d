"""Queries that an index answers: a needle, two inverted columns, ranges of a sorted and of a raw column; DuckDB has
what it has by itself.
"""

from __future__ import annotations

import random
from typing import Final

from bench.data import FIRST_DAY
from bench.suites.query import Parameters, Query, Suite


def _literals(rng: random.Random) -> Parameters:
    day = FIRST_DAY + rng.randint(0, 364)
    return {
        "user": rng.randint(0, 1_499_999) * 7919, "campaign": f"campaign_{rng.randint(0, 3):05d}",
        "url": f"https://shop.example/item/{rng.randint(0, 19_999):05d}",
        "day": day, "cost": round(rng.uniform(190.0, 210.0), 3), "carrier": f"carrier_{rng.randint(0, 14):05d}",
    }  # fmt: skip


_QUERIES: Final = (
    Query(
        "needle",
        _literals,
        "SELECT sum(price), count(*) FROM ads WHERE user_id = {user}",
        lambda pl, t, p: t.filter(pl.col("user_id") == p["user"]).select(pl.col("price").sum(), pl.len()),
        note="inverted index of user_id",
    ),
    Query(
        "two_inverted",
        _literals,
        "SELECT carrier, count(*), sum(price) FROM ads WHERE campaign = '{campaign}' AND url = '{url}' GROUP BY "
        "carrier ORDER BY carrier LIMIT 100",
        lambda pl, t, p: (
            t.filter((pl.col("campaign") == p["campaign"]) & (pl.col("url") == p["url"]))
            .group_by("carrier")
            .agg(pl.len(), pl.col("price").sum())
            .sort("carrier")
        ),
        ordered=True,
        note="inverted indexes of campaign and url",
    ),
    Query(
        "sorted_range",
        _literals,
        "SELECT sum(price), count(*) FROM ads WHERE day = {day} AND carrier = '{carrier}'",
        lambda pl, t, p: t.filter((pl.col("day") == p["day"]) & (pl.col("carrier") == p["carrier"])).select(
            pl.col("price").sum(), pl.len()
        ),
        note="day is the sorted column; the peers' rows lie in the same order",
    ),
    Query(
        "raw_range",
        _literals,
        "SELECT sum(price), count(*) FROM ads WHERE cost > {cost}",
        lambda pl, t, p: t.filter(pl.col("cost") > p["cost"]).select(pl.col("price").sum(), pl.len()),
        note="range index of cost, a raw column",
    ),
    Query(
        "needle_rows",
        _literals,
        "SELECT day, url, cost FROM ads WHERE user_id = {user} ORDER BY day, url, cost LIMIT 100",
        lambda pl, t, p: (
            t.filter(pl.col("user_id") == p["user"]).select("day", "url", "cost").sort("day", "url", "cost").head(100)
        ),
        ordered=True,
        note="inverted index of user_id",
    ),
)
SELECTIVE_SUITE: Final = Suite(
    "selective",
    "ads",
    _QUERIES,
    {},
    variant="indexed",
    indexing={"invertedIndexColumns": ["user_id", "campaign", "url"], "rangeIndexColumns": ["cost"]},
)
