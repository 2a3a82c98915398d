"""The queries that the quickstart asks about the flights of 2013, each with the question that it answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """A question in words and in SQL (or PQL)."""

    question: str
    text: str
    dialect: str = "sql"


SAMPLES: tuple[SampleQuery, ...] = (
    SampleQuery("How many flights left New York in 2013?", "SELECT COUNT(*) FROM flights"),
    SampleQuery(
        "How late did they leave and arrive?",
        "SELECT AVG(dep_delay), MAX(dep_delay), AVG(arr_delay), MAX(arr_delay) FROM flights",
    ),
    SampleQuery(
        "Which airlines fly most?",
        "SELECT carrier, COUNT(*) AS flights FROM flights GROUP BY carrier ORDER BY flights DESC LIMIT 5",
    ),
    SampleQuery(
        "Where do they fly, and how far in all?",
        "SELECT origin, dest, COUNT(*) AS flights, SUM(distance) AS miles FROM flights GROUP BY origin, dest "
        "ORDER BY miles DESC LIMIT 5",
    ),
    SampleQuery(
        "Which airports have the longest waits in summer?",
        "SELECT origin, AVG(dep_delay) AS wait FROM flights WHERE month BETWEEN 6 AND 8 GROUP BY origin "
        "ORDER BY wait DESC LIMIT 3",
    ),
    SampleQuery(
        "How many planes does each airline use?",
        "SELECT carrier, COUNT(DISTINCT tailnum) AS planes FROM flights GROUP BY carrier ORDER BY planes DESC LIMIT 5",
    ),
    SampleQuery(
        "The five latest departures of Christmas Eve",
        "SELECT carrier, flight, dest, dep_delay FROM flights WHERE month = 12 AND day = 24 "
        "ORDER BY dep_delay DESC NULLS LAST LIMIT 5",
    ),
    SampleQuery(
        "Routes with more than 10,000 flights",
        "SELECT origin, dest, COUNT(*) AS flights FROM flights GROUP BY origin, dest HAVING COUNT(*) > 10000 "
        "ORDER BY flights DESC LIMIT 10",
    ),
    SampleQuery(
        "Flights to the two San Francisco Bay airports on JetBlue or Virgin",
        "SELECT dest, carrier, COUNT(*) AS flights FROM flights WHERE dest IN ('SFO', 'OAK') AND carrier IN ('B6', "
        "'VX') GROUP BY dest, carrier ORDER BY flights DESC LIMIT 10",
    ),
    SampleQuery(
        "Which planes with a tail number ending in JB flew most?",
        "SELECT tailnum, COUNT(*) AS flights FROM flights WHERE tailnum LIKE '%JB' GROUP BY tailnum "
        "ORDER BY flights DESC LIMIT 3",
    ),
    SampleQuery(
        "Delays by month",
        "SELECT month, COUNT(*) AS flights, AVG(arr_delay) AS late FROM flights WHERE arr_delay > 0 GROUP BY month "
        "ORDER BY late DESC, month LIMIT 4",
    ),
    SampleQuery(
        "The spread of distances by airport, in PQL: a list for each aggregation",
        "SELECT MINMAXRANGE(distance), MIN(distance), MAX(distance) FROM flights GROUP BY origin TOP 3",
        "pql",
    ),
)
FIRST_FULL_QUERY = "SELECT COUNT(*), SUM(distance), AVG(dep_delay) FROM flights WHERE distance > 0"
