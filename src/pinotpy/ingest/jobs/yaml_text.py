"""YAML and JSON texts of job specs, read as plain objects: the one file that knows PyYAML.

Only the document's tree is taken from the library. Every scalar stays the text that was written (`2014_01` is no
number, `no` no boolean): the models know what each key shall be. `<<` takes in another mapping's keys, as in Pinot's
YAML library. Equal keys, tags that would make objects, and aliases that unfold without end are faults.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from pinotpy.config.document import child_path
from pinotpy.errors import Fault, InvalidConfigError

TEXT_BYTES_MAX: Final = 1 << 20
# Aliases may repeat a part of the document, but not make a large one of a small text.
_NODES_MAX: Final = 100_000
_DEPTH_MAX: Final = 50
_NULLS: Final = ("", "~", "null", "Null", "NULL")
_PLAIN_TAGS: Final = "tag:yaml.org,2002:"
_MERGE: Final = _PLAIN_TAGS + "merge"
_SCALARS: Final = frozenset(_PLAIN_TAGS + name for name in ("str", "int", "float", "bool", "null", "timestamp"))


def parse_yaml(text: str | bytes, what: str) -> Any:
    """Objects, lists, texts and None of a YAML (or JSON) text; `what` names the document in messages.

    Raises:
        InvalidConfigError: not UTF-8, no YAML (with line and column), several documents, equal keys, tags, too large.
    """
    if len(text) > TEXT_BYTES_MAX:
        raise InvalidConfigError(
            f"{what} is too large", (Fault("$", f"{len(text)} bytes", f"at most {TEXT_BYTES_MAX} bytes"),)
        )
    try:
        node = yaml.compose(text.decode("utf-8-sig") if isinstance(text, bytes) else text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise InvalidConfigError(
            f"{what} is no YAML",
            (Fault("$", f"byte 0x{error.object[error.start]:02x} at {error.start}", "UTF-8 text"),),
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidConfigError(f"{what} is no YAML", (Fault("$", _cause(error), "YAML text"),)) from error
    reader = _Reader()
    value = reader.value(node, "$", 0) if node is not None else None
    if reader.faults:
        raise InvalidConfigError(f"{what} is not valid:", tuple(reader.faults[:100]))
    return value


class _Reader:
    """Nodes → plain objects, with the faults that are found on the way."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._num_nodes = 0

    def value(self, node: yaml.Node, path: str, depth: int) -> Any:
        self._num_nodes += 1
        if depth > _DEPTH_MAX or self._num_nodes > _NODES_MAX:
            if self._num_nodes <= _NODES_MAX or not self.faults:
                self.faults.append(
                    Fault(
                        path,
                        "a document that is nested too deeply, or unfolds to too much",
                        f"{_DEPTH_MAX} levels, {_NODES_MAX} values",
                    )
                )
            return None
        match node:
            case yaml.ScalarNode():
                return self._scalar(node, path)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.value(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(node.value)]
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._mapping(node, path, depth)
        self.faults.append(Fault(path, f"the tag {node.tag[:80]}", "plain values, lists and objects"))
        return None

    def _scalar(self, node: yaml.ScalarNode, path: str) -> str | None:
        if node.tag == "tag:yaml.org,2002:null" and node.value in _NULLS and node.style is None:
            return None
        if node.tag not in _SCALARS and node.tag not in (_PLAIN_TAGS + "value", _MERGE):
            self.faults.append(Fault(path, f"the tag {node.tag[:80]}", "plain values, lists and objects"))
        return str(node.value)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        taken_in: list[dict[str, Any]] = []
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(Fault(path, "a key that is no text", "texts as keys"))
                continue
            if key_node.tag == _MERGE:
                taken_in += self._taken_in(value_node, child_path(path, "<<"), depth + 1)
                continue
            key = str(key_node.value)
            if key in mapping:
                self.faults.append(Fault(child_path(path, key), "the key more than once", "each key once"))
            mapping[key] = self.value(value_node, child_path(path, key), depth + 1)
        # Its own keys count before those that are taken in, and of these the first.
        for other in taken_in:
            mapping = {**other, **mapping}
        return mapping

    def _taken_in(self, node: yaml.Node, path: str, depth: int) -> list[dict[str, Any]]:
        """The mappings behind `<<`: one, or a list of them."""
        value = self.value(node, path, depth)
        mappings = value if isinstance(value, list) else [value]
        if not all(isinstance(mapping, dict) for mapping in mappings):
            self.faults.append(Fault(path, "no mapping", "an alias of a mapping, or a list of them"))
            return []
        return mappings


def _cause(error: yaml.YAMLError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nesting that is too deep"
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or error).split("\n", 1)[0].lower()[:200]
    return f"{problem} at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else problem
