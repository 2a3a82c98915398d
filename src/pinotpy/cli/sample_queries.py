"""The queries that the quickstart asks about the flights of 2013, each with the question that it answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """A question in words and in PQL (or SQL)."""

    question: str
    text: str
    dialect: str = "pql"


SAMPLES: tuple[SampleQuery, ...] = (
    SampleQuery("How many flights left New York in 2013?", "SELECT COUNT(*) FROM flights"),
    SampleQuery(
        "How late did they leave and arrive?",
        "SELECT AVG(dep_delay), MAX(dep_delay), AVG(arr_delay), MAX(arr_delay) FROM flights WHERE arr_delay IS NOT "
        "NULL",
    ),
    SampleQuery("Which airlines fly most?", "SELECT COUNT(*) FROM flights GROUP BY carrier TOP 5"),
    SampleQuery(
        "Where do they fly, and how far in all?",
        "SELECT COUNT(*), SUM(distance) FROM flights GROUP BY origin, dest TOP 5",
    ),
    SampleQuery(
        "Which airports have the longest waits in summer?",
        "SELECT AVG(dep_delay) FROM flights WHERE month BETWEEN 6 AND 8 AND dep_delay IS NOT NULL GROUP BY origin TOP "
        "3",
    ),
    SampleQuery(
        "How many planes does each airline use?", "SELECT DISTINCTCOUNT(tailnum) FROM flights GROUP BY carrier TOP 5"
    ),
    SampleQuery(
        "The five latest departures of Christmas Eve",
        "SELECT carrier, flight, dest, dep_delay FROM flights WHERE month = 12 AND day = 24 ORDER BY dep_delay DESC "
        "LIMIT 5",
    ),
    SampleQuery(
        "Routes with more than 10,000 flights",
        "SELECT COUNT(*) FROM flights GROUP BY origin, dest HAVING COUNT(*) > 10000 TOP 10",
    ),
    SampleQuery(
        "Flights to the two San Francisco Bay airports on JetBlue or Virgin",
        "SELECT COUNT(*) FROM flights WHERE dest IN ('SFO', 'OAK') AND carrier IN ('B6', 'VX') GROUP BY dest, carrier "
        "TOP 10",
    ),
    SampleQuery(
        "Which planes with a tail number ending in JB flew most?",
        "SELECT COUNT(*) FROM flights WHERE regexp_like(tailnum, 'JB$') GROUP BY tailnum TOP 3",
    ),
    SampleQuery(
        "The spread of distances by airport",
        "SELECT MINMAXRANGE(distance), MIN(distance), MAX(distance) FROM flights GROUP BY origin TOP 3",
    ),
    SampleQuery(
        "Delays by month, in SQL",
        "SELECT month, COUNT(*) AS flights, AVG(arr_delay) AS late FROM flights WHERE arr_delay > 0 GROUP BY month "
        "ORDER BY late DESC, month LIMIT 4",
        "sql",
    ),
)
FIRST_FULL_QUERY = "SELECT COUNT(*), SUM(distance), AVG(dep_delay) FROM flights WHERE distance > 0"
