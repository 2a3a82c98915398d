"""Query texts that nobody would write: recorded ones, spliced, mutated, cut, nested and blown up, and statements made
of every known function with arguments of every kind. All from one seed; texts are str, sometimes with characters that
no query has.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
RECORDED = (
    ("types_pql", "pql"),
    ("baseball_pql", "pql"),
    ("airline_pql", "pql"),
    ("types_sql15", "sql"),
    ("baseball_sql15", "sql"),
)
_TOKEN = re.compile(
    r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|[A-Za-z_$][A-Za-z_0-9.$]*|[0-9]+(?:\.[0-9]+)?|<>|<=|>=|!=|\|\||\s+|.", re.DOTALL
)
_WORDS_TEXT = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER ASC DESC LIMIT TOP OPTION AND OR NOT IN BETWEEN IS NULL LIKE CASE WHEN "
    "THEN ELSE END CAST AS DISTINCT FILTER "
    "COUNT(*) COUNT(DISTINCT SUM( MIN( MAX( AVG( percentile95( PERCENTILEMV( DISTINCTCOUNTHLL( SUMMV( regexp_like( "
    "text_match( valuein( datetrunc( mapvalue( "
    "EXTRACT( TRIM( TIMESTAMPADD( SET EXPLAIN PLAN FOR UNION NULLS FIRST LAST OFFSET FETCH true false null ( ) , . ; "
    ": ? ! @ # { } [ ] ' \" ` * + - / % = <> "
    "<= >= != || && -- /* */ $docId $segmentName $hostName $nosuch $agg 1 -1 0 1e5 1.5 .5 5. 007 9223372036854775807 "
    "9223372036854775808 "
    "-9223372036854775808 1e400 0x1f 'x' '' 'it''s' \"y\" `z` x'ff' NaN Infinity"
)
_WORDS = tuple(_WORDS_TEXT.split(" "))
_CHARACTERS = (
    "\x00\x01\x07\x08\t\n\x0b\x0c\r\x1b\x1f\x7f\x80\x85\xa0\xad\u0130\u0131\u200b\u200e\u2028\u202e\ufeff\ufffd\uffff\ud800\udfff"
    "\U0001f600\U0010ffff\xe9\u65e5\xdf\u2018\u2019\u201c\u201d\uff0c\uff1b\uff08\uff09"
)
_LITERALS = (
    "1", "-1", "0", "2.5", "'x'", "''", "'1'", "'DAYS'", "'day'", "'1:DAYS:EPOCH'", "'UTC'", "'LONG'", "'a.*'", "'('",
    "'%'", "null", "true",
    "9223372036854775807", "-9223372036854775808", "'NaN'", "1e308",
    "'1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd tz(Asia/Tokyo)'", "'😀'",
    "99999999999", "'$.a[0]'",
)  # fmt: skip
_AGGREGATIONS_TEXT = (
    "COUNT SUM MIN MAX AVG MINMAXRANGE DISTINCTCOUNT DISTINCTCOUNTHLL DISTINCTCOUNTRAWHLL FASTHLL PERCENTILE50 "
    "PERCENTILE PERCENTILEEST95 PERCENTILETDIGEST90 "
    "PERCENTILEKLL COUNTMV SUMMV MINMV MAXMV AVGMV MINMAXRANGEMV DISTINCTCOUNTMV DISTINCTCOUNTHLLMV FASTHLLMV "
    "PERCENTILE50MV PERCENTILEEST50MV IDSET "
    "DISTINCTCOUNTBITMAP SEGMENTPARTITIONEDDISTINCTCOUNT DISTINCTCOUNTTHETASKETCH DISTINCTCOUNTRAWTHETASKETCH "
    "PERCENTILETDIGEST99MV"
)
_AGGREGATIONS = tuple(_AGGREGATIONS_TEXT.split(" "))


# Functions that SQL writes in another form.
_WORDS_OF_SQL = frozenset(
    {
        "and",
        "or",
        "not",
        "minus",
        "case",
        "cast",
        "extract",
        "trim",
        "timestampadd",
        "timestampdiff",
        "dateadd",
        "datediff",
        "position",
        "any",
        "like",
        "in",
    }
)


@cache
def recorded_texts() -> tuple[tuple[str, str], ...]:
    """(text, dialect) of every recorded query."""
    texts = []
    for name, key in RECORDED:
        with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            found = [json.loads(line).get(key) for line in file]
        texts += [(text, key) for text in found if isinstance(text, str) and len(text) < 4_000]
    return tuple(texts)


class OddTexts:
    """The generator.

    Args:
        columns: names that exist, put in the place of recorded ones that don't.
        functions: least and most arguments of scalar functions, by name.
        table: the table's name, put in the place of the recorded ones; "" keeps them.
    """

    def __init__(
        self, rng: random.Random, columns: list[str], functions: dict[str, tuple[int, int]], *, table: str = ""
    ) -> None:
        self.rng, self.columns, self.functions, self.table = rng, columns, functions, table
        self._pql = False
        self._known = {column.lower() for column in columns}
        self._tables = re.compile(r"\b(?:typesTest15|typesTest|nullTest15|baseballStats|airlineStats)\b")

    def next(self) -> tuple[str, str]:
        """(text, dialect)."""
        if self.rng.random() < 0.45:
            dialect = self.rng.choice(["pql", "sql"])
            text = self.statement(dialect)
            if self.rng.random() < 0.8:
                return text, dialect
        else:
            text, dialect = self.rng.choice(recorded_texts())
            if self.rng.random() < 0.8:
                text = self._with_our_columns(text)
        for _ in range(self.rng.choice([1, 1, 1, 2, 5])):
            text = self._mutation()(text)
        return text, dialect if self.rng.random() < 0.95 else {"pql": "sql", "sql": "pql"}[dialect]

    def mutated(self, text: str) -> str:
        """The text with one thing changed."""
        return self._mutation()(text)

    # --- grammar ------------------------------------------------------------------------------------------------------

    def statement(self, dialect: str) -> str:
        """A statement of the grammar whose functions, arguments and literals mostly don't fit."""
        self._pql = dialect == "pql"
        aggregated = self.rng.random() < 0.5
        items = [
            self._aggregation(2) if aggregated and self.rng.random() < 0.9 else self.expression(3)
            for _ in range(self.rng.randint(1, 3))
        ]
        keys = (
            [self.expression(2) for _ in range(self.rng.randint(1, 2))]
            if aggregated and self.rng.random() < 0.5
            else []
        )
        if keys and dialect == "sql":
            items += keys
        parts = [
            f"SELECT {'DISTINCT ' if self.rng.random() < 0.05 else ''}{', '.join(items)} FROM "
            f"{self.table or 'typesTest15'}"
        ]
        if self.rng.random() < 0.6:
            parts.append(f"WHERE {self._condition(2)}")
        if keys:
            parts.append(f"GROUP BY {', '.join(keys)}")
            if self.rng.random() < 0.2:
                parts.append(
                    f"HAVING {self._aggregation(1)} {self.rng.choice(['>', '=', '<>', 'IN', 'BETWEEN'])} "
                    f"{self._literal()}"
                )
        if self.rng.random() < 0.3:
            parts.append(
                f"ORDER BY {self.rng.choice(items) if aggregated else self.expression(2)} "
                f"{self.rng.choice(['', 'ASC', 'DESC'])}"
            )
        if self.rng.random() < 0.4:
            word = "TOP" if dialect == "pql" and keys else "LIMIT"
            parts.append(f"{word} {self.rng.choice(['1', '1', '10', '100', '0', '5,5', '2147483647', '1000'])}")
        if self.rng.random() < 0.05:
            options = [
                "timeoutMs=5000",
                "timeoutMs=0",
                "preserveType=true",
                "foo",
                "groupByMode=sql,responseFormat=sql",
            ]
            parts.append(f"OPTION({self.rng.choice(options)})")
        return " ".join(parts)

    def expression(self, depth: int) -> str:
        """A column, a literal, or any function of any arguments."""
        roll = self.rng.random()
        if depth <= 0 or roll < 0.25:
            return self.rng.choice(self.columns) if self.rng.random() < 0.7 else self._literal()
        if roll < 0.35:
            return (
                f"({self.expression(depth - 1)} {self.rng.choice(['+', '-', '*', '/', '%'])} "
                f"{self.expression(depth - 1)})"
            )
        if roll < 0.4:
            kind = self.rng.choice(
                ["INT", "LONG", "DOUBLE", "STRING", "BOOLEAN", "TIMESTAMP", "BYTES", "JSON", "nosuch"]
            )
            return (
                f"cast({self.expression(depth - 1)}, '{kind}')"
                if self._pql
                else f"CAST({self.expression(depth - 1)} AS {kind})"
            )
        name = self.rng.choice(list(self.functions))
        if name in _WORDS_OF_SQL and not self._pql:
            name = "concat"
        least, most = self.functions[name]
        fitting = self.rng.randint(least, min(most, least + 3))
        size = fitting if self.rng.random() < 0.85 else self.rng.choice([0, 1, 2, 3, 6])
        return f"{name}({', '.join(self.expression(depth - 1) for _ in range(size))})"

    def _literal(self) -> str:
        literal = self.rng.choice(_LITERALS)
        return "1.5" if self._pql and literal in ("null", "true", "1e308") and self.rng.random() < 0.9 else literal

    def _aggregation(self, depth: int) -> str:
        arguments = [self.expression(depth) for _ in range(self.rng.choice([0, 1, 1, 1, 1, 2, 3]))]
        return f"{self.rng.choice(_AGGREGATIONS)}({', '.join(arguments)})" if self.rng.random() < 0.9 else "COUNT(*)"

    def _condition(self, depth: int) -> str:
        if depth > 0 and self.rng.random() < 0.4:
            left = self._condition(depth - 1)
            connective = self.rng.choice(["AND", "OR", "OR" if self._pql else "AND NOT"])
            return f"({left} {connective} {self._condition(depth - 1)})"
        subject, literals = self.expression(2), [self._literal() for _ in range(self.rng.randint(1, 4))]
        return self.rng.choice([
            f"{subject} {self.rng.choice(['=', '<>', '<', '>', '<=', '>='])} {literals[0]}",
            f"{subject} {self.rng.choice(['IN', 'NOT IN'])} ({', '.join(literals)})",
            f"{subject} BETWEEN {literals[0]} AND {literals[-1]}",
            f"{subject} IS {self.rng.choice(['NULL', 'NOT NULL'])}",
            f"{self.rng.choice(['regexp_like', 'text_match', 'inidset', 'json_match'])}({subject}, {literals[0]})",
            f"{subject} = {literals[0] if self._pql else self.expression(1)}",
        ])  # fmt: skip

    # --- mutations ----------------------------------------------------------------------------------------------------

    def _mutation(self) -> Callable[[str], str]:
        common = [
            self._put_word,
            self._put_word,
            self._drop,
            self._twice,
            self._swap,
            self._splice,
            self._cut,
            self._put_character,
            self._flip,
            self._number,
        ]
        rare = [self._nest, self._long_list, self._repeat, self._case]
        return self.rng.choice(common) if self.rng.random() < 0.97 else self.rng.choice(rare)

    def _tokens(self, text: str) -> list[str]:
        return _TOKEN.findall(text) or [" "]

    def _put_word(self, text: str) -> str:
        tokens = self._tokens(text)
        at = self.rng.randrange(len(tokens))
        word = self.rng.choice(_WORDS) if self.rng.random() < 0.7 else self.expression(2)
        tokens[at : at + self.rng.choice([0, 1])] = [f" {word} "]
        return "".join(tokens)

    def _drop(self, text: str) -> str:
        tokens = self._tokens(text)
        at = self.rng.randrange(len(tokens))
        del tokens[at : at + self.rng.choice([1, 1, 2, 5])]
        return "".join(tokens)

    def _twice(self, text: str) -> str:
        tokens = self._tokens(text)
        at = self.rng.randrange(len(tokens))
        end = at + self.rng.choice([1, 3, 8])
        return "".join([*tokens[:end], " ", *tokens[at:]])

    def _swap(self, text: str) -> str:
        tokens = self._tokens(text)
        a, b = self.rng.randrange(len(tokens)), self.rng.randrange(len(tokens))
        tokens[a], tokens[b] = tokens[b], tokens[a]
        return "".join(tokens)

    def _splice(self, text: str) -> str:
        first, second = self._tokens(text), self._tokens(self._with_our_columns(self.rng.choice(recorded_texts())[0]))
        return "".join([*first[: self.rng.randrange(len(first) + 1)], " ", *second[self.rng.randrange(len(second)) :]])

    def _cut(self, text: str) -> str:
        at = self.rng.randrange(len(text) + 1)
        return text[:at] if self.rng.random() < 0.7 else text[at:]

    def _put_character(self, text: str) -> str:
        at = self.rng.randrange(len(text) + 1)
        return text[:at] + self.rng.choice(_CHARACTERS) * self.rng.choice([1, 1, 3]) + text[at:]

    def _flip(self, text: str) -> str:
        at = self.rng.randrange(max(1, len(text)))
        return (
            text[:at]
            + chr(self.rng.choice([self.rng.randrange(32, 127), self.rng.randrange(0x2FF), self.rng.randrange(0xD800)]))
            + text[at + 1 :]
        )

    def _number(self, text: str) -> str:
        odd = [
            "2147483648",
            "-0",
            "00",
            "1e-400",
            "9" * self.rng.choice([20, 400, 1_100]),
            "0." + "1" * 40,
            "1.2.3",
            "٣",
            "1_000",
        ]
        return re.sub(r"\b\d+\b", lambda _: self.rng.choice(odd), text, count=1)

    def _nest(self, text: str) -> str:
        depth = self.rng.choice([3, 30, 150, 199, 201, 400, 3_000])
        opening, closing = self.rng.choice(
            [
                ("(", ")"),
                ("abs(", ")"),
                ("concat('a', ", ")"),
                ("NOT (", ")"),
                ("case(a, ", ", 1)"),
                ("-", ""),
                ("[", "]"),
            ]
        )
        column = self.rng.choice(self.columns)
        end = closing * (depth if self.rng.random() < 0.8 else depth - 1)
        return (
            text.replace(column, f"{opening * depth}{column}{end}", 1)
            if column in text
            else f"SELECT {opening * depth}{column}{end} FROM t"
        )

    def _long_list(self, text: str) -> str:
        size = self.rng.choice([100, 3_000, 50_000, 50_001])
        items = ",".join(map(str, range(size))) if self.rng.random() < 0.5 else ",".join(f"'v{i}'" for i in range(size))
        return f"{text} WHERE {self.rng.choice(self.columns)} {self.rng.choice(['IN', 'NOT IN'])} ({items})"

    def _repeat(self, text: str) -> str:
        tokens = self._tokens(text)
        token = self.rng.choice(tokens)
        return text.replace(token, token * self.rng.choice([50, 1_000, 20_000]), 1)

    def _case(self, text: str) -> str:
        return self.rng.choice([text.upper, text.lower, text.swapcase, text.title])()

    def _with_our_columns(self, text: str) -> str:
        """Names that are no columns here become columns, the same name always the same one; words of the language
        stay.
        """
        if self.table:
            text = self._tables.sub(self.table, text)

        def ours(match: re.Match[str]) -> str:
            word = match[0]
            return (
                word
                if word.lower() in self._known or not word[0].islower() or word.islower()
                else self.columns[sum(map(ord, word)) % len(self.columns)]
            )

        return re.sub(r"\b[A-Za-z]\w*\b(?!\()", ours, text)
