"""The error for a call of a function that does not exist: where it stands and which function was perhaps meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.functions.scalar.spec import find_scalar_function, scalar_functions
from pinotpy.pql.aggregation_names import AGGREGATION_NAMES, is_aggregation
from pinotpy.pql.ast import Call, Dialect, Expression
from pinotpy.pql.function_names import canonical_function
from pinotpy.pql.sql_keywords import OPERATOR_NAMES
from pinotpy.query.model.positions import position_text

_NEAR_CHARACTERS_MAX: Final = 60
# What other databases call what is here.
_OF_OTHERS: Final = {
    "countdistinct": "COUNT(DISTINCT x)",
    "uniq": "COUNT(DISTINCT x)",
    "approxcountdistinct": "DISTINCTCOUNTHLL(x)",
    "approxdistinct": "DISTINCTCOUNTHLL(x)",
    "approxpercentile": "PERCENTILETDIGEST(x, 95)",
    "approxquantile": "PERCENTILETDIGEST(x, 95), of 0 to 100",
    "quantile": "PERCENTILE(x, 95), of 0 to 100",
    "percentilecont": "PERCENTILE(x, 95), of 0 to 100",
    "percentiledisc": "PERCENTILE(x, 95), of 0 to 100",
    "median": "PERCENTILE(x, 50)",
    "stddev": "STDDEV_SAMP(x)",
    "stdev": "STDDEV_SAMP(x)",
    "variance": "VAR_SAMP(x)",
    "var": "VAR_SAMP(x)",
    "every": "BOOL_AND(x)",
    "countif": "COUNT(*) FILTER (WHERE …)",
    "sumif": "SUM(x) FILTER (WHERE …)",
    "avgif": "AVG(x) FILTER (WHERE …)",
    "stringagg": "LISTAGG(x, ',')",
    "groupconcat": "LISTAGG(x, ',')",
    "first": "FIRSTWITHTIME(x, time, 'TYPE')",
    "last": "LASTWITHTIME(x, time, 'TYPE')",
    "argmax": "EXPR_MAX(x, measure)",
    "maxby": "EXPR_MAX(x, measure)",
    "argmin": "EXPR_MIN(x, measure)",
    "minby": "EXPR_MIN(x, measure)",
    "ifnull": "COALESCE(x, y)",
    "nvl": "COALESCE(x, y)",
    "isnull": "x IS NULL",
    "if": "CASE WHEN … THEN x ELSE y END",
    "iif": "CASE WHEN … THEN x ELSE y END",
    "decode": "CASE x WHEN … THEN … END",
    "len": "LENGTH(x)",
    "charindex": "STRPOS(x, 'text')",
    "instr": "STRPOS(x, 'text')",
    "locate": "STRPOS(x, 'text')",
    "position": "STRPOS(x, 'text')",
    "ucase": "UPPER(x)",
    "lcase": "LOWER(x)",
    "left": "LEFTSUBSTR(x, n)",
    "right": "RIGHTSUBSTR(x, n)",
    "regexpmatches": "REGEXP_LIKE(x, 'pattern')",
    "regexpsubstr": "REGEXP_EXTRACT(x, 'pattern')",
    "jsonextract": "JSON_EXTRACT_SCALAR(x, '$.path', 'STRING')",
    "jsonextractstring": "JSON_EXTRACT_SCALAR(x, '$.path', 'STRING')",
    "jsonvalue": "JSON_EXTRACT_SCALAR(x, '$.path', 'STRING')",
    "trunc": "TRUNCATE(x, n), or DATETRUNC('DAY', x) of times",
    "tochar": "TODATETIME(x, 'yyyy-MM-dd')",
    "dateformat": "TODATETIME(x, 'yyyy-MM-dd')",
    "strftime": "TODATETIME(x, 'yyyy-MM-dd')",
    "date": "DATETRUNC('DAY', x)",
    "corr": "COVAR_POP(x, y) / (STDDEV_POP(x) * STDDEV_POP(y))",
    "todate": "FROMDATETIME(x, 'yyyy-MM-dd')",
    "datepart": "EXTRACT(YEAR FROM x)",
    "datesub": "DATEADD('DAY', -1, x)",
    "fromunixtime": "FROMEPOCHSECONDS(x)",
    "unixtimestamp": "TOEPOCHSECONDS(x)",
    "getdate": "NOW()",
    "currenttimestamp": "NOW()",
    "safecast": "CAST(x AS TYPE)",
    "trycast": "CAST(x AS TYPE)",
    "convert": "CAST(x AS TYPE)",
}


def unknown_function(call: Call, dialect: Dialect) -> PinotError:
    """QueryExecutionError (200) in PQL, InvalidQueryError (700) in SQL."""
    fault: type[PinotError] = InvalidQueryError if dialect is Dialect.SQL else QueryExecutionError
    count = f"{len(call.args)} {'arguments' if dialect is Dialect.SQL else 'parameters'}"
    hint = _hint(canonical_function(call.name)) if len(call.name) <= _NEAR_CHARACTERS_MAX else ""
    name = call.name if len(call.name) <= _NEAR_CHARACTERS_MAX else call.name[:_NEAR_CHARACTERS_MAX] + "…"
    return fault(f"Unsupported function: {name} with {count}{position_text(call.position)}{hint}")


def _hint(name: str) -> str:
    if name in _OF_OTHERS:
        return f"; write {_OF_OTHERS[name]}"
    known = sorted((scalar_functions().keys() | AGGREGATION_NAMES.keys()) - OPERATOR_NAMES)
    near = get_close_matches(name, known, n=5, cutoff=0.75)
    # SUM, rather than its twin for multi-values, which is as near to SUMM.
    near = [
        candidate for candidate in near if not candidate.endswith("mv") or candidate.removesuffix("mv") not in near
    ] or near
    return f"; did you mean '{near[0]}'?" if near else ""


def is_told(error: PinotError) -> bool:
    """Whether an error of `unknown_function` says what is to be written instead."""
    return error.message.startswith("Unsupported function: ") and "; write " in error.message


def check_functions(expression: Expression) -> None:
    """Raise `unknown_function` for the first call in an expression of SQL whose function does not exist."""
    if not isinstance(expression, Call):
        return
    if (
        expression.name not in OPERATOR_NAMES
        and not is_aggregation(expression.name)
        and find_scalar_function(expression.name) is None
    ):
        raise unknown_function(expression, Dialect.SQL)
    for arg in expression.args:
        check_functions(arg)
