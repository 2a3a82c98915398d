"""Forms in which the shell shows an answer, beside those of files (`cli/result_files.py`)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from pinotpy.cli.result_table import print_answer, results, visible

TABLE_ROWS_MAX = 10_000
_PIPED_WIDTH = 10_000


class Format(StrEnum):
    """Names as `\\format` takes them."""

    TABLE = "table"
    VERTICAL = "vertical"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"


HELP = {
    Format.TABLE: "columns side by side, with counters",
    Format.VERTICAL: "a line for each value: wide rows",
    Format.CSV: "with a header line",
    Format.JSON: "the broker's answer as it came",
    Format.JSONL: "a JSON object for each row",
}


def as_text(answer: dict[str, Any], form: Format, *, width: int | None, colours: bool) -> str:
    """An answer in a form of text; CSV is not one of them, as it is written from Arrow.

    Args:
        width: of the terminal in characters; None: as wide as the answer.
    """
    match form:
        case Format.JSON:
            return json.dumps(answer, indent=2, ensure_ascii=False) + "\n"
        case Format.JSONL:
            return "".join(
                json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n"
                for names, rows, _ in results(answer)
                for row in rows
            )
        case Format.VERTICAL:
            return "".join(line + "\n" for line in _vertical(answer))
        case Format.TABLE | Format.CSV:
            from rich.console import Console

            text = io.StringIO()
            console = Console(file=text, width=width or _PIPED_WIDTH, force_terminal=colours, no_color=not colours)
            print_answer(console, answer, rows_max=TABLE_ROWS_MAX, more="\\format csv prints all")
            return text.getvalue()


def _vertical(answer: dict[str, Any]) -> Iterator[str]:
    for names, rows, _ in results(answer):
        longest = max((len(name) for name in names), default=0)
        for number, row in enumerate(rows, 1):
            yield f"--- row {number:,}"
            for name, value in zip(names, row, strict=True):
                shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                yield f"{visible(str(name)):<{longest}}  {visible(shown)}"
