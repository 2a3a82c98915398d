"""Random conditions of SQL: every predicate over columns and expressions, in AND, OR and NOT, in three-valued logic or
(plain) in two.
"""

from __future__ import annotations

from collections.abc import Callable

from duck_oracle import literal
from random_queries import LIKES, OPERATORS, PATTERNS, our_literal
from random_tables import RandomColumn
from sql_expressions import Sql, SqlExpressions, made, quoted
from sql_tables import WORDS

_ORDERS = ("<", "<=", ">", ">=", "=", "<>")
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBERS = ("INT", "LONG", "FLOAT", "DOUBLE")


class SqlConditions:
    """Conditions over the values of `maker`."""

    def __init__(self, maker: SqlExpressions) -> None:
        self.maker, self.rng, self.seen = maker, maker.rng, maker.seen
        maker.condition = self.condition
        self._leaves: list[Callable[[], Sql]] = [
            *[self._literal] * 4, *[self._in] * 2, self._between, self._columns, self._columns, self._like,
            self._regexp, self._null, self._null, self._truth,
            self._distinct_from, self._distinct_from, self._boolean, self._constant, self._number, self._number,
            self._expression,
            self._number_of_some, self._text_of_some,
        ]  # fmt: skip
        # These are searches of columns, and no values.
        self._searches = [self._multi_value, self._multi_value, self._json, self._text]

    def condition(self, depth: int, *, searching: bool = False) -> Sql:
        """BOOLEAN. `searching`: a filter, in which columns can be searched."""
        roll = self.rng.random()
        if depth <= 0 or roll < 0.3:
            return self.rng.choice(self._searches if searching and self.rng.random() < 0.2 else self._leaves)()
        if roll < 0.5:
            self.seen["NOT"] += 1
            return made("BOOLEAN", "NOT ({0})", "(NOT ({0}))", self.condition(depth - 1, searching=searching))
        word = self.rng.choice(["AND", "OR"])
        self.seen[word] += 1
        parts = [self.condition(depth - 1, searching=searching) for _ in range(self.rng.choice([2, 2, 3]))]
        places = f" {word} ".join(f"({{{n}}})" for n in range(len(parts)))
        return made("BOOLEAN", f"({places})", f"({places})", *parts)

    # --- beside literals ----------------------------------------------------------------------------------------------

    def _single(self) -> RandomColumn:
        return self.rng.choice(self.maker.columns(lambda c: c.single_value))

    def _literal(self) -> Sql:
        column, operator = self._single(), self.rng.choice(OPERATORS)
        self.seen[f"{operator} literal"] += 1
        ours, duck = self.maker.literals(column)
        subject = self.maker.of_column(column)
        if self.rng.random() < 0.15:
            self.seen["literal on the left"] += 1
            return made(
                "BOOLEAN",
                f"{ours.replace('{', '{{').replace('}', '}}')} {_FLIPPED[operator]} {{0}}",
                _braced(f"({{0}} {operator} ", duck, ")"),
                subject,
            )
        return made("BOOLEAN", _braced(f"{{0}} {operator} ", ours), _braced(f"({{0}} {operator} ", duck, ")"), subject)

    def _in(self) -> Sql:
        column, word = self._single(), self.rng.choice(["IN", "NOT IN"])
        self.seen[word] += 1
        values = [self.rng.choice(column.pool) for _ in range(self.rng.choice([1, 2, 5, 20]))]
        ours = ", ".join(our_literal(column, v, "sql") for v in values)
        duck = ", ".join(literal(column, v) for v in values)
        return made(
            "BOOLEAN",
            _braced(f"{{0}} {word} (", ours, ")"),
            _braced(f"({{0}} {word} (", duck, "))"),
            self.maker.of_column(column),
        )

    def _between(self) -> Sql:
        column, word = self._single(), self.rng.choice(["BETWEEN", "NOT BETWEEN"])
        self.seen[word] += 1
        (low, low_duck), (high, high_duck) = self.maker.literals(column), self.maker.literals(column)
        subject = self.maker.of_column(column)
        return made(
            "BOOLEAN",
            _braced(f"{{0}} {word} ", f"{low} AND {high}"),
            _braced(f"({{0}} {word} ", f"{low_duck} AND {high_duck}", ")"),
            subject,
        )

    def _number(self) -> Sql:
        """An expression beside a number."""
        operator, subject = self.rng.choice(OPERATORS), self.maker.number(1)
        self.seen["expression beside literal"] += 1
        constant = self.maker.constant("INT" if subject.type in ("INT", "LONG") else "DOUBLE")
        return made("BOOLEAN", f"{{0}} {operator} {{1}}", f"(({{0}}) {operator} {{1}})", subject, constant)

    def _number_of_some(self) -> Sql:
        """An expression beside a list or a range of numbers."""
        subject = self.maker.number(1)
        constants = [
            self.maker.constant("INT" if subject.type in ("INT", "LONG") else self.rng.choice(["INT", "DOUBLE"]))
            for _ in range(3)
        ]
        if self.rng.random() < 0.5:
            word = self.rng.choice(["BETWEEN", "NOT BETWEEN"])
            self.seen[f"{word} of an expression"] += 1
            return made(
                "BOOLEAN", f"{{0}} {word} {{1}} AND {{2}}", f"(({{0}}) {word} {{1}} AND {{2}})", subject, *constants[:2]
            )
        word = self.rng.choice(["IN", "NOT IN"])
        self.seen[f"{word} of an expression"] += 1
        return self._of_some(word, subject, constants)

    def _text_of_some(self) -> Sql:
        word, subject = self.rng.choice(["IN", "NOT IN"]), self.maker.text(1)
        self.seen[f"{word} of an expression"] += 1
        constants = [self.maker.constant("STRING") for _ in range(2)]
        return self._of_some(word, subject, constants)

    def _of_some(self, word: str, subject: Sql, constants: list[Sql]) -> Sql:
        places = ", ".join(f"{{{n + 1}}}" for n in range(len(constants)))
        return made("BOOLEAN", f"{{0}} {word} ({places})", f"(({{0}}) {word} ({places}))", subject, *constants)

    def _like(self) -> Sql:
        subject, word = self.maker.text(self.rng.choice([0, 0, 1])), self.rng.choice(["LIKE", "NOT LIKE"])
        self.seen[word] += 1
        pattern = self.rng.choice(LIKES)
        if self.rng.random() < 0.3:
            self.seen["LIKE ESCAPE"] += 1
            pattern = self.rng.choice(["a!_%", "%!%", "!!%", "%!_b", "100!%"])
            duck_word = "NOT ILIKE" if word == "NOT LIKE" else "ILIKE"
            return made(
                "BOOLEAN",
                f"{{0}} {word} '{pattern}' ESCAPE '!'",
                f"({{0}} {duck_word} '{pattern}' ESCAPE '!')",
                subject,
            )
        negated = "NOT " if word == "NOT LIKE" else ""
        return made(
            "BOOLEAN", f"{{0}} {word} '{pattern}'", f"({negated}({{0}} ILIKE '{pattern}' ESCAPE '\\'))", subject
        )

    def _regexp(self) -> Sql:
        self.seen["REGEXP_LIKE"] += 1
        pattern, flag = self.rng.choice(PATTERNS), self.rng.choice(["", "", "i", "c"])
        third = f", '{flag}'" if flag else ""
        subject = self.maker.text(self.rng.choice([0, 0, 1]))
        return made(
            "BOOLEAN",
            f"REGEXP_LIKE({{0}}, '{pattern}'{third})",
            f"regexp_matches({{0}}, '{pattern}', '{flag or 'c'}')",
            subject,
        )

    # --- beside each other --------------------------------------------------------------------------------------------

    def _pair(self) -> tuple[Sql, Sql]:
        """Two columns that can be compared."""
        left = self._single()
        kinds = _NUMBERS if left.type in _NUMBERS else (left.type,)
        right = self.rng.choice(self.maker.columns(lambda c: c.single_value and c.type in kinds))
        return self.maker.of_column(left), self.maker.of_column(right)

    def _columns(self) -> Sql:
        self.seen["column to column"] += 1
        left, right = self._pair()
        operator = self.rng.choice(_ORDERS)
        kind = "::DOUBLE" if {left.type, right.type} & {"FLOAT", "DOUBLE"} else ""
        return made("BOOLEAN", f"{{0}} {operator} {{1}}", f"(({{0}}){kind} {operator} ({{1}}){kind})", left, right)

    def _expression(self) -> Sql:
        """Expressions of functions compared."""
        self.seen["expression to expression"] += 1
        left, right, operator = self.maker.number(1), self.maker.number(1), self.rng.choice(_ORDERS)
        return made("BOOLEAN", f"{{0}} {operator} {{1}}", f"(({{0}})::DOUBLE {operator} ({{1}})::DOUBLE)", left, right)

    # --- nulls and truth ----------------------------------------------------------------------------------------------

    def _null(self) -> Sql:
        """The nulls decide in both modes."""
        word = self.rng.choice(["IS NULL", "IS NOT NULL"])
        subject = self.rng.choice(
            [
                self.maker.column,
                self.maker.column,
                lambda: self.maker.number(1),
                lambda: self.maker.text(1),
                self.maker.list,
            ]
        )()
        self.seen[f"{word}{' of an expression' if ' ' in subject.ours or '(' in subject.ours else ''}"] += 1
        found = f"(({subject.nulls}) {word})"
        return Sql(
            f"{subject.ours} {word}" if " " not in subject.ours else f"({subject.ours}) {word}", found, found, "BOOLEAN"
        )

    def _truth(self) -> Sql:
        word = self.rng.choice(["IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"])
        self.seen[word] += 1
        subject = self.maker.column("BOOLEAN") if self.rng.random() < 0.5 else self.condition(0)
        return made("BOOLEAN", f"({{0}}) {word}", f"(({{0}}) {word})", subject)

    def _distinct_from(self) -> Sql:
        word = self.rng.choice(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        self.seen[word] += 1
        if self.rng.random() < 0.4:
            column = self._single()
            ours, duck = self.maker.literals(column)
            subject = self.maker.of_column(column)
            return Sql(f"{subject.ours} {word} {ours}", found := f"({subject.nulls} {word} {duck})", found, "BOOLEAN")
        left, right = self._pair()
        if self.rng.random() < 0.1:
            return Sql(f"{left.ours} {word} NULL", found := f"({left.nulls} {word} NULL)", found, "BOOLEAN")
        kind = "::DOUBLE" if {left.type, right.type} & {"FLOAT", "DOUBLE"} else ""
        return Sql(
            f"{left.ours} {word} {right.ours}",
            found := f"(({left.nulls}){kind} {word} ({right.nulls}){kind})",
            found,
            "BOOLEAN",
        )

    def _boolean(self) -> Sql:
        self.seen["bare BOOLEAN"] += 1
        return self.maker.column("BOOLEAN")

    def _constant(self) -> Sql:
        self.seen["constant condition"] += 1
        text = self.rng.choice(["1 = 1", "1 = 2", "TRUE", "FALSE", "'a' < 'b'", "2 BETWEEN 1 AND 3", "3 IN (1, 2)"])
        return Sql(text, f"({text})", f"({text})", "BOOLEAN", constant=True)

    # --- multi-values, documents, texts -------------------------------------------------------------------------------

    def _multi_value(self) -> Sql:
        """Any value passes; of an excluding predicate none may be excluded."""
        column = self.rng.choice(self.maker.columns(lambda c: not c.single_value))
        operator = self.rng.choice([*OPERATORS, "IN", "NOT IN", "BETWEEN"])
        self.seen[f"multi-value {operator}"] += 1
        texts = [
            (our_literal(column, v, "sql"), literal(column, v))
            for v in (self.rng.choice(column.pool) for _ in range(3))
        ]
        excluded = operator in ("<>", "NOT IN")
        if operator == "BETWEEN":
            ours, duck = f"BETWEEN {texts[0][0]} AND {texts[1][0]}", f"BETWEEN {texts[0][1]} AND {texts[1][1]}"
        elif operator in ("IN", "NOT IN"):
            ours, duck = f"{operator} ({', '.join(t[0] for t in texts)})", f"IN ({', '.join(t[1] for t in texts)})"
        else:
            ours, duck = f"{operator} {texts[0][0]}", f"{'=' if excluded else operator} {texts[0][1]}"
        return made(
            "BOOLEAN",
            _braced("{0} ", ours),
            _braced("(len(list_filter({0}, lambda x: x ", duck, f")) {'= 0' if excluded else '> 0'})"),
            self.maker.of_column(column),
        )

    def _json(self) -> Sql:
        self.seen["JSON_MATCH"] += 1
        document = self.maker.column("JSON")
        word, number = self.rng.choice(WORDS), self.rng.randint(-3, 3)
        condition, duck = self.rng.choice(
            [
                ("\"$.a\" = 'x'", "json_extract_string({0}, '$.a') = 'x'"),
                ("\"$.a\" IN ('y', 'z z')", "json_extract_string({0}, '$.a') IN ('y', 'z z')"),
                (f'"$.n" > {number}', f"json_extract({{0}}, '$.n')::BIGINT > {number}"),
                (f"\"$.tags[*]\" = '{word}'", f"list_contains(json_extract_string({{0}}, '$.tags[*]'), '{word}')"),
                (
                    f'"$.a" = \'x\' OR "$.n" = {number}',
                    f"(json_extract_string({{0}}, '$.a') = 'x' OR json_extract({{0}}, '$.n')::BIGINT = {number})",
                ),
            ]
        )
        found = f"coalesce({duck}, false)"
        # Without a document nothing matches, and under null handling it is unknown.
        nulls = f"(CASE WHEN {document.nulls} IS NOT NULL THEN {found.format(document.nulls)} END)"
        return Sql(f"JSON_MATCH({document.ours}, {quoted(condition)})", found.format(document.plain), nulls, "BOOLEAN")

    def _text(self) -> Sql:
        self.seen["TEXT_MATCH"] += 1
        body = self.maker.of_column(next(c for c in self.maker.table.columns if c.name.endswith("_body")))
        first, second = self.rng.choice(WORDS), self.rng.choice(WORDS)
        ours, duck = self.rng.choice(
            [
                (first, f"list_contains(string_split({{0}}, ' '), '{first}')"),
                (f"{first} AND {second}", f"list_has_all(string_split({{0}}, ' '), ['{first}', '{second}'])"),
                (f"{first} OR {second}", f"list_has_any(string_split({{0}}, ' '), ['{first}', '{second}'])"),
                (f"{first[:2]}*", f"len(list_filter(string_split({{0}}, ' '), lambda x: x LIKE '{first[:2]}%')) > 0"),
            ]
        )
        return made("BOOLEAN", f"TEXT_MATCH({{0}}, '{ours}')", f"({duck})", body)


def _braced(before: str, text: str, after: str = "") -> str:
    """A template with `text`, whose braces are no places, in its middle."""
    return before + text.replace("{", "{{").replace("}", "}}") + after
