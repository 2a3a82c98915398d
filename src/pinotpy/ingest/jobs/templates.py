"""`${name}` in job specs: values from the command line, the environment and a properties file.

Texts are filled in after the document is read, so that no value can change its shape. `\\${` is a plain `${`, and what
is no name in braces (`${filePathPattern:\\1}` of segment names) stays as it is. Source: Pinot's GroovyTemplateUtils,
without the Groovy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from pinotpy.config.document import child_path, describe
from pinotpy.errors import Fault, UserError

_PLACE = re.compile(r"\\(\$)|\$\{\s*([A-Za-z_][A-Za-z0-9_.\-]*)\s*\}|\$([A-Za-z_][A-Za-z0-9_]*)")


def default_values(now_ms: int) -> dict[str, str]:
    """`today` and `yesterday` as yyyy-MM-dd in UTC."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    return {"today": today.isoformat(), "yesterday": (today - timedelta(days=1)).isoformat()}


def parse_values(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    """`key=value` texts of a command line → name → value. Raises UserError for a text without name or `=`."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UserError(f"'{text[:80]}' is no value of a template: expected name=value")
        values[name.strip()] = value
    return values


def fill_templates(value: Any, values: Mapping[str, str], faults: list[Fault], path: str = "$") -> Any:
    """A copy of plain objects with every `${name}` replaced; names without value become faults.

    `$name` without braces is replaced where the name is known, else left alone: it may be the end of a pattern.
    """
    match value:
        case str():
            return _filled(value, values, faults, path)
        case list():
            return [fill_templates(item, values, faults, f"{path}[{index}]") for index, item in enumerate(value)]
        case dict():
            return {key: fill_templates(item, values, faults, child_path(path, key)) for key, item in value.items()}
    return value


def _filled(text: str, values: Mapping[str, str], faults: list[Fault], path: str) -> str:
    if "$" not in text:
        return text

    def replace(place: re.Match[str]) -> str:
        if place[1]:
            return "$"
        name = place[2] or place[3]
        if name in values:
            return values[name]
        if place[2]:
            near = get_close_matches(name, sorted(values), 1, 0.75)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            faults.append(Fault(path, describe(place[0]), f"names that have a value (--values {name}=…){hint}"))
        return place[0]

    return _PLACE.sub(replace, text)
