"""JSON documents that people write: read them once, report every fault with its path, keep what we do not know.

`parse_json` reads text and refuses what JSON readers usually let pass (two equal keys, NaN). `Document` is the model
that all config models share; `collect` validates one and returns as much of it as is valid, so that checks across
fields still run and the caller sees all faults at once. Keys that nothing reads: unread_keys.py.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from pinotpy.errors import A_VALUE, MISSING, Fault, InvalidConfigError, UserError

DOCUMENT_BYTES_MAX = 8 * 1024 * 1024
FOUND_CHARACTERS_MAX = 80
# A document's faults are all reported, but a generated megabyte of nonsense must not become a megabyte of answer.
FAULTS_MAX = 1000


class Document(BaseModel):
    """A part of a document: frozen, camelCase outside, unknown keys kept in `model_extra`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True
    )


DocumentT = TypeVar("DocumentT", bound=Document)


class _DuplicateKeys(dict[str, Any]):
    """An object as it was written, remembering the keys that stood there more than once."""

    duplicates: tuple[str, ...] = ()


def parse_json(text: str | bytes, what: str) -> Any:
    """Read a JSON text. `what` names the document in messages ("schema", "table config").

    Raises:
        InvalidConfigError: not UTF-8, not JSON (with line and column), NaN or Infinity, equal keys in one object, too
            large.
    """
    if len(text) > DOCUMENT_BYTES_MAX:
        raise InvalidConfigError(
            f"{what} is too large", (Fault("$", f"{len(text)} bytes", f"at most {DOCUMENT_BYTES_MAX} bytes"),)
        )
    try:
        plain = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        value = json.loads(plain, object_pairs_hook=_object_from_pairs, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise InvalidConfigError(
            f"{what} is not JSON", (Fault("$", f"byte 0x{text[error.start]:02x} at {error.start}", "UTF-8 text"),)
        ) from error
    except json.JSONDecodeError as error:
        problem = f"{error.msg.lower()} at line {error.lineno}, column {error.colno}"
        raise InvalidConfigError(f"{what} is not JSON", (Fault("$", problem, "JSON text"),)) from error
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidConfigError(f"{what} is not JSON", (Fault("$", reason, "JSON text"),)) from error
    faults = tuple(_duplicate_faults(value, "$"))
    if faults:
        raise InvalidConfigError(f"{what} has equal keys in one object", faults[:FAULTS_MAX])
    return value


def read_object(document: str | bytes | Mapping[str, Any], what: str) -> dict[str, Any]:
    """The JSON object in text, or a deep copy of a mapping that was read already; raises InvalidConfigError
    otherwise.
    """
    value: Any = document
    if isinstance(document, str | bytes):
        value = parse_json(document, what)
    elif isinstance(document, Mapping):
        value = copy.deepcopy(dict(document))
    if not isinstance(value, dict):
        raise InvalidConfigError(f"{what} is not valid", (Fault("$", describe(value), "a JSON object"),))
    return value


def _object_from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    seen: set[str] = set()
    twice = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
    marked = _DuplicateKeys(value)
    marked.duplicates = tuple(dict.fromkeys(twice))
    return marked


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _duplicate_faults(value: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, dict):
        if isinstance(value, _DuplicateKeys):
            for key in value.duplicates:
                yield Fault(child_path(path, key), "the key more than once", "each key once")
        for key, item in value.items():
            yield from _duplicate_faults(item, child_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicate_faults(item, f"{path}[{index}]")


def describe(value: Any) -> str:
    """A found value in a few words, never longer than a line."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Enum():
            return f"'{value.value}'"
        case str():
            return (
                f"'{value}'"
                if len(value) <= FOUND_CHARACTERS_MAX
                else f"'{value[:FOUND_CHARACTERS_MAX]}…' ({len(value)} characters)"
            )
        case int() | float():
            return f"the number {value}"[:FOUND_CHARACTERS_MAX]
        case Mapping():
            return "an object"
        case Sequence():
            return f"a list of {len(value)}"
    return type(value).__name__


def child_path(path: str, key: str | int) -> str:
    """`$.a` + `b` → `$.a.b`; indexes and keys that are no plain words go in brackets."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return (
        f"{path}.{key}"
        if key.replace("_", "a").replace("$", "a").isalnum()
        else f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    )


def collect(model: type[DocumentT], raw: Any, path: str, faults: list[Fault]) -> DocumentT | None:
    """Validate `raw`, append every fault, and return the model without its faulty parts.

    None if what is left cannot stand (a required key is missing). The result serves further checks; the caller must not
    use it for anything else once there are faults.
    """
    if not isinstance(raw, dict):
        faults.append(Fault(path, describe(raw), "an object"))
        return None
    rest = copy.deepcopy(raw)
    reported = False
    # Each round removes at least one key; two are the usual number (all faults are found in the first).
    for _ in range(64):
        try:
            return model.model_validate(rest)
        except ValidationError as error:
            details = error.errors(include_url=False)
            if not reported:
                faults.extend(_fault(detail, raw, path) for detail in details)
                reported = True
            for detail in details:
                location, root = _plain_location(detail["loc"], rest)
                if not _prune(rest, location if detail["type"] != "missing" or root is None else location[:-1]):
                    return None
    return None


def _plain_location(location: tuple[int | str, ...], raw: Any) -> tuple[tuple[int | str, ...], Any]:
    """pydantic's location without its own marks ('[key]', union member names), and the value that lies there."""
    plain: list[int | str] = []
    here = raw
    for position, step in enumerate(location):
        if isinstance(here, dict) and step in here:  # noqa: SIM114
            here = here[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        elif isinstance(step, str) and isinstance(here, dict) and position == len(location) - 1 and step != "[key]":
            plain.append(step)  # the missing key itself
            return tuple(plain), here
        else:
            continue
        plain.append(step)
    return tuple(plain), here


def _prune(raw: dict[str, Any], location: tuple[int | str, ...]) -> bool:
    """Delete the smallest named part around `location`; False if that is the whole document."""
    containers: list[tuple[dict[str, Any], str]] = []
    here: Any = raw
    for step in location:
        if isinstance(here, dict):
            if step not in here:
                break
            containers.append((here, str(step)))
            here = here[step]
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        else:
            break
    if not containers:
        return False
    container, key = containers[-1]
    del container[key]
    return True


def _fault(detail: Any, raw: Any, path: str) -> Fault:
    location, _ = _plain_location(detail["loc"], raw)
    for step in location:
        path = child_path(path, step)
    if detail["type"] == "missing":
        return Fault(path, MISSING, A_VALUE)
    return Fault(path, describe(detail["input"]), fault_allowed(detail))


def fault_allowed(detail: Any) -> str:
    """What would have been right, from one of pydantic's error details."""
    context = detail.get("ctx", {})
    match detail["type"]:
        case "value_error":
            return str(context["error"])
        case "enum" | "literal_error":
            return f"one of {context['expected']}"
        case "greater_than_equal":
            return f"a number, at least {context['ge']}"
        case "greater_than":
            return f"a number greater than {context['gt']}"
        case "less_than":
            return f"a number less than {context['lt']}"
        case "less_than_equal":
            return f"a number, at most {context['le']}"
        case "string_type":
            return "text"
        case "tuple_type" | "list_type":
            return "a list"
        case "dict_type" | "model_type" | "mapping_type":
            return "an object"
        case "string_too_short":
            return f"text of at least {context['min_length']} characters"
        case "too_short":
            return f"at least {context['min_length']} entries"
        case "too_long":
            return f"at most {context['max_length']} entries"
    return str(detail["msg"]).lower()


def refuse(what: str, faults: Sequence[Fault]) -> None:
    """Raise InvalidConfigError if there are faults."""
    if faults:
        unique = tuple(dict.fromkeys(faults))[:FAULTS_MAX]
        count = "1 fault" if len(unique) == 1 else f"{len(unique)} faults"
        raise InvalidConfigError(f"{what} is not valid, {count}:", unique)


def name_fault(check: Callable[[str], str], name: str, path: str) -> Fault | None:
    """The fault that one of the checks of `pinotpy.names` finds in a name, or None."""
    try:
        check(name)
    except UserError as error:
        return Fault(path, describe(name), error.message)
    return None


# --- scalar types: the old documents write numbers and booleans as text -----------------------------------------------


def _whole_number(value: Any) -> Any:
    try:
        number = int(value.strip() if isinstance(value, str) else value)
    except (ValueError, TypeError, OverflowError):  # 1e999 is JSON, and infinite
        raise ValueError("a whole number") from None
    # Documents are written with numbers of 64 bits.
    if isinstance(value, bool) or (not isinstance(value, str) and value != number) or not -(2**63) <= number < 2**63:
        raise ValueError("a whole number")
    return number


def _truth(value: Any) -> Any:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = float(value.strip())
        except ValueError:
            raise ValueError("a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("a number")
    return float(value)


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise ValueError("text")
    return value


WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
Truth = Annotated[bool, BeforeValidator(_truth)]
Number = Annotated[float, BeforeValidator(_number)]
Text = Annotated[str, BeforeValidator(_text)]


def named(enum: type[Enum]) -> BeforeValidator:
    """Accept the members of `enum` by their value, without regard to case (data types: type_names.py)."""

    def find(value: Any) -> Any:
        if isinstance(value, enum):
            return value
        text = value.strip() if isinstance(value, str) else None
        for member in enum:
            if text is not None and text.lower() == str(member.value).lower():
                return member
        raise ValueError("one of " + ", ".join(str(member.value) for member in enum))

    return BeforeValidator(find)


def to_plain(model: BaseModel) -> dict[str, Any]:
    """The known keys of a model as JSON values, in the order of its fields; nulls and empty lists left out.

    A field with `json_schema_extra={"as_text": True}` is written as text, as the reference writes old numbers.
    """
    plain: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = plain_value(getattr(model, name))
        extra = field.json_schema_extra
        if value is None or value == []:
            continue
        plain[field.alias or name] = str(value) if isinstance(extra, dict) and extra.get("as_text") else value
    return plain


def plain_value(value: Any) -> Any:
    """A value of a model's field as JSON."""
    match value:
        case BaseModel():
            return to_plain(value)
        case Enum():
            return value.value
        case dict():
            return {str(key): plain_value(item) for key, item in value.items()}
        case tuple() | list():
            return [plain_value(item) for item in value]
    return value
