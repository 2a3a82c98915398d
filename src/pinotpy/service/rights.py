"""Who may do what: actions, resources, rights, principals. Pure values; `access.py` decides with them.

A right is an action on a resource. Rights on tables are given by raw table name, with `*` as wildcard, and hold for
both halves of a table. ADMIN includes WRITE and READ; WRITE does not include READ, so that a pipeline that pushes
segments need not be able to query. What is not given is denied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from pinotpy.errors import Fault
from pinotpy.names import raw_table_name


class Action(StrEnum):
    """What somebody wants to do."""

    READ = "READ"
    WRITE = "WRITE"
    ADMIN = "ADMIN"


class ResourceKind(StrEnum):
    """What rights are given on."""

    TABLE = "TABLE"
    CLUSTER = "CLUSTER"
    INSTANCE = "INSTANCE"


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing to act on. Name `*` = all of its kind: only a right on `*` allows it."""

    kind: ResourceKind
    name: str = "*"

    def __str__(self) -> str:
        return "the cluster" if self.kind is ResourceKind.CLUSTER else f"{self.kind.value.lower()} '{self.name[:80]}'"


CLUSTER = Resource(ResourceKind.CLUSTER)
ALL_TABLES = Resource(ResourceKind.TABLE)


def table_resource(name: str) -> Resource:
    """The resource of a table, given with or without its type suffix."""
    return Resource(ResourceKind.TABLE, raw_table_name(name))


@lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(literal) for literal in re.split(r"\*+", text)), re.DOTALL)


def _includes(given: frozenset[Action], action: Action) -> bool:
    return action in given or Action.ADMIN in given


@dataclass(frozen=True, slots=True)
class Rights:
    """What a principal may do. `tables`: (name pattern, actions) pairs; several patterns may match one table."""

    tables: tuple[tuple[str, frozenset[Action]], ...] = ()
    cluster: frozenset[Action] = frozenset()
    instances: frozenset[Action] = frozenset()

    def allows(self, action: Action, resource: Resource) -> bool:
        """Whether `action` on `resource` is given. Default deny."""
        match resource.kind:
            case ResourceKind.TABLE:
                return any(
                    _includes(given, action) and self._matches(pattern, resource.name) for pattern, given in self.tables
                )
            case ResourceKind.CLUSTER:
                return _includes(self.cluster, action)
            case ResourceKind.INSTANCE:
                return _includes(self.instances, action)

    @staticmethod
    def _matches(pattern: str, name: str) -> bool:
        if pattern in ("*", name):
            return True
        return "*" in pattern and name != "*" and _pattern(pattern).fullmatch(name) is not None

    def to_json_dict(self) -> dict[str, Any]:
        """The form of the users file."""
        return {
            "tables": {pattern: sorted(given) for pattern, given in self.tables},
            "cluster": sorted(self.cluster),
            "instances": sorted(self.instances),
        }

    @staticmethod
    def from_json_dict(document: object, path: str, faults: list[Fault]) -> Rights:
        """Read the form of the users file; what is wrong is appended to `faults` with its JSON path."""
        if not isinstance(document, Mapping):
            faults.append(Fault(path, repr(document)[:80], "an object with tables, cluster, instances"))
            return Rights()
        faults += [
            Fault(f"{path}.{key}", "unknown key", "tables, cluster, instances")
            for key in document
            if key not in ("tables", "cluster", "instances")
        ]
        tables = document.get("tables", {})
        if not isinstance(tables, Mapping):
            faults.append(Fault(f"{path}.tables", repr(tables)[:80], "an object of name pattern → list of actions"))
            tables = {}
        return Rights(
            tables=tuple(
                (raw_table_name(str(name)), _actions(given, f"{path}.tables.{name}", faults))
                for name, given in tables.items()
            ),
            cluster=_actions(document.get("cluster", []), f"{path}.cluster", faults),
            instances=_actions(document.get("instances", []), f"{path}.instances", faults),
        )


def _actions(given: object, path: str, faults: list[Fault]) -> frozenset[Action]:
    if isinstance(given, list) and all(isinstance(item, str) and item in Action.__members__ for item in given):
        return frozenset(Action(item) for item in given)
    faults.append(Fault(path, repr(given)[:80], f"a list of {', '.join(Action)}"))
    return frozenset()


_ADMIN = frozenset({Action.ADMIN})
ALL_RIGHTS = Rights(tables=(("*", _ADMIN),), cluster=_ADMIN, instances=_ADMIN)


class PrincipalKind(StrEnum):
    """How somebody proved who they are."""

    ANONYMOUS = "anonymous"
    USER = "user"
    TOKEN = "token"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody whose credentials were checked. `narrowed`: a token's own rights; then both must allow."""

    name: str
    kind: PrincipalKind
    rights: Rights
    narrowed: Rights | None = None

    def may(self, action: Action, resource: Resource) -> bool:
        """Whether this principal may do `action` on `resource`."""
        return self.rights.allows(action, resource) and (
            self.narrowed is None or self.narrowed.allows(action, resource)
        )


ANONYMOUS = Principal("anonymous", PrincipalKind.ANONYMOUS, Rights())
# A daemon of the same cluster, known by the cluster token.
DAEMON = Principal("cluster", PrincipalKind.CLUSTER, ALL_RIGHTS)
