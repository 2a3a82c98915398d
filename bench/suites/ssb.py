"""The thirteen queries of the Star Schema Benchmark over its flattened table; years, regions, brands … drawn anew each
time.
"""

from __future__ import annotations

import random
from typing import Any, Final

from bench.suites.query import Parameters, Query, Suite, quoted
from bench.tables.lineorder import MONTHS, NATIONS, REGIONS, city


def _flight_1(discount: int, quantity: tuple[int, int], **when: Any) -> Any:
    def draw(rng: random.Random) -> Parameters:
        low = rng.randint(max(1, discount - 1), discount + 1)
        month = 100 * rng.randint(1992, 1997) + rng.randint(1, 12)
        return {
            "year": rng.randint(1992, 1997),
            "month": month,
            "week": rng.randint(1, 52),
            "low": low,
            "high": low + 2,
            "least": quantity[0],
            "most": quantity[1],
        }

    return draw


def _flight_2(rng: random.Random) -> Parameters:
    category, brand = f"MFGR#{rng.randint(1, 5)}{rng.randint(1, 5)}", rng.randint(1, 33)
    return {
        "category": category,
        "low": f"{category}{brand:02d}",
        "high": f"{category}{brand + 7:02d}",
        "region": rng.choice(list(REGIONS)),
    }


def _flight_3(rng: random.Random) -> Parameters:
    customers, suppliers = rng.choice(NATIONS), rng.choice(NATIONS)
    c_cities, s_cities = ([city(nation, n) for n in rng.sample(range(10), 2)] for nation in (customers, suppliers))
    return {
        "c_region": rng.choice(list(REGIONS)), "s_region": rng.choice(list(REGIONS)), "c_nation": customers,
        "s_nation": suppliers,
        "c_cities": quoted(c_cities), "s_cities": quoted(s_cities), "c_list": c_cities, "s_list": s_cities,
        "from": rng.randint(1992, 1993), "month": f"{rng.choice(MONTHS)}{rng.randint(1992, 1997)}",
    }  # fmt: skip


def _flight_4(rng: random.Random) -> Parameters:
    first, second = rng.sample(range(1, 6), 2)
    year, region = rng.randint(1992, 1996), rng.choice(list(REGIONS))
    return {
        "c_region": rng.choice(list(REGIONS)), "s_region": region, "s_nation": rng.choice(REGIONS[region]),
        "category": f"MFGR#{first}{second}",
        "makers": quoted([f"MFGR#{first}", f"MFGR#{second}"]), "maker_list": [f"MFGR#{first}", f"MFGR#{second}"],
        "year": year, "next": year + 1,
    }  # fmt: skip


def _revenue(pl: Any, t: Any) -> Any:
    return t.select((pl.col("lo_extendedprice") * pl.col("lo_discount")).sum())


def _in_flight_1(pl: Any, p: Parameters) -> Any:
    return pl.col("lo_discount").is_between(p["low"], p["high"]) & pl.col("lo_quantity").is_between(
        p["least"], p["most"]
    )


def _grouped(pl: Any, t: Any, keys: tuple[str, ...], value: Any, *order: str) -> Any:
    grouped = t.group_by(keys).agg(value.sum().alias("total"))
    return grouped.sort(order, descending=[name == "total" for name in order])


def _brands(pl: Any, t: Any) -> Any:
    return _grouped(pl, t, ("d_year", "p_brand"), pl.col("lo_revenue"), "d_year", "p_brand").select(
        "total", "d_year", "p_brand"
    )


def _places(pl: Any, t: Any, customer: str, supplier: str) -> Any:
    return _grouped(pl, t, (customer, supplier, "d_year"), pl.col("lo_revenue"), "d_year", "total", customer, supplier)


def _profit(pl: Any, t: Any, *keys: str) -> Any:
    return _grouped(pl, t, keys, pl.col("lo_revenue") - pl.col("lo_supplycost"), *keys)


_FLIGHT_1: Final = (
    "SELECT SUM(lo_extendedprice * lo_discount) FROM lineorder WHERE {when} AND lo_discount BETWEEN "
    "{{low}} AND {{high}} AND lo_quantity "
)
_FLIGHT_2: Final = (
    "SELECT SUM(lo_revenue), d_year, p_brand FROM lineorder WHERE {which} AND s_region = '{{region}}' "
    "GROUP BY d_year, p_brand ORDER BY d_year, p_brand LIMIT 5000"
)
_FLIGHT_3: Final = (
    "SELECT {c}, {s}, d_year, SUM(lo_revenue) AS total FROM lineorder WHERE {where} GROUP BY {c}, {s}, "
    "d_year ORDER BY d_year, total DESC, {c}, {s} LIMIT 10000"
)
_FLIGHT_4: Final = (
    "SELECT {keys}, SUM(lo_revenue - lo_supplycost) AS total FROM lineorder WHERE {where} GROUP BY "
    "{keys} ORDER BY {keys} LIMIT 5000"
)
_YEARS: Final = "d_year >= {from} AND d_year <= 1997"

_QUERIES: Final = (
    Query(
        "ssb_1_1",
        _flight_1(1, (1, 24)),
        _FLIGHT_1.format(when="d_year = {year}") + "< 25",
        lambda pl, t, p: _revenue(pl, t.filter((pl.col("d_year") == p["year"]) & _in_flight_1(pl, p))),
    ),
    Query(
        "ssb_1_2",
        _flight_1(4, (26, 35)),
        _FLIGHT_1.format(when="d_yearmonthnum = {month}") + "BETWEEN 26 AND 35",
        lambda pl, t, p: _revenue(pl, t.filter((pl.col("d_yearmonthnum") == p["month"]) & _in_flight_1(pl, p))),
    ),
    Query(
        "ssb_1_3",
        _flight_1(5, (26, 35)),
        _FLIGHT_1.format(when="d_weeknuminyear = {week} AND d_year = {year}") + "BETWEEN 26 AND 35",
        lambda pl, t, p: _revenue(
            pl,
            t.filter((pl.col("d_weeknuminyear") == p["week"]) & (pl.col("d_year") == p["year"]) & _in_flight_1(pl, p)),
        ),
    ),
    Query(
        "ssb_2_1",
        _flight_2,
        _FLIGHT_2.format(which="p_category = '{category}'"),
        lambda pl, t, p: _brands(
            pl, t.filter((pl.col("p_category") == p["category"]) & (pl.col("s_region") == p["region"]))
        ),
        ordered=True,
    ),
    Query(
        "ssb_2_2",
        _flight_2,
        _FLIGHT_2.format(which="p_brand BETWEEN '{low}' AND '{high}'"),
        lambda pl, t, p: _brands(
            pl,
            t.filter(
                pl.col("p_brand").is_between(pl.lit(p["low"]), pl.lit(p["high"])) & (pl.col("s_region") == p["region"])
            ),
        ),
        ordered=True,
    ),
    Query(
        "ssb_2_3",
        _flight_2,
        _FLIGHT_2.format(which="p_brand = '{low}'"),
        lambda pl, t, p: _brands(pl, t.filter((pl.col("p_brand") == p["low"]) & (pl.col("s_region") == p["region"]))),
        ordered=True,
    ),
    Query(
        "ssb_3_1",
        _flight_3,
        _FLIGHT_3.format(
            c="c_nation", s="s_nation", where="c_region = '{c_region}' AND s_region = '{s_region}' AND " + _YEARS
        ),
        lambda pl, t, p: _places(
            pl,
            t.filter(
                (pl.col("c_region") == p["c_region"])
                & (pl.col("s_region") == p["s_region"])
                & pl.col("d_year").is_between(p["from"], 1997)
            ),
            "c_nation",
            "s_nation",
        ),
        ordered=True,
    ),
    Query(
        "ssb_3_2",
        _flight_3,
        _FLIGHT_3.format(
            c="c_city", s="s_city", where="c_nation = '{c_nation}' AND s_nation = '{s_nation}' AND " + _YEARS
        ),
        lambda pl, t, p: _places(
            pl,
            t.filter(
                (pl.col("c_nation") == p["c_nation"])
                & (pl.col("s_nation") == p["s_nation"])
                & pl.col("d_year").is_between(p["from"], 1997)
            ),
            "c_city",
            "s_city",
        ),
        ordered=True,
    ),
    Query(
        "ssb_3_3",
        _flight_3,
        _FLIGHT_3.format(
            c="c_city", s="s_city", where="c_city IN ({c_cities}) AND s_city IN ({s_cities}) AND " + _YEARS
        ),
        lambda pl, t, p: _places(
            pl,
            t.filter(
                pl.col("c_city").is_in(p["c_list"])
                & pl.col("s_city").is_in(p["s_list"])
                & pl.col("d_year").is_between(p["from"], 1997)
            ),
            "c_city",
            "s_city",
        ),
        ordered=True,
    ),
    Query(
        "ssb_3_4",
        _flight_3,
        _FLIGHT_3.format(
            c="c_city",
            s="s_city",
            where="c_city IN ({c_cities}) AND s_city IN ({s_cities}) AND d_yearmonth = '{month}'",
        ),
        lambda pl, t, p: _places(
            pl,
            t.filter(
                pl.col("c_city").is_in(p["c_list"])
                & pl.col("s_city").is_in(p["s_list"])
                & (pl.col("d_yearmonth") == p["month"])
            ),
            "c_city",
            "s_city",
        ),
        ordered=True,
    ),
    Query(
        "ssb_4_1",
        _flight_4,
        _FLIGHT_4.format(
            keys="d_year, c_nation",
            where="c_region = '{c_region}' AND s_region = '{s_region}' AND p_mfgr IN ({makers})",
        ),
        lambda pl, t, p: _profit(
            pl,
            t.filter(
                (pl.col("c_region") == p["c_region"])
                & (pl.col("s_region") == p["s_region"])
                & pl.col("p_mfgr").is_in(p["maker_list"])
            ),
            "d_year",
            "c_nation",
        ),
        ordered=True,
    ),
    Query(
        "ssb_4_2",
        _flight_4,
        _FLIGHT_4.format(
            keys="d_year, s_nation, p_category",
            where="c_region = '{c_region}' AND s_region = '{s_region}' AND d_year IN ({year}, {next}) AND p_mfgr IN "
            "({makers})",
        ),
        lambda pl, t, p: _profit(
            pl,
            t.filter(
                (pl.col("c_region") == p["c_region"])
                & (pl.col("s_region") == p["s_region"])
                & pl.col("d_year").is_in([p["year"], p["next"]])
                & pl.col("p_mfgr").is_in(p["maker_list"])
            ),
            "d_year",
            "s_nation",
            "p_category",
        ),
        ordered=True,
    ),
    Query(
        "ssb_4_3",
        _flight_4,
        _FLIGHT_4.format(
            keys="d_year, s_city, p_brand",
            where="c_region = '{c_region}' AND s_nation = '{s_nation}' AND d_year IN ({year}, {next}) AND p_category "
            "= '{category}'",
        ),
        lambda pl, t, p: _profit(
            pl,
            t.filter(
                (pl.col("c_region") == p["c_region"])
                & (pl.col("s_nation") == p["s_nation"])
                & pl.col("d_year").is_in([p["year"], p["next"]])
                & (pl.col("p_category") == p["category"])
            ),
            "d_year",
            "s_city",
            "p_brand",
        ),
        ordered=True,
    ),
)
SSB_SUITE: Final = Suite("ssb", "lineorder", _QUERIES, {})
