"""Random queries of SQL's whole grammar, in one of the two null modes, each beside the rows that DuckDB must give:
without LIMIT, the values of ORDER BY behind those of SELECT. How the rows are ordered and cut is worked out in
sql_answers.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field

from random_tables import RandomColumn, RandomTable
from sql_aggregates import SqlAggregates
from sql_conditions import SqlConditions
from sql_expressions import Sql, SqlExpressions

EVERYTHING = 100_000
_COLUMN = re.compile(r"\bc\d+_")
DEFAULT_LIMIT = 10


@dataclass(frozen=True, slots=True)
class Order:
    """A key of ORDER BY; `nulls_last` None: as the direction says."""

    key: Sql
    ascending: bool
    nulls_last: bool | None


@dataclass(slots=True)
class SqlQuestion:
    """`text` for us, `duck` for DuckDB: the values of `items`, then those of the keys of `order`."""

    text: str
    duck: str
    items: list[Sql]
    null_handling: bool
    order: list[Order] = field(default_factory=list)
    limit: int = DEFAULT_LIMIT
    offset: int = 0


class SqlQuestions:
    """The generator over one table; `seen` counts clauses, operators and types, each with its null mode."""

    def __init__(self, rng: random.Random, table: RandomTable, seen: Counter[str]) -> None:
        self.rng, self.table, self._all_seen = rng, table, seen

    def next(self) -> SqlQuestion:
        rng, self.seen = self.rng, Counter[str]()
        self.null_handling = rng.random() < 0.5
        self.maker = SqlExpressions(rng, self.table, self.seen)
        self.conditions = SqlConditions(self.maker)
        self.aggregates = SqlAggregates(self.maker, self.conditions, null_handling=self.null_handling)
        self.where = (
            self.conditions.condition(rng.choice([0, 1, 1, 2, 3]), searching=True) if rng.random() < 0.7 else None
        )
        if self.where:
            self.seen["WHERE"] += 1
        kind = rng.choice(["selection", "selection", "distinct", "aggregation", "grouped", "grouped", "grouped"])
        question = {
            "selection": self._selection,
            "distinct": self._distinct,
            "aggregation": self._aggregation,
            "grouped": self._grouped,
        }[kind]()
        self.seen[f"query {kind}"] += 1
        mode = "nulls" if self.null_handling else "plain"
        self._all_seen.update({f"{what} ({mode})": count for what, count in self.seen.items()})
        return question

    # --- kinds --------------------------------------------------------------------------------------------------------

    def _selection(self) -> SqlQuestion:
        items = [self._shown() for _ in range(self.rng.randint(1, 4))]
        if not any(_COLUMN.search(item.ours) for item in items):  # then the broker alone answers, one row
            items.append(self.maker.column())
        names = self._names(items)
        order = [self._order(self.maker.value(1)) for _ in range(self.rng.choice([0, 1, 1, 2]))]
        order += [
            self._order(item, self._reference(item, n, names[n]))
            for n, item in enumerate(items)
            if item.single and not item.constant and self.rng.random() < 0.3
        ]
        return self._finished("SELECT ", items, names, order, "t", self._duck_where())

    def _distinct(self) -> SqlQuestion:
        self.seen["DISTINCT"] += 1
        items = list(
            {item.ours: item for item in (self.maker.value(1) for _ in range(self.rng.randint(1, 3)))}.values()
        )
        source = f"t{self._duck_where()}"
        lists = self._lists()
        if lists and self.rng.random() < 0.15:
            self.seen["DISTINCT multi-value"] += 1
            source, exploded = self._exploded(lists)
            items = [*(item for item in items if not any(key.ours in item.ours for key in exploded)), *exploded]
            self.rng.shuffle(items)
        chosen = [n for n, item in enumerate(items) if not item.constant and self.rng.random() < 0.5]
        order = [self._order(items[n], str(n + 1) if self.rng.random() < 0.4 else items[n].ours) for n in chosen]
        return self._finished("SELECT DISTINCT ", items, [""] * len(items), order, source, "", unique=True)

    def _aggregation(self) -> SqlQuestion:
        calls = [self.aggregates.aggregation() for _ in range(self.rng.randint(1, 4))]
        items = [*calls, *(self.aggregates.computed(calls) for _ in range(self.rng.choice([0, 0, 1])))]
        question = self._finished(
            "SELECT ",
            items,
            self._names(items),
            [],
            "t",
            self._duck_where(),
            having=self._having(calls, 0.15),
            limited=False,
        )
        return question

    def _grouped(self) -> SqlQuestion:
        rng = self.rng
        keys = list(
            {
                k.ours: k for k in (self.maker.value(1) for _ in range(rng.choice([1, 1, 2, 3]))) if not k.constant
            }.values()
        )
        keys = keys or [self.maker.column()]
        source = "t" + self._duck_where()
        lists, exploded = self._lists(), list[Sql]()
        if lists and rng.random() < 0.12:
            self.seen["GROUP BY multi-value"] += 1
            source, exploded = self._exploded(lists)
            keys = [*(k for k in keys if not any(e.ours in k.ours for e in exploded)), *exploded]
        calls = [self.aggregates.aggregation() for _ in range(rng.randint(1 if exploded else 0, 3))]
        if exploded:
            calls = [c for c in calls if not any(e.ours in c.ours for e in exploded)] or [
                Sql("COUNT(*)", "count(*)", "count(*)", "LONG")
            ]
        shown = [k for k in keys if rng.random() < 0.85] or [keys[0]]
        items = [*shown, *calls]
        if calls and rng.random() < 0.3:
            items.append(self.aggregates.computed(calls))
        rng.shuffle(items)
        names = self._names(items)
        by = []
        for key in keys:
            place = next((n for n, item in enumerate(items) if item is key), None)
            by.append(key.ours if place is None else self._reference(key, place, names[place], "GROUP BY"))
        order = [
            self._order(item, self._reference(item, n, names[n]))
            for n, item in enumerate(items)
            if item.single and not item.rough and rng.random() < 0.4
        ]
        if calls and rng.random() < 0.2:
            self.seen["ORDER BY what is not selected"] += 1
            order.append(self._order(self.aggregates.computed(calls) if rng.random() < 0.5 else rng.choice(keys)))
        having = self._having(calls or [Sql("COUNT(*)", "count(*)", "count(*)", "LONG")], 0.35)
        return self._finished("SELECT ", items, names, order, source, "", having=having, group_by=(keys, by))

    # --- parts --------------------------------------------------------------------------------------------------------

    def _lists(self) -> list[RandomColumn]:
        """Multi-value columns that can be keys: what stands for a null list there is not what DuckDB's unnest makes of
        one.
        """
        return self.maker.columns(lambda c: not c.single_value and (not self.null_handling or not c.null_share))

    def _exploded(self, lists: list[RandomColumn]) -> tuple[str, list[Sql]]:
        """The rows of the filter, one for each value (of two columns: for each pair of theirs), and the values as
        keys.
        """
        source, keys = f"t{self._duck_where()}", list[Sql]()
        for column in self.rng.sample(lists, min(len(lists), self.rng.choice([1, 1, 2]))):
            key = self.maker.of_column(column)
            keys.append(Sql(key.ours, key.plain, key.nulls, key.type))
            source = (
                f"(SELECT * REPLACE (unnest({key.plain}) AS {key.plain}, unnest({key.nulls}) AS {key.nulls}) "
                f"FROM {source})"
            )
        return source, keys

    def _shown(self) -> Sql:
        roll = self.rng.random()
        if roll < 0.1:
            self.seen["multi-value selected"] += 1
            return self.maker.list()
        if roll < 0.17:
            self.seen["constant selected"] += 1
            return self.maker.constant(self.rng.choice(["INT", "DOUBLE", "STRING", "BOOLEAN"]))
        return self.maker.value(2)

    def _names(self, items: list[Sql]) -> list[str]:
        """An alias for some."""
        names = [f"a{n}" if self.rng.random() < 0.3 else "" for n in range(len(items))]
        self.seen["alias"] += sum(map(bool, names))
        return names

    def _reference(self, item: Sql, place: int, alias: str, clause: str = "ORDER BY") -> str:
        """By alias, by ordinal or written out."""
        roll = self.rng.random()
        if alias and roll < 0.6:
            self.seen[f"{clause} alias"] += 1
            return alias
        if roll < 0.8 and roll > 0.4:
            self.seen[f"{clause} ordinal"] += 1
            return str(place + 1)
        return item.ours

    def _order(self, key: Sql, written: str = "") -> tuple[str, Order]:
        ascending, nulls_last = self.rng.random() < 0.6, self.rng.choice([None, None, True, False])
        words = self.rng.choice([" ASC", ""]) if ascending else " DESC"
        if nulls_last is not None:
            self.seen[f"NULLS {'LAST' if nulls_last else 'FIRST'}"] += 1
            words += " NULLS LAST" if nulls_last else " NULLS FIRST"
        self.seen[f"ORDER BY {'ASC' if ascending else 'DESC'}"] += 1
        return f"{written or key.ours}{words}", Order(key, ascending, nulls_last)

    def _having(self, calls: list[Sql], share: float) -> Sql | None:
        if self.rng.random() > share:
            return None
        self.seen["HAVING"] += 1
        return self.aggregates.condition(calls, 2)

    def _duck_where(self) -> str:
        return "" if self.where is None else f" WHERE {self._duck(self.where)}"

    def _duck(self, value: Sql) -> str:
        return value.duck(null_handling=self.null_handling)

    def _rows(self) -> tuple[str, int, int]:
        """LIMIT and OFFSET in every spelling."""
        limit, offset = self.rng.choice([1, 2, 5, 10, EVERYTHING, EVERYTHING]), self.rng.choice([0, 0, 0, 1, 3, 20])
        form = self.rng.choice(["LIMIT OFFSET", "LIMIT a, b", "OFFSET LIMIT", "FETCH", "default"])
        if form == "default":
            return "", DEFAULT_LIMIT, 0
        self.seen[form if offset else "LIMIT"] += 1
        if not offset:
            return f" LIMIT {limit}", limit, 0
        texts = {
            "LIMIT OFFSET": f" LIMIT {limit} OFFSET {offset}",
            "LIMIT a, b": f" LIMIT {offset}, {limit}",
            "OFFSET LIMIT": f" OFFSET {offset} LIMIT {limit}",
            "FETCH": f" OFFSET {offset} ROWS FETCH FIRST {limit} ROWS ONLY",
        }
        return texts[form], limit, offset

    def _finished(
        self,
        head: str,
        items: list[Sql],
        names: list[str],
        order: list[tuple[str, Order]],
        source: str,
        duck_where: str,
        *,
        having: Sql | None = None,
        group_by: tuple[list[Sql], list[str]] | None = None,
        unique: bool = False,
        limited: bool = True,
    ) -> SqlQuestion:
        columns = ", ".join(
            f"{item.ours}{f' AS {name}' if name else ''}" for item, name in zip(items, names, strict=True)
        )
        text = f"{head}{columns} FROM t{'' if self.where is None else f' WHERE {self.where.ours}'}"
        values = ", ".join(self._duck(value) for value in [*items, *(o.key for _, o in order)])
        duck = f"SELECT {'DISTINCT ' if unique else ''}{values} FROM {source}{duck_where}"
        if group_by is not None:
            self.seen["GROUP BY"] += 1
            text += f" GROUP BY {', '.join(group_by[1])}"
            duck += f" GROUP BY {', '.join(self._duck(key) for key in group_by[0])}"
        if having is not None:
            text += f" HAVING {having.ours}"
            duck += f" HAVING {self._duck(having)}"
        if order:
            text += f" ORDER BY {', '.join(written for written, _ in order)}"
        rows, limit, offset = self._rows() if limited else ("", DEFAULT_LIMIT, 0)
        return SqlQuestion(text + rows, duck, items, self.null_handling, [o for _, o in order], limit, offset)
